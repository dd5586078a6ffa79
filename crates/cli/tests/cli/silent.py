"""A node stands still under a hundred programs; another one works on what lies on the others.

Words: `prepare`, and a mount that ends then; or `try`, another one, and the process of a node.  Whoever makes
files lets his mount know them, so who tries is another one, which has to ask.  Exit status 0 when all held.
"""

import contextlib
import fcntl
import mmap
import os
import signal
import struct
import sys
import threading
import time

PROGRAMS = 100
# Some of which lie on the other nodes, bytes and record.
FILES = 40
# A request for a node that stands still ends after so many seconds, with an error.
PATIENCE = 10
# A program that has done nothing for so long waits.
STILL = 1
ROUNDS_MIN = 30
SLOWEST = 3.0


def prepare(mount: str) -> None:
    for number in range(FILES):
        with open(f"{mount}/file-{number}", "wb") as file:
            file.write(bytes(5_000))
    for number in range(PROGRAMS):
        os.makedirs(f"{mount}/in/{number}")
        for name in range(20):
            open(f"{mount}/in/{number}/{name}", "wb").close()


def work(file: int, turn: int) -> None:
    """All of it asks nodes, and those alone that have the file."""
    value = struct.pack("q", turn)
    os.setxattr(file, "user.turn", value)
    if os.getxattr(file, "user.turn") != value:
        sys.exit("an attribute is not what it was set to")
    os.fchmod(file, 0o600 | turn % 0o70)
    os.pwrite(file, value, 1_000)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    if os.pread(file, 8, 1_000) != value:
        sys.exit("a file is not what was written")
    fcntl.lockf(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def standing_still(node: int):
    os.kill(node, signal.SIGSTOP)
    try:
        yield time.monotonic()
    finally:
        os.kill(node, signal.SIGCONT)


def elsewhere(files: list[int], node: int) -> list[int]:
    """Those that need nothing of the node, which is tried."""
    done: list[int] = []

    def attempt(file: int) -> None:
        with contextlib.suppress(OSError):
            work(file, 0)
            done.append(file)

    tried = [threading.Thread(target=attempt, args=(file,)) for file in files]
    with standing_still(node):
        for one in tried:
            one.start()
        time.sleep(PATIENCE / 2)
        found = list(done)
    for one in tried:
        one.join()
    return found


def begin(number: int, place: int, counts: mmap.mmap) -> int:
    """A program that makes files, or looks for them, one after the other."""
    child = os.fork()
    if child:
        return child
    for step in range(1_000_000):
        with contextlib.suppress(OSError):
            if number % 2:
                os.close(os.open(f"new-{step}", os.O_CREAT | os.O_WRONLY, dir_fd=place))
            else:
                os.stat(f"{step}", dir_fd=place)
        struct.pack_into("q", counts, 8 * number, step + 1)
    os._exit(0)


def all_wait(counts: mmap.mmap, until: float) -> bool:
    seen, since = None, time.monotonic()
    while time.monotonic() < until:
        now = struct.unpack_from(f"{PROGRAMS}q", counts)
        if now != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() - since > STILL:
            return True
        time.sleep(0.05)
    return False


def rounds(files: list[int], until: float) -> list[float]:
    """How long each took; those that hang are counted as they are at the end."""
    times: list[float] = []
    begun = time.monotonic()

    def go_on() -> None:
        nonlocal begun
        while time.monotonic() < until:
            begun = time.monotonic()
            work(files[len(times) % len(files)], len(times))
            times.append(time.monotonic() - begun)

    worker = threading.Thread(target=go_on)
    worker.start()
    worker.join(until + STILL - time.monotonic())
    return [*times, time.monotonic() - begun] if worker.is_alive() else times


def attempt(mount: str, node: int) -> None:
    files = [os.open(f"{mount}/file-{number}", os.O_RDWR) for number in range(FILES)]
    useful = elsewhere(files, node)
    print(f"{len(useful)} of {FILES} files lie on other nodes", flush=True)
    if not useful:
        sys.exit("every file needs the node: nothing can be tried")
    # Each has its own, or one would wait for the other in the kernel.
    places = [os.open(f"{mount}/in/{number}", os.O_PATH) for number in range(PROGRAMS)]
    counts = mmap.mmap(-1, 8 * PROGRAMS)
    programs: list[int] = []
    try:
        for place in places:
            os.stat(place)
        with standing_still(node) as begun:
            programs += [begin(number, place, counts) for number, place in enumerate(places)]
            if not all_wait(counts, begun + PATIENCE / 2):
                sys.exit("not all of the programs wait for the node")
            print(f"all wait after {time.monotonic() - begun:.1f} s", flush=True)
            times = rounds(useful, begun + PATIENCE - 2 * STILL)
    finally:
        for program in programs:
            os.kill(program, signal.SIGKILL)
        for program in programs:
            os.waitpid(program, 0)
    print(f"{len(times)} rounds, the slowest of {max(times, default=0):.2f} s", flush=True)
    if len(times) < ROUNDS_MIN or max(times) > SLOWEST:
        sys.exit("who needs nothing of the node waits with those who do")


if sys.argv[1] == "prepare":
    prepare(sys.argv[2])
else:
    attempt(sys.argv[2], int(sys.argv[3]))
