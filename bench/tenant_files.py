"""The file systems of `tenants.py`, the workload on them, and where each runs."""

import contextlib
import subprocess
import sys
from pathlib import Path

from bed import Bed
from hosts import Failure, run
from network import on, wait_for
from precedence import Precedence

COMMAND_SECONDS_MAX = 60
# Writes, syncs and reads files of 4 MiB, until its input ends; at most so many MiB a second (0: no
# limit). Says how many it moved.
WORKLOAD = """
import hashlib, os, select, sys, time
folder, most, size = sys.argv[1], float(sys.argv[2]), 4 << 20
block, moved, number, begun = hashlib.shake_256(b"load").digest(size), 0, 0, time.monotonic()
while not select.select([sys.stdin], [], [], 0)[0]:
    path = f"{folder}/{number % 32}"
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    assert os.pwrite(file, block, 0) == size
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    assert os.pread(file, size, 0) == block
    os.close(file)
    moved, number = moved + 2 * size, number + 1
    if most:
        time.sleep(max(0, begun + moved / (most * (1 << 20)) - time.monotonic()))
print(moved / (1 << 20) / (time.monotonic() - begun), flush=True)
"""


class Place:
    """A processor, and a control group for the share of it."""

    def __init__(self, precedence: Precedence, group: str, processor: int):
        self.precedence, self.group, self.processor = precedence, group, processor

    def words(self) -> tuple[str, ...]:
        """What comes before the words of a program to have it there, with all that it starts."""
        return (*self.precedence.words(self.group), "taskset", "-c", str(self.processor))


@contextlib.contextmanager
def workload(folder: Path, place: Place, most: float, said: list[float]):
    """Runs meanwhile; what it moved, in MiB/s, is added to `said`."""
    words = [*place.words(), sys.executable, "-c", WORKLOAD, folder, str(most)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    load = subprocess.Popen(words, start_new_session=True, **streams)
    try:
        yield
        if load.poll() is not None:
            raise Failure(f"the workload ended with {load.returncode}")
        told, _ = load.communicate("\n", timeout=COMMAND_SECONDS_MAX)
        said.append(float(told))
    finally:
        load.kill()
        load.wait()


@contextlib.contextmanager
def lent(bed: Bed, tidefs: Path, memory: str, lender_at: Place, work_at: Place):
    """The mount of a file system whose bytes all lie on a lender's node."""
    here = f"{bed.network[-2]}:0"
    up = ["--nodes", "1", "--node-memory", "128MiB", "--own-share", "0", "--listen", here]
    started(tidefs, bed, bed.state, work_at, *up, "--mount", bed.mount)
    join = (bed.state / "up" / "lend-address").read_text().strip()
    words = ["lend", "--memory", memory, "--keep-free", "64MiB", "--join", join]
    words += ["--secret-file", bed.state / "up" / "lend-secret"]
    with (bed.folder / "lender.log").open("w") as log:
        words = [*lender_at.words(), tidefs, *words]
        lender = on(bed.hosts()[0], *words, stderr=log, start_new_session=True)
    try:
        wait_for("the node is in use", lambda: is_lent(bed, tidefs, lender), COMMAND_SECONDS_MAX)
        yield bed.mount
    finally:
        # The own node has no room for what was lent: the file system ends first, and the lender by itself.
        with contextlib.suppress(Failure, subprocess.TimeoutExpired):
            bed.tidefs(tidefs, "down")
            lender.wait(timeout=COMMAND_SECONDS_MAX)
        lender.kill()
        lender.wait()


def is_lent(bed: Bed, tidefs: Path, lender: subprocess.Popen) -> bool:
    if lender.poll() is not None:
        raise Failure(f"the lender has ended: {(bed.folder / 'lender.log').read_text()}")
    status = bed.status(tidefs)
    classes = [node["class"] for node in status["nodes"]]
    return "victim" in classes and status["reconfiguration"] is None


@contextlib.contextmanager
def own(bed: Bed, tidefs: Path, place: Place):
    """The mount of a file system without a lender, where the workload is."""
    # The test bed takes for its own what has a state with a name that begins like this.
    state, mount = Path(f"{bed.state}-own"), bed.folder / "alone"
    # Stripes are encrypted where others may lend nodes, and so here.
    up = ("--nodes", "1", "--node-memory", "512MiB", "--sealed", "always", "--mount", mount)
    started(tidefs, bed, state, place, *up)
    try:
        yield mount
    finally:
        run(tidefs, "--state", state, "down")


def started(tidefs: Path, bed: Bed, state: Path, place: Place, *options: object) -> None:
    environment = {**bed.environment(), "TIDEFS_STATE": str(state)}
    run(*place.words(), tidefs, "up", *options, cwd=bed.folder, env=environment, timeout=COMMAND_SECONDS_MAX)
