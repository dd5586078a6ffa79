"""Locks among the programs of one mount and of several (promises 2 and 12)."""

import errno
import fcntl
import os
import signal
import struct
import time

from race import END_SECONDS_MAX, FORK, Broken, Race

# From <fcntl.h>: locks of open files.
OFD_SETLK, OFD_SETLKW = 37, 38


def flock(file, how: int) -> None:
    fcntl.flock(file, how)


def record(file, how: int) -> None:
    """The first eight bytes."""
    fcntl.lockf(file, how, 8, 0)


def open_file(file, how: int) -> None:
    """The first eight bytes, for the open file and not for the process."""
    kinds = {fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}
    command = OFD_SETLK if how & fcntl.LOCK_NB else OFD_SETLKW
    lock = struct.pack("hhqqi4x", kinds[how & ~fcntl.LOCK_NB], os.SEEK_SET, 0, 8, 0)
    fcntl.fcntl(file, command, lock)


def counting(race: Race, lock) -> int:
    """Programs on every mount count up in one file that each of them keeps open, each step under
    the lock; others look under a shared lock and see no step half done."""
    (race.views[0] / "count").write_bytes(bytes(16))

    def count(view):
        def play(_) -> int:
            steps = 0
            with open(view / "count", "r+b", buffering=0) as file:
                while race.goes_on(steps):
                    lock(file, fcntl.LOCK_EX)
                    number = struct.unpack("<qq", os.pread(file.fileno(), 16, 0))[0]
                    os.pwrite(file.fileno(), struct.pack("<q", number + 1), 0)
                    os.pwrite(file.fileno(), struct.pack("<q", number + 1), 8)
                    lock(file, fcntl.LOCK_UN)
                    steps += 1
            return steps

        return play

    def look(chance) -> int:
        looks = 0
        view = chance.choice(race.views)
        with open(view / "count", "r+b", buffering=0) as file:
            while race.goes_on(looks):
                lock(file, fcntl.LOCK_SH)
                one, other = struct.unpack("<qq", os.pread(file.fileno(), 16, 0))
                lock(file, fcntl.LOCK_UN)
                if one != other:
                    raise Broken(f"a step is half done: {one} and {other}")
                looks += 1
        return looks

    programs = [count(view) for view in race.views for _ in range(2)]
    steps = race.run(*programs, look)[:-1]
    found = struct.unpack("<qq", (race.views[-1] / "count").read_bytes())
    if found != (sum(steps), sum(steps)) or min(steps) == 0:
        raise Broken(f"{steps} steps were counted as {found}")
    return found[0]


def whole_file(race: Race) -> int:
    """`flock` keeps others out."""
    return counting(race, flock)


def records(race: Race) -> int:
    """`fcntl` keeps others out of a range."""
    return counting(race, record)


def open_files(race: Race) -> int:
    """`fcntl` keeps other open files out of a range."""
    return counting(race, open_file)


class Holder:
    """A program that holds a lock until it is killed."""

    def __init__(self, path, lock):
        holds = FORK.Event()

        def hold():
            with open(path, "r+b") as file:
                lock(file, fcntl.LOCK_EX)
                holds.set()
                while True:
                    signal.pause()

        self.process = FORK.Process(target=hold, daemon=True)
        self.process.start()
        if not holds.wait(END_SECONDS_MAX):
            self.process.kill()
            raise Broken("a free lock is not given")

    def die(self) -> None:
        self.process.kill()
        self.process.join(END_SECONDS_MAX)


def death(race: Race) -> int:
    """The lock of a program that is killed is free, on every mount."""
    (race.views[0] / "lock").touch()
    rounds = 0
    end = time.monotonic() + race.seconds
    while time.monotonic() < end or rounds == 0:
        for lock in (flock, record, open_file):
            holder = Holder(race.chance.choice(race.views) / "lock", lock)
            with open(race.chance.choice(race.views) / "lock", "r+b") as file:
                if take(lock, file):
                    raise Broken("a lock is given twice")
                holder.die()
                give_up = time.monotonic() + END_SECONDS_MAX
                while not take(lock, file):
                    if time.monotonic() > give_up:
                        raise Broken("the lock of a killed program is not free")
                    time.sleep(0.001)
        rounds += 1
    return rounds


