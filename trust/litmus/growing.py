"""Files that grow while others read them, and begin anew: logs (promises 1, 7 and 10).

Each byte tells where it belongs and none is zero, so that a reader knows what was made up.
"""

import os
import time

from race import FORK, Broken, Race, contest

# No larger than this, whatever the time.
MOST = 8 << 20
PERIOD = bytes(1 + (at * 7 + at // 251) % 250 for at in range(250 * 251))


def belongs(at: int, length: int) -> bytes:
    start = at % len(PERIOD)
    return (PERIOD[start:] + PERIOD * (length // len(PERIOD) + 1))[:length]


def following(race: Race) -> int:
    """Whoever follows a file that grows, through whichever mount, reads as many bytes as it is told that
    there are, and never zeros, whoever else looks at the file."""
    (race.views[0] / "log").touch()
    total = race.begun

    def write(chance) -> int:
        count = at = 0
        while race.goes_on(count) and at < MOST:
            view = chance.choice(race.views)
            data = belongs(at, chance.choice([1, 100, 100, 3000, 9000]))
            append = os.O_APPEND if chance.random() < 0.5 else 0
            descriptor = os.open(view / "log", os.O_WRONLY | append)
            os.lseek(descriptor, 0, os.SEEK_END)
            os.write(descriptor, data)
            if chance.random() < 0.2:
                os.fsync(descriptor)
            os.close(descriptor)
            at, count = at + len(data), count + 1
            total.value = at
            time.sleep(chance.random() * 0.004)
        race.ended.value = 1
        return count

    def follow(view):
        def play(_) -> int:
            at = looks = 0
            descriptor = os.open(view / "log", os.O_RDONLY)
            while True:
                is_over = race.ended.value == 1
                least, told = total.value, os.fstat(descriptor).st_size
                if told < max(at, least):
                    raise Broken(f"{told} bytes are told through {view}, after {max(at, least)}")
                while at < told:
                    found = os.pread(descriptor, told - at, at)
                    if not found:
                        raise Broken(f"{told} bytes are told through {view}, and {at} are there")
                    if found != belongs(at, len(found)):
                        zeros = found.count(0)
                        raise Broken(f"{zeros} zeros of {len(found)} bytes at {at}, through {view}")
                    at += len(found)
                looks += 1
                if is_over or race.over.is_set():
                    os.close(descriptor)
                    return looks

        return play

    def look(view):
        def play(_) -> int:
            looks = 0
            while race.ended.value == 0 and not race.over.is_set():
                os.stat(view / "log")
                with os.scandir(view) as entries:
                    looks += sum(entry.stat().st_size >= 0 for entry in entries)
                time.sleep(0.0005)
            return looks

        return play

    followers = [follow(view) for view in race.views]
    lookers = [look(view) for view in race.views]
    return sum(race.run(write, *followers, *lookers))


def shared_log(race: Race) -> int:
    """Programs on all mounts append records to one file and keep it open, and one on each mount follows it:
    none reads zeros, and in the end each record is there once and whole."""
    length, path = 100, "shared"
    (race.views[0] / path).touch()
    views = race.views * 2 if len(race.views) == 1 else race.views
    left = FORK.Value("q", len(views))

    def write(number: int, view):
        def play(chance) -> int:
            count = 0
            descriptor = os.open(view / path, os.O_WRONLY | os.O_APPEND)
            while race.goes_on(count) and count * length < MOST:
                os.write(descriptor, bytes([1 + number]) * length)
                count += 1
                if chance.random() < 0.05:
                    os.fsync(descriptor)
                elif chance.random() < 0.05:
                    os.close(descriptor)
                    descriptor = os.open(view / path, os.O_WRONLY | os.O_APPEND)
                if chance.random() < 0.9:
                    time.sleep(chance.random() * 0.03)
            os.close(descriptor)
            with left.get_lock():
                left.value -= 1
            return count

        return play

    def follow(view):
        def play(_) -> int:
            at = looks = 0
            descriptor = os.open(view / path, os.O_RDONLY)
            while True:
                is_over = left.value == 0 or race.over.is_set()
                while found := os.pread(descriptor, 1 << 16, at):
                    if zeros := found.count(0):
                        raise Broken(f"{zeros} zeros of {len(found)} bytes at {at}, through {view}")
                    at += len(found)
                looks += 1
                if is_over:
                    os.close(descriptor)
                    return looks
                time.sleep(0.002)

        return play

    writers = [write(number, view) for number, view in enumerate(views)]
    counts = race.run(*writers, *[follow(view) for view in race.views])
    for view in race.views:
        found = (view / path).read_bytes()
        records = [found[at : at + length] for at in range(0, len(found), length)]
        for number, count in enumerate(counts[: len(views)]):
            whole = records.count(bytes([1 + number]) * length)
            if whole != count:
                raise Broken(f"{whole} of {count} records of writer {number} through {view}")
        if len(records) != sum(counts[: len(views)]):
            raise Broken(f"{len(records)} records through {view}, of {counts}")
    return sum(counts)


def cut_by_path(race: Race) -> int:
    """What is appended after a file was cut by its path is at its start: whoever cut it, whichever
    descriptors are open."""

    def play(chance) -> int:
        view, count = chance.choice(race.views), 0
        path = view / "job"
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        while race.goes_on(count):
            count += 1
            for number in range(chance.randrange(1, 4)):
                os.write(descriptor, bytes([1 + number]) * chance.choice([1, 100, 5000, 200_000]))
            other = chance.choice(race.views)
            if other != view:
                # What another mount does not know of is not cut by it for sure.
                os.fsync(descriptor)
            if chance.random() < 0.5:
                os.truncate(other / "job", 0)
            else:
                os.close(os.open(other / "job", os.O_WRONLY | os.O_TRUNC))
            record = b"first\n" * chance.choice([1, 1000])
            os.write(descriptor, record)
            found = path.read_bytes()
            if found != record:
                raise Broken(
                    f"round {count}, cut through {other}: {len(found)} bytes, "
                    f"{found.count(0)} of them zeros, instead of {len(record)}"
                )
        os.close(descriptor)
        return count

    return race.run(play)[0]


def cut_beside_appends(race: Race) -> int:
    """Records that are appended while another program of the mount cuts the file begin where it was cut."""
    view, length = race.views[0], 700
    path = view / "log"
    path.touch()
    appender = os.open(path, os.O_WRONLY | os.O_APPEND)

    def prepare(k: int) -> None:
        os.write(appender, b"o" * length)

    def append(k: int) -> None:
        for number in range(4):
            os.write(appender, bytes([1 + number]) * length)

    def cut(k: int) -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))

    def judge(k: int, results: list[int]) -> None:
        found = path.read_bytes()
        whole = b"".join(bytes([1 + number]) * length for number in range(4))
        if any(results) or not whole.endswith(found):
            raise Broken(f"round {k}: errors {results}, {len(found)} bytes, {found.count(0)} zeros")
        os.truncate(path, 0)

    try:
        return contest(race, prepare, [append, cut], judge)
    finally:
        os.close(appender)


TESTS = [following, shared_log, cut_by_path, cut_beside_appends]
