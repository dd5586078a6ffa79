"""Programs of one mount that look at a file at the same moment while another mount changes it (promises 10 and 12):
what one of them has its kernel drop is not to be taken for dropped by the others before it is."""

import fcntl
import os
import time

from race import Broken, Race

def many_look(race: Race, change, look) -> int:
    """Every mount's programs look together, each through a descriptor of its own, at a file that another program
    changes. What is read is of a change that had ended when the look began, or of a later one.

    `change(view, n)` brings all of the file to state n; `look(view)` answers its last bytes, and then all.
    """
    (race.views[0] / "f").write_bytes(state(0))

    def play(chance) -> int:
        n = 0
        while race.goes_on(n):
            n += 1
            race.begun.value = n
            change(race.views[0], n)
            race.ended.value = n
            time.sleep(chance.random() * 0.004)
        return n

    def watch(view):
        def play(chance) -> int:
            looks = 0
            while race.goes_on(looks):
                least = race.ended.value
                parts = look(view)
                most = race.begun.value
                for found in parts:
                    told = {int.from_bytes(found[at : at + 8], "little") for at in range(0, len(found), 8)}
                    if not found or min(told) < least or max(told) > most:
                        raise Broken(
                            f"{len(found)} bytes of states {sorted(told)} through {view.parent.name}, "
                            f"and {least} to {most} were there"
                        )
                looks += 1
                time.sleep(chance.random() * 0.001)
            return looks

        return play

    views = race.views[1:] or race.views
    return sum(race.run(play, *[watch(view) for view in views for _ in range(LOOKERS)]))


# Enough pages that dropping them takes a while, the last ones last.
PAGES = 64
PAGE_BYTES = 4096
LOOKERS = 6


def state(n: int) -> bytes:
    return n.to_bytes(8, "little") * (PAGES * PAGE_BYTES // 8)


def whole(descriptor: int) -> tuple[bytes, bytes]:
    """The last bytes, then all, so that the kernel has pages of it."""
    end = os.pread(descriptor, 8, (PAGES - 1) * PAGE_BYTES)
    return end, os.pread(descriptor, PAGES * PAGE_BYTES, 0)


def opened_together(race: Race) -> int:
    """After `close`, each `open` sees the bytes, also where several programs of a mount open the file at once."""

    def change(view, n) -> None:
        with open(view / "f", "r+b", buffering=0) as file:
            file.write(state(n))

    def look(view) -> tuple[bytes, bytes]:
        descriptor = os.open(view / "f", os.O_RDONLY)
        try:
            return whole(descriptor)
        finally:
            os.close(descriptor)

    return many_look(race, change, look)


def shared_together(race: Race) -> int:
    """Whoever gets a shared lock sees what was written before it was given back, also where several programs of a
    mount get it at once."""
    held = {}

    def locked(view, kind: int, work):
        file = held.setdefault(view, None) or open(view / "f", "r+b", buffering=0)
        held[view] = file
        fcntl.flock(file, kind)
        try:
            return work(file.fileno())
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def change(view, n) -> None:
        locked(view, fcntl.LOCK_EX, lambda it: os.pwrite(it, state(n), 0))

    return many_look(race, change, lambda view: locked(view, fcntl.LOCK_SH, whole))


TESTS = [opened_together, shared_together]
