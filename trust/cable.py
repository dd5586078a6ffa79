#!/usr/bin/python3
"""The cable of a lender's host is pulled: no connection is reset, and nothing answers any more.

What lay only there answers EIO, the file system names the node, and all the rest goes on: what lay
elsewhere is read, and files are made.  The lender, which hears nobody either, ends by itself and
leaves nothing.

Exit status 0 when all held, 1 when something did not.  Needs root; `TIDEFS_TEST_WITHOUT=network`
leaves it out.
"""

import argparse
import errno
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bed import Bed, sweep
from hosts import Failure, run
from mounted import TIDEFS, is_left_out
from network import a_bed, on, wait_for

MIB = 1 << 20
FILES = 48


def content(number: int) -> bytes:
    return random.Random(number).randbytes(MIB)


def write(file: Path, data: bytes) -> None:
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def found(file: Path) -> bytes | None:
    """What the file system has, not the kernel; `None`: it is lost."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        data = b""
        while part := os.read(descriptor, MIB):
            data += part
        return data
    except OSError as error:
        if error.errno == errno.EIO:
            return None
        raise
    finally:
        os.close(descriptor)


def victims(status: dict) -> list[dict]:
    return [node for node in status["nodes"] if node["class"] == "victim"]


def lent(bed: Bed, tidefs: Path) -> bool:
    status = bed.status(tidefs)
    return len(victims(status)) == 1 and status["reconfiguration"] is None


def lender_of(bed: Bed, tidefs: Path) -> subprocess.Popen:
    join = (bed.state / "up" / "lend-address").read_text().strip()
    words = ["lend", "--memory", "160MiB", "--keep-free", "32MiB", "--join", join]
    words += ["--secret-file", bed.state / "up" / "lend-secret"]
    with (bed.folder / "lender.log").open("w") as log:
        return on(bed.hosts()[0], tidefs, *words, stderr=log)


def pulled(tidefs: Path) -> None:
    with a_bed("c", tidefs, ["none"]) as bed:
        here = f"{bed.network[-2]}:0"
        up = ["--nodes", "1", "--node-memory", "128MiB", "--own-share", "0.5", "--listen", here]
        bed.tidefs(tidefs, "up", *up, "--mount", bed.mount)
        lender = lender_of(bed, tidefs)
        try:
            wait_for("the node is in use", lambda: lent(bed, tidefs))
            for number in range(FILES):
                write(bed.mount / str(number), content(number))
            run("ip", "link", "set", bed.hosts()[0].port, "down")
            wait_for("the node is named as lost", lambda: bed.status(tidefs)["lost_nodes"])
            wait_for("the others hold its partitions", lambda: not victims(bed.status(tidefs)))
            # A mount that has just asked who holds what asks again a second later.
            wait_for("files can be made again", lambda: made(bed))
            lost = judged(bed)
            wait_for("the lender has ended", lambda: lender.poll() is not None)
            print(f"  {lost} of {FILES} files lost; the lender ended with {lender.returncode}")
        finally:
            lender.kill()
            lender.wait()


def made(bed: Bed) -> bool:
    """Whether as many files can be made as there were, and read again."""
    folder = Path(tempfile.mkdtemp(dir=bed.mount))
    try:
        for number in range(FILES):
            write(folder / str(number), content(number + FILES))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return False
    right = (found(folder / str(number)) == content(number + FILES) for number in range(FILES))
    assert all(right), "a new file is not what was written"
    return True


def judged(bed: Bed) -> int:
    """How many files are lost; the others are right."""
    whole = lost = 0
    for number in range(FILES):
        data = found(bed.mount / str(number))
        assert data is None or data == content(number), f"file {number} is not what was written"
        whole, lost = whole + (data is not None), lost + (data is None)
    assert whole > 0 and lost > 0, (whole, lost)
    return lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, default=TIDEFS, help="the program to test")
    options = parser.parse_args()
    if any(is_left_out(what) for what in ("network", "cgroup", "server", "fuse")):
        return 0
    if os.geteuid() != 0:
        raise Failure("a test bed needs root; or leave it out: TIDEFS_TEST_WITHOUT=network")
    sweep()
    try:
        pulled(options.tidefs.resolve())
    except (AssertionError, Failure, subprocess.TimeoutExpired, OSError) as error:
        print(f"FAILED: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
