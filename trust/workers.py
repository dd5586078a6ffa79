"""Programs that write and read back on the mounts of one file system.

Every byte follows from a seed, so each read is compared with what must be there.  A worker
works through one mount and reads back through any.  Each kind does one sort of work.
"""

import os
import random
import time
from multiprocessing import Queue
from pathlib import Path

BLOCK = 1 << 20
# Of the times that calls took, so many are kept, chosen at random.
TIMES_KEPT = 20_000


def content(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


class WrongBytes(Exception):
    """A read did not give what had been written."""


class FailedCall(Exception):
    """A system call answered with an error."""


class Times:
    """How long calls took: all of them counted, a sample of bounded size kept with when each began, and
    for each second the longest of those that were under way in it."""

    def __init__(self, chance: random.Random):
        self.chance, self.count = chance, 0
        self.kept: list[tuple[float, float]] = []
        self.longest: dict[int, float] = {}

    def add(self, begun: float, seconds: float) -> None:
        self.count += 1
        for second in range(int(begun), int(begun + seconds) + 1):
            self.longest[second] = max(self.longest.get(second, 0.0), seconds)
        if len(self.kept) < TIMES_KEPT:
            self.kept.append((begun, seconds))
        elif (at := self.chance.randrange(self.count)) < TIMES_KEPT:
            self.kept[at] = (begun, seconds)


class Worker:
    """One program: what it keeps in its folder, and what must be in each of its files."""

    def __init__(self, number: int, seed: int, mounts: list[Path], live_bytes_max: int):
        self.random = random.Random(f"{seed}/{number}")
        self.times = Times(random.Random(number))
        # Files are made through one mount and read back through either.
        self.folders = [mount / f"worker-{number}" for mount in mounts]
        self.home = self.folders[number % len(mounts)]
        self.files: dict[str, bytes] = {}
        self.live_bytes_max = live_bytes_max
        self.made = self.operations = 0

    def live_bytes(self) -> int:
        return sum(map(len, self.files.values()))

    def call(self, function, *arguments):
        """Every system call on the mounts goes through here, so that none is not timed."""
        begun = time.monotonic()
        try:
            return function(*arguments)
        except OSError as error:
            took = time.monotonic() - begun
            what = [one if len(repr(one)) < 200 else "..." for one in arguments]
            raise FailedCall(f"{function.__name__}{tuple(map(str, what))} after {took:.3f} s: {error}")
        finally:
            self.times.add(begun, time.monotonic() - begun)

    def step(self) -> None:
        action = self.choose()
        if self.live_bytes() > self.live_bytes_max:
            action = self.remove
        action()
        self.operations += 1

    def choose(self):
        raise NotImplementedError

    def new_name(self) -> str:
        self.made += 1
        return f"file-{self.made}"

    def some_bytes(self, *sizes: int) -> bytes:
        return content(self.random.randrange(1 << 60), self.random.choice(sizes))

    def write_at(self, name: str, offset: int, data: bytes, flags: int) -> None:
        file = self.call(os.open, self.home / name, flags | os.O_WRONLY, 0o644)
        try:
            done = 0
            while done < len(data):
                piece = data[done : done + BLOCK]
                done += self.call(os.pwrite, file, piece, offset + done)
        finally:
            self.call(os.close, file)

    def make(self, *sizes: int) -> None:
        name, data = self.new_name(), self.some_bytes(*sizes)
        self.write_at(name, 0, data, os.O_CREAT | os.O_EXCL)
        self.files[name] = data

    def append(self) -> None:
        name = self.any()
        data = self.some_bytes(1, 300, 50_000)
        file = self.call(os.open, self.home / name, os.O_WRONLY | os.O_APPEND)
        try:
            self.call(os.write, file, data)
        finally:
            self.call(os.close, file)
        self.files[name] += data

    def overwrite(self) -> None:
        name = self.any()
        old = self.files[name]
        at = self.random.randrange(len(old) + 1)
        data = self.some_bytes(1, 5000, 200_000)
        self.write_at(name, at, data, os.O_SYNC)
        self.files[name] = old[:at] + data + old[at + len(data) :]

    def rename(self) -> None:
        old, new = self.any(), f"renamed-{self.operations}"
        self.call(os.rename, self.home / old, self.home / new)
        self.files[new] = self.files.pop(old)

    def replace(self) -> None:
        """A rename onto another file, which is gone then."""
        if len(self.files) < 2:
            return self.rename()
        old, new = self.random.sample(list(self.files), 2)
        self.call(os.replace, self.home / old, self.home / new)
        self.files[new] = self.files.pop(old)

    def check(self) -> None:
        self.compare(self.random.choice(self.folders), self.any())

    def check_part(self) -> None:
        """A few bytes in the middle."""
        name = self.any()
        expected = self.files[name]
        at = self.random.randrange(len(expected) + 1)
        file = self.call(os.open, self.random.choice(self.folders) / name, os.O_RDONLY)
        try:
            found = self.call(os.pread, file, 4096, at)
        finally:
            self.call(os.close, file)
        if found != expected[at : at + 4096]:
            raise WrongBytes(f"{self.home / name}: wrong bytes at {at}")

    def remove(self) -> None:
        name = self.any()
        self.call(os.unlink, self.home / name)
        del self.files[name]

    def any(self) -> str:
        return self.random.choice(list(self.files))

    def compare(self, folder: Path, name: str) -> None:
        file = self.call(os.open, folder / name, os.O_RDONLY)
        pieces = []
        try:
            while piece := self.call(os.read, file, BLOCK):
                pieces.append(piece)
        finally:
            self.call(os.close, file)
        found, expected = b"".join(pieces), self.files[name]
        if found != expected:
            at = next(
                (i for i, (a, b) in enumerate(zip(found, expected)) if a != b),
                min(len(found), len(expected)),
            )
            raise WrongBytes(
                f"{folder / name}: {len(found)} bytes of {len(expected)}, wrong from byte {at} on"
            )

    def check_all(self) -> None:
        for folder in self.folders:
            listed = sorted(os.listdir(folder))
            if listed != sorted(self.files):
                wrong = sorted(set(listed) ^ set(self.files))
                raise WrongBytes(f"{folder} lists other names than it should: {wrong}")
            for name in self.files:
                self.compare(folder, name)


class Sequential(Worker):
    """Large files, from their beginning to their end."""

    def choose(self):
        return self.random.choice([self.make_large, self.check]) if self.files else self.make_large

    def make_large(self) -> None:
        self.make(1 << 20, 3_500_000, 6 << 20)


class Random(Worker):
    """Parts of a few files of several MiB."""

    def choose(self):
        if len(self.files) < 3:
            return lambda: self.make(3 << 20)
        return self.random.choice([self.overwrite, self.check_part, self.check_part, self.check])


class Small(Worker):
    """Many files of a few bytes."""

    def choose(self):
        made = [self.make_small, self.make_small, self.append, self.check, self.remove]
        return self.random.choice(made) if self.files else self.make_small

    def make_small(self) -> None:
        self.make(0, 1, 100, 4096, 5000, 70_000)


class Renames(Worker):
    """Files that change their names, onto free ones and onto others'."""

    def choose(self):
        if len(self.files) < 20:
            return lambda: self.make(1, 100, 5000)
        return self.random.choice([self.rename, self.rename, self.replace, self.check])


KINDS = [Sequential, Random, Small, Renames]


def work(worker: Worker, stop, reports: Queue) -> None:
    """Until it is stopped; says what went wrong, as a failed call or as wrong bytes."""
    failed, wrong = None, None
    try:
        worker.call(os.mkdir, worker.home)
        while not stop.is_set():
            worker.step()
        worker.check_all()
    except WrongBytes as error:
        wrong = str(error)
    except BaseException as error:
        failed = f"{type(error).__name__}: {error}"
    times = worker.times
    reports.put((failed, wrong, worker.operations, times.count, times.longest, times.kept))
