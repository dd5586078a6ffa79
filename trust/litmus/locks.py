"""Locks among the programs of one mount (promise 2)."""

import fcntl
import os
import signal
import struct
import time

from race import END_SECONDS_MAX, FORK, Broken, Race


def counting(race: Race, lock) -> int:
    """Several programs count up in one file, each step under the lock."""
    view = race.chance.choice(race.views)
    (view / "count").write_bytes(bytes(8))

    def count(_) -> int:
        steps = 0
        with open(view / "count", "r+b", buffering=0) as file:
            while race.goes_on(steps):
                lock(file, fcntl.LOCK_EX)
                number = struct.unpack("<q", os.pread(file.fileno(), 8, 0))[0]
                os.pwrite(file.fileno(), struct.pack("<q", number + 1), 0)
                lock(file, fcntl.LOCK_UN)
                steps += 1
        return steps

    steps = race.run(count, count, count)
    found = struct.unpack("<q", (view / "count").read_bytes())[0]
    if found != sum(steps) or min(steps) == 0:
        raise Broken(f"{steps} steps were counted as {found}")
    return found


def whole_file(race: Race) -> int:
    """`flock` keeps others out."""
    return counting(race, fcntl.flock)


def records(race: Race) -> int:
    """`fcntl` keeps others out of a range."""
    return counting(race, lambda file, how: fcntl.lockf(file, how, 8, 0))


def death(race: Race) -> int:
    """The lock of a program that is killed is free."""
    view = race.chance.choice(race.views)
    (view / "lock").touch()
    rounds = 0
    end = time.monotonic() + race.seconds
    while time.monotonic() < end or rounds == 0:
        for lock in (fcntl.flock, fcntl.lockf):
            holds = FORK.Event()

            def hold():
                with open(view / "lock", "r+b") as file:
                    lock(file, fcntl.LOCK_EX)
                    holds.set()
                    signal.pause()

            holder = FORK.Process(target=hold, daemon=True)
            holder.start()
            if not holds.wait(END_SECONDS_MAX):
                raise Broken("a free lock is not given")
            with open(view / "lock", "r+b") as file:
                if take(lock, file):
                    raise Broken("a lock is given twice")
                os.kill(holder.pid, signal.SIGKILL)
                holder.join(END_SECONDS_MAX)
                give_up = time.monotonic() + END_SECONDS_MAX
                while not take(lock, file):
                    if time.monotonic() > give_up:
                        raise Broken("the lock of a killed program is not free")
                    time.sleep(0.001)
        rounds += 1
    return rounds


def take(lock, file) -> bool:
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


TESTS = [whole_file, records, death]
