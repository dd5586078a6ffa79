"""What a file takes in directories of several sizes, on both stores and on what they stand on.

Empty files are made in a directory of each size, which is then listed, each name looked at, and each
removed, in the order of the names.  Beside the stores stand a FUSE layer that does nothing and the
kernel's own file system in memory: in a directory of a million files the kernel's tables of names and
inodes, and the bench's own lists, no longer fit into a processor's caches, and that costs all of them.

Beside the time stand the processor's microseconds of the program and of all that serves it, which other
work on the machine does not lengthen as it does the time.

A kernel answers for what it was told within a second, which is much of a small directory and little
of a large one; so looking and removing begin when that is over.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "trust"))

from mounted import Mounted  # noqa: E402
from served import Served, null_layer, processor_ns  # noqa: E402

GOAL = 1.5
STEPS = ("make", "list", "stat", "remove")
STORES = ("valkey", "embedded")
FLOORS = ("null", "tmpfs")
# On which the judged part of a store's growth stands.
FLOOR = "null"
# Of each of the two nodes.
MEMORY = "2048MiB"
# A little longer than the kernel of a mount that is alone keeps names and attributes.
KERNEL_FORGETS_SECONDS = 2
# A small directory is listed so often that noise does not matter.
NAMES_LISTED_MIN = 200_000
LISTINGS_MIN = 3

MEASURES = ("time", "processor")

# Of each step.
Micros = dict[str, float]


class Watch:
    """Takes the time of steps, and what they take of the processors."""

    def __init__(self, servers: list[int]):
        self.servers = servers
        self.took = {measure: {} for measure in MEASURES}

    def timed(self, step: str, files: int, work) -> None:
        begun, ran = time.monotonic(), self.ran()
        work()
        self.note("time", step, (time.monotonic() - begun) / files)
        self.note("processor", step, (self.ran() - ran) / files)

    def note(self, measure: str, step: str, seconds: float) -> None:
        self.took[measure].setdefault(step, []).append(seconds * 1e6)

    def ran(self) -> float:
        return time.process_time() + sum(processor_ns(it) for it in self.servers) / 1e9

    def micros(self) -> dict[str, Micros]:
        return {
            measure: {step: statistics.median(each) for step, each in steps.items()}
            for measure, steps in self.took.items()
        }


def in_directory(directory: Path, files: int, servers: list[int]) -> dict[str, Micros]:
    """Microseconds a file."""
    watch = Watch(servers)

    def make() -> None:
        for number in range(files):
            os.close(os.open(directory / f"{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))

    def names() -> list[str]:
        return [entry.name for entry in os.scandir(directory)]

    def wait() -> None:
        if servers:
            time.sleep(KERNEL_FORGETS_SECONDS)

    directory.mkdir()
    watch.timed("make", files, make)
    for _ in range(max(LISTINGS_MIN, NAMES_LISTED_MIN // files)):
        found: list[str] = []
        watch.timed("list", files, lambda: found.extend(names()))
        assert sorted(found, key=int) == [str(number) for number in range(files)]
    found.sort()
    wait()
    watch.timed("stat", files, lambda: [os.stat(directory / name) for name in found])
    wait()
    watch.timed("remove", files, lambda: [os.unlink(directory / name) for name in found])
    assert not names()
    directory.rmdir()
    return watch.micros()


@contextlib.contextmanager
def standing(subject: str, options, scratch: Path):
    """A directory of the subject for as long as this lasts, and the processes that serve it."""
    if subject == "tmpfs":
        with tempfile.TemporaryDirectory(prefix="tg", dir="/dev/shm") as directory:
            yield Path(directory), []
    elif subject == "null":
        with null_layer(options.bench, scratch) as (mount, served):
            yield mount, served.processes
    else:
        nodes = ("--nodes", "2", "--node-memory", MEMORY) if subject == "valkey" else ()
        (scratch / subject).mkdir()
        with Mounted(options.tidefs, scratch / subject, *nodes) as mounted:
            yield mounted.mounts[0], Served.by(Path(mounted.state)).processes


def on_subject(subject: str, sizes: list[int], options) -> dict[str, dict[int, Micros]]:
    """The smaller directories as often as there are rounds, the largest once."""
    taken = {measure: {} for measure in MEASURES}
    with tempfile.TemporaryDirectory(prefix="tg", dir="/tmp") as scratch:
        with standing(subject, options, Path(scratch)) as (mount, servers):
            for size in sizes:
                rounds = [
                    in_directory(mount / f"{size}-{number}", size, servers)
                    for number in range(1 if size == sizes[-1] else options.rounds)
                ]
                for it in MEASURES:
                    taken[it][size] = {
                        step: statistics.median(one[it][step] for one in rounds) for step in STEPS
                    }
    return taken


def measure(options) -> dict:
    """Of each subject what was measured, and that over the smallest directory; of the stores also what
    is judged."""
    sizes = sorted(int(size) for size in options.directories.split(","))
    micros = {it: on_subject(it, sizes, options) for it in options.subjects.split(",")}
    floor = micros.get(FLOOR)
    found = {}
    for subject, taken in micros.items():
        found[subject] = {
            f"{it}_{what}": judged
            for it in MEASURES
            for what, judged in (
                ("us", taken[it]),
                ("over_smallest", judge(taken[it], None)),
                ("judged", judge(taken[it], floor and floor[it])),
            )
            if what != "judged" or subject in STORES
        }
    return found


def judge(found: dict[int, Micros], floor: dict[int, Micros] | None) -> dict[int, dict[str, float]]:
    """What a file takes over what it takes in the smallest directory, less the microseconds by which
    a larger directory is dearer on the floor as well."""
    smallest = min(found)

    def dearer(size: int, step: str) -> float:
        return max(0, floor[size][step] - floor[smallest][step]) if floor else 0

    return {
        size: {it: (found[size][it] - dearer(size, it)) / found[smallest][it] for it in STEPS}
        for size in found
    }


def missed(subjects: dict) -> list[str]:
    return [
        f"{subject}, {size} files, {step}: {part:.2f} times the smallest directory's is above {GOAL}"
        for subject, found in subjects.items()
        for size, parts in found.get("time_judged", {}).items()
        for step, part in parts.items()
        if part > GOAL
    ]


def show(subjects: dict, table) -> None:
    """What a file takes, and that over the smallest directory: as it is, and without the kernel's."""
    for subject, found in subjects.items():
        for what, rows in found.items():
            table(f"{subject}, {what.replace('_', ' ')}", STEPS, rows)
