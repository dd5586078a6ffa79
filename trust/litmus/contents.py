"""Bytes: a closed or synced file is seen by the next open on any mount (promises 5, 10 and 11)."""

import mmap
import os
import random

from race import Broken, Race, contest, register

MOST = 300_000


def turns(race: Race, sync: bool, late: bool = False) -> int:
    """Mounts change a file in turn; after each change a new open on any of them reads all of it.
    Older descriptors stay open meanwhile, so that every kernel keeps pages of the file. `late`:
    changes go through them, so that their mount has not looked at the file since."""
    kinds = KINDS if late else [*KINDS, "map"]
    old = []
    for view in race.views:
        (view / "f").touch()
        old.append(os.open(view / "f", os.O_RDWR))

    def play(chance) -> int:
        model, count, held = bytearray(), 0, []
        while race.goes_on(count):
            count += 1
            writer = chance.choice(race.views)
            if late:
                descriptor = old[race.views.index(writer)]
            else:
                descriptor = os.open(writer / "f", os.O_RDWR)
            done = change(descriptor, model, chance, kinds)
            if late:
                os.fsync(descriptor)
            elif sync:
                os.fsync(descriptor)
                held.append(descriptor)
                while len(held) > 3:
                    os.close(held.pop(0))
            else:
                os.close(descriptor)
            reader = chance.choice(race.views)
            found = (reader / "f").read_bytes()
            if found != model:
                raise Broken(
                    f"change {count}, {done} through {writer.parent.name}, "
                    f"read through {reader.parent.name}: {difference(found, model)}"
                )
        return count

    try:
        return race.run(play)[0]
    finally:
        for descriptor in old:
            os.close(descriptor)


# A map would bring back what its mount has of the pages around.
KINDS = ["write", "write", "append", "cut", "grow", "punch", "empty"]


def change(descriptor: int, model: bytearray, chance: random.Random, kinds: list[str]) -> str:
    """Changes a file and what it must hold in the same way."""
    at = chance.randrange(len(model) + 1)
    length = chance.choice([1, 100, 5000, 70_000])
    what = chance.choice(kinds)
    data = chance.randbytes(length)
    if what in ("write", "append"):
        at = at if what == "write" else len(model)
        at = min(at, MOST)
        os.pwrite(descriptor, data, at)
        model[at : at + length] = data
    elif what in ("cut", "empty"):
        at = at if what == "cut" else 0
        os.ftruncate(descriptor, at)
        del model[at:]
    elif what == "grow":
        at = min(len(model) + length, MOST)
        os.ftruncate(descriptor, at)
        model += bytes(max(0, at - len(model)))
        del model[at:]
    elif what == "punch":
        # Nothing is known of a hole but its bytes, so zeros are written.
        end = min(at + length, len(model))
        os.pwrite(descriptor, bytes(end - at), at)
        model[at:end] = bytes(end - at)
    elif model:
        end = min(at + length, len(model))
        with mmap.mmap(descriptor, len(model)) as pages:
            pages[at:end] = data[: end - at]
            pages.flush()
        model[at:end] = data[: end - at]
    return f"{what} at {at}"


def difference(found: bytes, model: bytes) -> str:
    pairs = zip(found, model)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(found), len(model)))
    return f"{len(found)} bytes of {len(model)}, wrong from byte {at} on"


def close_to_open(race: Race) -> int:
    """After `close`, an `open` on any mount sees the bytes."""
    return turns(race, sync=False)


def sync_to_open(race: Race) -> int:
    """After `fsync`, an `open` on any mount sees the bytes."""
    return turns(race, sync=True)


def late_to_open(race: Race) -> int:
    """The same where the writer has not looked at the file since others changed it."""
    return turns(race, sync=True, late=True)


