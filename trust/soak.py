#!/usr/bin/python3
"""Nodes come and go without pause while programs write and read back on two mounts.

Workers on both mounts make files of all sizes, append, overwrite, rename, read back and
remove; every byte follows from a seed, so each read is compared with what must be there.
Meanwhile nodes are added, drained and removed by hand, at random.  No system call may fail
and no byte may be wrong.  Afterwards all partitions must have one owner and all files that
are left must read right through both mounts.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from multiprocessing import Event, Process, Queue
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PARTITIONS = 16_384
# How long any command of the file system may take.
COMMAND_SECONDS_MAX = 120
# All workers together leave this many bytes to be read at the end, at most.
LIVE_BYTES_MAX = 96 << 20


def content(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


class Worker:
    """One program: what it keeps in its folder, and what must be in each of its files."""

    def __init__(self, number: int, seed: int, mounts: list[Path], live_bytes_max: int):
        self.random = random.Random(f"{seed}/{number}")
        # Files are made through one mount and read back through either.
        self.folders = [mount / f"worker-{number}" for mount in mounts]
        self.home = self.folders[number % len(mounts)]
        self.files: dict[str, bytes] = {}
        self.live_bytes_max = live_bytes_max
        self.made = self.operations = 0
        self.longest = 0.0

    def live_bytes(self) -> int:
        return sum(map(len, self.files.values()))

    def step(self) -> None:
        begun = time.monotonic()
        actions = [self.make, self.make, self.append, self.overwrite, self.rename, self.check]
        action = self.random.choice(actions) if self.files else self.make
        if self.live_bytes() > self.live_bytes_max:
            action = self.remove
        action()
        self.operations += 1
        self.longest = max(self.longest, time.monotonic() - begun)

    def make(self) -> None:
        self.made += 1
        name = f"file-{self.made}"
        size = self.random.choice([0, 1, 100, 4096, 5000, 70_000, 1 << 20, 3_500_000])
        data = content(self.random.randrange(1 << 60), size)
        (self.home / name).write_bytes(data)
        self.files[name] = data

    def append(self) -> None:
        name = self.any()
        data = content(self.random.randrange(1 << 60), self.random.choice([1, 300, 50_000]))
        with open(self.home / name, "ab") as file:
            file.write(data)
        self.files[name] += data

    def overwrite(self) -> None:
        name = self.any()
        old = self.files[name]
        at = self.random.randrange(len(old) + 1)
        data = content(self.random.randrange(1 << 60), self.random.choice([1, 5000, 200_000]))
        with open(self.home / name, "r+b") as file:
            file.seek(at)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self.files[name] = old[:at] + data + old[at + len(data) :]

    def rename(self) -> None:
        old, new = self.any(), f"renamed-{self.operations}"
        os.rename(self.home / old, self.home / new)
        self.files[new] = self.files.pop(old)

    def check(self) -> None:
        self.compare(self.random.choice(self.folders), self.any())

    def remove(self) -> None:
        name = self.any()
        os.unlink(self.home / name)
        del self.files[name]

    def any(self) -> str:
        return self.random.choice(list(self.files))

    def compare(self, folder: Path, name: str) -> None:
        found, expected = (folder / name).read_bytes(), self.files[name]
        if found != expected:
            at = next(
                (i for i, (a, b) in enumerate(zip(found, expected)) if a != b),
                min(len(found), len(expected)),
            )
            raise AssertionError(
                f"{folder / name}: {len(found)} bytes of {len(expected)}, wrong from byte {at} on"
            )

    def check_all(self) -> None:
        for folder in self.folders:
            listed = sorted(os.listdir(folder))
            if listed != sorted(self.files):
                wrong = sorted(set(listed) ^ set(self.files))
                raise AssertionError(f"{folder} lists other names than it should: {wrong}")
            for name in self.files:
                self.compare(folder, name)


def work(worker: Worker, stop, reports: Queue) -> None:
    try:
        worker.home.mkdir()
        while not stop.is_set():
            worker.step()
        worker.check_all()
        reports.put((None, worker.operations, worker.longest))
    except BaseException as error:
        reports.put((f"{type(error).__name__}: {error}", worker.operations, worker.longest))


class FileSystem:
    def __init__(self, options, scratch: Path):
        self.tidefs, self.state = str(options.tidefs), str(scratch / "state")
        self.environment = dict(os.environ)
        if options.server:
            self.environment["TIDEFS_SERVER"] = options.server
        self.mounts = [scratch / "first", scratch / "second"]
        self.most = options.nodes_max
        self.call(
            *("up", "--nodes", f"1..{self.most}", "--policy", "static"),
            *("--node-memory", options.node_memory, "--mount", str(self.mounts[0])),
        )
        self.mounts[1].mkdir()
        self.call("mount", str(self.mounts[1]))

    def call(self, *words: str) -> str:
        command = [self.tidefs, "--state", self.state, *words]
        done = subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout}")
        return done.stdout.strip()

    def status(self) -> dict:
        return json.loads(self.call("status", "--json"))

    def change(self, chance: random.Random) -> str:
        """Another number of nodes, by any way that leads there; says what was done."""
        status = self.status()
        count = len(status["nodes"])
        used = sum(node["memory_used_bytes"] for node in status["nodes"])
        each = status["nodes"][0]["memory_capacity_bytes"]
        # What is left must take everything, and what is written meanwhile.
        least = max(1, -(-int(used * 1.5) // each))
        wanted = chance.choice([n for n in range(1, self.most + 1) if n >= least and n != count])
        if wanted == count - 1:
            return self.call("drain", str(chance.choice(status["nodes"])["number"]))
        return self.call("scale", str(wanted))


def soak(options) -> list[str]:
    failures = []
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="tidefs-soak-", dir="/tmp") as scratch:
        system = FileSystem(options, Path(scratch))
        try:
            failures = churn(options, system, chance)
        finally:
            system.call("down")
    return failures


def churn(options, system: FileSystem, chance: random.Random) -> list[str]:
    stop, reports = Event(), Queue()
    share = LIVE_BYTES_MAX // options.workers
    workers = [Worker(n, options.seed, system.mounts, share) for n in range(options.workers)]
    processes = [Process(target=work, args=(worker, stop, reports)) for worker in workers]
    for process in processes:
        process.start()
    changes, failures = 0, []
    end = time.monotonic() + options.seconds
    try:
        while time.monotonic() < end and not failures and reports.empty():
            try:
                said = system.change(chance)
                changes += 1
                if options.verbose:
                    print(f"{changes:>4}  {said}", flush=True)
            except AssertionError as error:
                failures.append(str(error))
    finally:
        stop.set()
    found = [reports.get(timeout=COMMAND_SECONDS_MAX) for _ in processes]
    for process in processes:
        process.join(COMMAND_SECONDS_MAX)
    failures += [error for error, _, _ in found if error]
    status = system.status()
    placed = sum(node["partitions"] for node in status["nodes"])
    if placed != PARTITIONS:
        failures.append(f"{placed} of {PARTITIONS} partitions are placed")
    print(
        f"{status['store']}: {changes} changes of the nodes, "
        f"{sum(operations for _, operations, _ in found)} operations of {options.workers} workers, "
        f"the longest {max(longest for _, _, longest in found):.2f} s, seed {options.seed}",
        flush=True,
    )
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=PROJECT / "target/release/tidefs")
    parser.add_argument("--server", help="the server program; default: the one tidefs finds")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="default: another each time")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--nodes-max", type=int, default=5)
    parser.add_argument("--node-memory", default="256MiB")
    parser.add_argument("--verbose", action="store_true", help="a line for each change")
    options = parser.parse_args()
    if not options.tidefs.is_file():
        parser.error(f"there is no program {options.tidefs}; build it: cargo build --release")
    if options.workers < 1 or options.nodes_max < 2:
        parser.error("at least 1 worker and 2 nodes are needed")
    options.tidefs = options.tidefs.resolve()
    if options.seed is None:
        options.seed = random.randrange(1 << 32)
    failures = soak(options)
    for failure in failures:
        print(f"FAILED (seed {options.seed}): {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
