"""What programs meet on a mount that is stopped, expelled and goes on. A process of its own: each process
that a test starts closes copies of its descriptors, and a close is served by the mount."""

import errno
import fcntl
import os
import signal
import sys
import threading
import time

here, there, server = sys.argv[1], sys.argv[2], int(sys.argv[3])
# Longer than the owner of a file system waits for a mount.
LONG = 60


def open_at(mount: str, name: str) -> int:
    return os.open(f"{mount}/{name}", os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def error_of(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return None


def contents(mount: str, name: str) -> bytes:
    with open(f"{mount}/{name}", "rb") as file:
        return file.read()


for name in ("locked", "fine", "removed"):
    with open(f"{there}/{name}", "wb") as file:
        file.write(b"before")
locked, fine, removed, unsent = (open_at(there, it) for it in ("locked", "fine", "removed", "unsent"))
assert try_lock(locked)
# Others know what is open.
time.sleep(1)
os.pwrite(unsent, b"unsent", 0)
os.pwrite(locked, b"locked", 0)

os.kill(server, signal.SIGSTOP)
taken = open_at(here, "locked")
assert not try_lock(taken), "it is alive for all that others know"
late = []


def write_late() -> None:
    late.append(error_of(lambda: os.pwrite(locked, b"late", 0)))


# A program that writes meanwhile waits.
writer = threading.Thread(target=write_late)
writer.start()
give_up = time.monotonic() + LONG
while not try_lock(taken):
    assert time.monotonic() < give_up, "the lock is not free"
    time.sleep(0.02)
os.pwrite(taken, b"theirs", 0)
os.fsync(taken)
os.unlink(f"{here}/removed")
os.kill(server, signal.SIGCONT)
writer.join()

while error_of(lambda: os.listdir(there)) is not None:
    assert time.monotonic() < give_up, "it does not come back"
    time.sleep(0.02)
# It may have been taken by the mount before that knew that it is expelled: then the bytes are lost.
assert late[0] in (None, errno.EIO), late
for _ in range(2):
    assert error_of(lambda: os.pread(locked, 10, 0)) == errno.EIO
    assert error_of(lambda: os.pwrite(locked, b"late", 0)) == errno.EIO
# The kernel may find first that the file is gone.
assert error_of(lambda: os.pread(removed, 10, 0)) in (errno.EIO, errno.ESTALE)
assert error_of(lambda: os.fsync(unsent)) == errno.EIO
assert error_of(lambda: os.fsync(unsent)) is None, "it is told once"
assert os.pread(fine, 10, 0) == b"before"
os.pwrite(fine, b"after!", 0)
os.fsync(fine)
with open(f"{there}/new", "wb") as file:
    file.write(b"new")
seen = [contents(here, name) for name in ("locked", "fine", "new")]
assert seen == [b"theirs", b"after!", b"new"], seen
assert not try_lock(open_at(there, "locked")), "it is given once"