def cut_and_written(race: Race) -> int:
    """One mount cuts a file that another one writes to: the size is that of one of both orders, and
    what is cut off does not come back."""
    length = 200_000
    (race.views[0] / "f").touch()
    descriptors = [os.open(view / "f", os.O_RDWR) for view in race.views]
    data = b"written" * 100

    def place(k: int) -> int:
        return (k * 7919) % (length - len(data))

    def prepare(k: int) -> None:
        descriptor = descriptors[k % len(descriptors)]
        os.pwrite(descriptor, b"o" * length, 0)
        os.fsync(descriptor)

    def write(k: int) -> None:
        descriptor = descriptors[k // 2 % len(descriptors)]
        os.pwrite(descriptor, data, place(k))
        os.fsync(descriptor)

    def cut(k: int) -> None:
        os.ftruncate(descriptors[(k // 2 + 1) % len(descriptors)], 0)

    def judge(k: int, results: list[int]) -> None:
        if any(results):
            raise Broken(f"round {k}: errors {results}")
        path = race.views[k % len(race.views)] / "f"
        found, end = path.read_bytes(), place(k) + len(data)
        if found and (len(found) != end or found[place(k) :] not in (data, bytes(len(data)))):
            raise Broken(f"round {k}: {len(found)} bytes, neither none nor {end} that were written")
        if found.strip(b"\0") not in (b"", data):
            raise Broken(f"round {k}: bytes from before the cut")
        if not found:
            os.truncate(path, length)
            if path.read_bytes() != bytes(length):
                raise Broken(f"round {k}: what was cut off came back")

    try:
        return contest(race, prepare, [write, cut], judge)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def appending(race: Race) -> int:
    """Records that are appended through every mount are there once, whole and in order."""
    (race.views[0] / "log").touch()

    def append_through(number: int):
        def play(chance) -> list[bytes]:
            records = []
            flags = chance.choice([os.O_WRONLY, os.O_RDWR]) | os.O_APPEND
            while race.goes_on(len(records)):
                descriptor = os.open(race.views[number % len(race.views)] / "log", flags)
                for _ in range(chance.randrange(1, 8)):
                    padding = b"." * chance.choice([0, 50, 3000])
                    records.append(b"%d %d %s\n" % (number, len(records), padding))
                    os.write(descriptor, records[-1])
                os.close(descriptor)
            return records

        return play

    wrote = race.run(*[append_through(number) for number in range(4)])
    for view in race.views:
        found = [[], [], [], []]
        for line in (view / "log").read_bytes().splitlines(keepends=True):
            writer = line.split(b" ", 1)[0]
            if writer not in (b"0", b"1", b"2", b"3"):
                raise Broken(f"through {view} there is a torn record: {line[:40]!r}")
            found[int(writer)].append(line)
        for number, (records, there) in enumerate(zip(wrote, found)):
            if records != there:
                raise Broken(
                    f"through {view}: program {number} appended {len(records)} records, "
                    f"{len(there)} are there, {len(set(records) - set(there))} lost"
                )
    return sum(map(len, wrote))


def cutting(race: Race) -> int:
    """A file that is cut, grown and written anew shows zeros or new bytes, never old ones."""
    (race.views[0] / "f").touch()

    def sizes(n: int) -> tuple[int, int]:
        chance = random.Random(n)
        written = chance.choice([10, 5000, 100_000])
        return written, written + chance.choice([0, 10, 9000])

    def step(view, n):
        written, length = sizes(n)
        descriptor = os.open(view / "f", os.O_WRONLY)
        os.ftruncate(descriptor, 0)
        os.ftruncate(descriptor, length)
        os.pwrite(descriptor, bytes([1 + n % 250]) * written, 0)
        os.close(descriptor)

    def look(view, _):
        least = race.ended.value
        seen = (view / "f").read_bytes()
        most = race.begun.value
        if least == most and least > 0:
            written, length = sizes(least)
            if seen != bytes([1 + least % 250]) * written + bytes(length - written):
                raise Broken(f"state {least} does not read as it was written through {view}")
        allowed = {0} | {1 + n % 250 for n in range(least, most + 1)}
        strange = set(seen) - allowed
        return f"bytes {strange} of states before {least}", lambda n: not strange

    return register(race, step, look)


TESTS = [close_to_open, sync_to_open, late_to_open, cut_and_written, appending, cutting]