def mount_death(race: Race) -> int:
    """The locks of a mount whose process is killed are free a while later. Only where a mount is a
    process of its own."""
    (race.views[0] / "lock").touch()
    with race.mounted.one_more() as extra:
        if extra is None:
            return 0
        holders = [Holder(extra.mount / race.name / "lock", lock) for lock in (flock, record)]
        try:
            with open(race.views[0] / "lock", "r+b") as file:
                if take(flock, file) or take(record, file):
                    raise Broken("a lock is given twice")
                extra.kill()
                give_up = time.monotonic() + END_SECONDS_MAX
                for lock in (flock, record):
                    while not take(lock, file):
                        if time.monotonic() > give_up:
                            raise Broken("the lock of a killed mount is not free")
                        time.sleep(0.05)
        finally:
            for holder in holders:
                holder.die()
    return len(holders)


def signals(race: Race) -> int:
    """Who waits for a lock hears signals: a handler ends the wait or lets it go on, and a kill ends
    the program."""
    (race.views[0] / "lock").touch()
    rounds = 0
    end = time.monotonic() + race.seconds
    while time.monotonic() < end or rounds == 0:
        for lock in (flock, record):
            holder = Holder(race.chance.choice(race.views) / "lock", lock)
            path = race.chance.choice(race.views) / "lock"
            waits = [FORK.Process(target=wait, args=(path, lock, ends), daemon=True) for ends in (1, 0)]
            try:
                for program in waits:
                    program.start()
                waits[0].join(END_SECONDS_MAX)
                if waits[0].exitcode != 0:
                    raise Broken(f"an alarm did not end a wait: {waits[0].exitcode}")
                time.sleep(race.chance.random() * 0.1)
                if waits[1].exitcode is not None:
                    raise Broken(f"a wait ended by itself: {waits[1].exitcode}")
                if rounds % 2:
                    waits[1].kill()
                else:
                    holder.die()
                waits[1].join(END_SECONDS_MAX)
                wanted = -signal.SIGKILL if rounds % 2 else 0
                if waits[1].exitcode != wanted:
                    raise Broken(f"a wait ended with {waits[1].exitcode} and not {wanted}")
            finally:
                holder.die()
                for program in waits:
                    program.kill()
        rounds += 1
    return rounds


class Alarm(Exception):
    """What a handler raises to end a call."""


def wait(path, lock, ends: bool) -> None:
    """Waits for a lock; ended by an alarm, or in spite of some."""

    rung = False

    def ring(*_) -> None:
        nonlocal rung
        # The next one may come before this one is handled.
        if ends and not rung:
            rung = True
            raise Alarm

    signal.signal(signal.SIGALRM, ring)
    with open(path, "r+b") as file:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            lock(file, fcntl.LOCK_EX)
        except Alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    os._exit(1 if ends else 0)


def circles(race: Race) -> int:
    """Of programs on one mount that wait for each other one is told, and the others go on."""
    view = race.chance.choice(race.views)
    (view / "circle").write_bytes(bytes(8))
    gate = FORK.Barrier(3)
    rounds = FORK.Value("q", 0, lock=False)
    goes_on = FORK.Value("b", 1, lock=False)
    told = FORK.Array("b", 3, lock=False)

    def player(number: int):
        def play(_) -> int:
            with open(view / "circle", "r+b", buffering=0) as file:
                while True:
                    if number == 0:
                        goes_on.value = race.goes_on(rounds.value)
                    gate.wait(END_SECONDS_MAX)
                    if not goes_on.value:
                        return rounds.value
                    fcntl.lockf(file, fcntl.LOCK_EX, 1, number)
                    gate.wait(END_SECONDS_MAX)
                    told[number] = 0
                    try:
                        fcntl.lockf(file, fcntl.LOCK_EX, 1, (number + 1) % 3)
                    except OSError as error:
                        if error.errno != errno.EDEADLK:
                            raise
                        told[number] = 1
                    fcntl.lockf(file, fcntl.LOCK_UN)
                    gate.wait(END_SECONDS_MAX)
                    if number == 0:
                        if sum(told) != 1:
                            raise Broken(f"told of a circle: {list(told)}")
                        rounds.value += 1

        return play

    race.run(*[player(number) for number in range(3)])
    return rounds.value


def take(lock, file) -> bool:
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


TESTS = [whole_file, records, open_files, death, mount_death, signals, circles]
