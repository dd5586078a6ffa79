"""A mount whose process is stopped for so long that it is expelled, and goes on (promises 2, 7, 10, 11,
12 and 19)."""

import errno
import fcntl
import os
import signal
import time

from race import END_SECONDS_MAX, FORK, Broken, Race

# It goes on at any time within so many seconds after it was expelled.
STOPPED_SECONDS_MAX = 2
# How long the others may not know that it is back, on a busy machine.
UNKNOWN_SECONDS_MAX = 10
FILES = 20


def flag():
    return FORK.Event()


def wait_for(event, what: str) -> None:
    if not event.wait(END_SECONDS_MAX):
        raise Broken(f"nobody {what}")


def try_lock(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def stopped(race: Race) -> int:
    """While a mount stands still the others make, remove, replace and write files, append, and want its
    lock; when it goes on it sees all that at once, appends where nobody else did, is told that its lock is
    gone, and gives nobody one that is taken. Only where a mount is a process of its own."""
    with race.mounted.one_more() as extra:
        if extra is None:
            return 0
        try:
            return play(race, extra, extra.mount / race.name)
        finally:
            # Else nobody could unmount it.
            os.kill(extra.server, signal.SIGCONT)


def play(race: Race, extra, there) -> int:
    here = race.views[0]
    for number in range(FILES):
        (here / f"gone-{number}").touch()
        (here / f"status-{number}").write_text("before")
        (here / f"bytes-{number}").write_text("before" * 1000)
    for name in ("log", "lock"):
        (here / name).touch()
    begun, still, over, taken = flag(), flag(), flag(), flag()

    def resident(_) -> tuple[list[bytes], list[bytes], bool]:
        """Through the mount that is stopped: has a lock, and appends all the time. What was synced is
        there, what failed is or is not."""
        number, synced, doubtful = 0, [], []
        with open(there / "lock", "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            look(there, "before")
            log = os.open(there / "log", os.O_WRONLY | os.O_APPEND)
            while not over.is_set():
                record = b"0 %d\n" % number
                number += 1
                written = is_done(lambda: (os.write(log, record), os.fsync(log)))
                (synced if written else doubtful).append(record)
                begun.set()
                time.sleep(0.001)
            os.close(log)
            is_told = not is_done(lambda: os.pwrite(lock.fileno(), b"late", 0))
        return synced, doubtful, is_told

    def others(chance) -> list[bytes]:
        """Through the other mounts, while that one stands still."""
        wait_for(still, "stopped the mount")
        for number in range(FILES):
            view = chance.choice(race.views)
            (view / f"made-{number}").write_text("after")
            (view / f"gone-{number}").unlink()
            (view / "new").write_text("after")
            os.rename(view / "new", view / f"status-{number}")
            (view / f"bytes-{number}").write_text("after" * 1000)
        records = []
        log = os.open(chance.choice(race.views) / "log", os.O_WRONLY | os.O_APPEND)
        with open(chance.choice(race.views) / "lock", "r+b") as lock:
            while not over.is_set():
                records.append(b"1 %d\n" % len(records))
                os.write(log, records[-1])
                if not taken.is_set() and try_lock(lock):
                    taken.set()
                time.sleep(0.001)
        os.close(log)
        return records

    def conductor(chance) -> int:
        try:
            return conduct(chance)
        finally:
            over.set()

    def conduct(chance) -> int:
        wait_for(begun, "began to append")
        os.kill(extra.server, signal.SIGSTOP)
        still.set()
        # However long that takes on a busy machine: a lock that is lost, and that nobody has, is one to be had.
        wait_for(taken, "took the lock of the mount that stands still")
        time.sleep(chance.uniform(0, STOPPED_SECONDS_MAX))
        os.kill(extra.server, signal.SIGCONT)
        looks = look(there, "after")
        # Whoever took the lock keeps it.
        for view in [there, *race.views]:
            with open(view / "lock", "r+b") as lock:
                if try_lock(lock):
                    raise Broken(f"a lock is given twice, through {view}")
        return looks + meet(race, there)

    (appended, doubtful, is_told), others_appended, looks = race.run(resident, others, conductor)
    if not appended or not others_appended:
        raise Broken("nothing was appended")
    if not is_told:
        raise Broken("a program is not told that its lock is lost")
    for view in [there, *race.views]:
        # The place of an append that failed reads as zeros.
        found = (view / "log").read_bytes().replace(b"\0", b"").splitlines(keepends=True)
        sure = [line for line in found if line not in doubtful]
        for kind, records in ((b"0", appended), (b"1", others_appended)):
            kept = [line for line in sure if line.startswith(kind)]
            if kept != records:
                raise Broken(f"{len(records)} records were appended, {view} has {len(kept)}")
        if len(sure) != len(appended) + len(others_appended):
            raise Broken(f"{view} has records that nobody appended")
    return looks + len(appended) + len(others_appended)


def is_done(work) -> bool:
    """Or its bytes were lost with the mount's earlier term."""
    try:
        work()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return False
    return True


def look(view, when: str) -> int:
    """All names and bytes through a mount are those of before, or after, it was stopped."""
    for number in range(FILES):
        made, gone = (view / f"{kind}-{number}" for kind in ("made", "gone"))
        if made.exists() != (when == "after") or gone.exists() != (when == "before"):
            raise Broken(f"{number}: {when} the stop, {made.exists()=}, {gone.exists()=}")
        if (view / f"status-{number}").read_text() != when:
            raise Broken(f"status-{number} is not the one from {when} the stop")
        if (view / f"bytes-{number}").read_text() != when * 1000:
            raise Broken(f"bytes-{number} are not those from {when} the stop")
    return 4 * FILES


def meet(race: Race, there) -> int:
    """What is done through any mount is seen through every other one, once they know of each other."""
    (there / "back").touch()
    give_up = time.monotonic() + UNKNOWN_SECONDS_MAX
    while not all((view / "back").exists() for view in race.views):
        if time.monotonic() > give_up:
            raise Broken("the others do not see what is done through the mount that is back")
        time.sleep(0.05)
    views = [there, *race.views]
    for number in range(FILES):
        for by in views:
            name = f"met-{number}-{views.index(by)}"
            for view in views:
                if (view / name).exists():
                    raise Broken(f"{name} is there before it was made")
            (by / name).write_text(name)
            for view in views:
                if not (view / name).exists() or (view / name).read_text() != name:
                    raise Broken(f"{name}, made through {by}, is not seen through {view}")
    return FILES * len(views) ** 2


# It takes what the others take together in a short run.
stopped.seconds_min = 60
TESTS = [stopped]
