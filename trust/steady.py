#!/usr/bin/python3
"""Files come and go at a steady state for as long as is asked for, and nothing grows meanwhile.

On each of three file systems (in the mount's own memory, on a node with a manager, and on that with a
second mount) programs make files under ever new names, write and read them, rename, list and remove
them, so that there are always as many. Meanwhile the memory, descriptors and threads of every process
of the file system are sampled: its mounts, its manager and its servers. The first third is warm-up; over
the rest the growth is the slope through the samples (Theil-Sen: the median of the slopes of all pairs, which a
few odd samples do not move) times its duration, and must stay below a bound, however long that is. With two mounts
it begins when so many files went through that what is kept of them has filled its budgets, also where that takes longer
than a third; a form that is too short for that leaves room for them.

Exit status 0 when nothing grew, 1 when something did, 2 for wrong usage.
"""

import argparse
import csv
import ctypes
import errno
import os
import random
import sys
import tempfile
import time
import traceback
from collections import deque
from dataclasses import dataclass, field
from itertools import combinations
from multiprocessing import Event, Process, Queue, Value
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mounted import TIDEFS, Mounted  # noqa: E402

SUBREAPER = 36
SETUPS = {
    "embedded": ((), 1),
    "node": (("--nodes", "1..2", "--policy", "static", "--node-memory", "128MiB"), 1),
    "two-mounts": (("--nodes", "1..2", "--policy", "static", "--node-memory", "128MiB"), 2),
}
# What a process may have grown by at the end; allocators and tables of the kernel go by steps.
GROWTH_MAX = {"memory": 2 << 20, "descriptors": 4, "threads": 4}
# When so many files went through, budgets for 65,536 names, inodes and records (docs/decisions/memory-budgets.md) are
# full on each of two mounts, though not all files are seen on both.
FILES_THAT_FILL = 2 * 65_536
# By so much memory may fill beside others, where fewer went through. Of a mount: names, entries and records, and shards, as
# docs/decisions/memory-budgets.md says; of a node: closed shards for a minute, records of delegations, and the removed
# files of STAYS_SECONDS. A quick machine takes two minutes for that, so the short form finds there what grows
# beyond it at once, and the hour all else.
# What a lone mount needs for its threads and caches comes with the files that went through, and not with the seconds:
# a slow machine has not warmed up after a third of the short form.
FILLS = {
    "embedded": {"tidefs daemon": 8 << 20},
    "node": {"tidefs daemon": 8 << 20},
    "two-mounts": {"tidefs daemon": 46 << 20, "tidefs holder": 46 << 20, "server": 20 << 20},
}
# With company a removed file stays for two seconds, and for two more where it was looked at or open elsewhere; then
# it is freed with others.
STAYS_SECONDS = 6
# Of each worker, at any time.
FILES_LIVE = 100
SIZES = (0, 100, 1_200, 1_200, 5_000, 70_000)
LIST_EVERY = 50
# How long all workers may take to come to their ends, on a machine that does much else.
END_SECONDS_MAX = 300
# One that waits in a mount may outlive that.
KILLED_SECONDS_MAX = 5
# What others meet where something was removed.
REMOVED = (errno.ENOENT, errno.ESTALE)
# More say no more, and all pairs of them are looked at.
SAMPLES_MAX = 600


def work(folder: Path, seed: int, stop, made) -> None:
    """The life of one worker: files by name, oldest first, with what is in them."""
    draw, live = random.Random(seed), deque()
    folder.mkdir()
    for number in range(1 << 40):
        if stop.is_set():
            return
        path, data = folder / f"made-{number}", draw.randbytes(draw.choice(SIZES))
        path.write_bytes(data)
        live.append((path, data))
        at = draw.randrange(len(live))
        path, data = live[at]
        if path.read_bytes() != data:
            raise AssertionError(f"{path} is not what was written")
        if draw.random() < 0.3:
            live[at] = (path.rename(folder / f"moved-{number}"), data)
        if number % 10 == 0:
            inner = folder / f"inner-{number}"
            inner.mkdir()
            (inner / "file").write_bytes(data)
            (inner / "file").unlink()
            inner.rmdir()
        if number % LIST_EVERY == 0 and len(os.listdir(folder)) != len(live):
            raise AssertionError(f"{folder} does not list its {len(live)} files")
        if len(live) > FILES_LIVE:
            live.popleft()[0].unlink()
        with made.get_lock():
            made.value += 1


def look(folder: Path, stop) -> None:
    """On another mount than they work on: what comes and goes is seen there."""
    while not stop.is_set():
        for name in os.listdir(folder):
            try:
                (folder / name).stat()
                if not (folder / name).is_dir():
                    (folder / name).read_bytes()
            except OSError as error:
                if error.errno not in REMOVED:
                    raise
        stop.wait(0.2)


def working(function, number: int, *arguments, facts) -> None:
    """The whole of a worker's process; why it fails is told."""
    try:
        function(*arguments)
    except BaseException as error:
        facts.put((number, f"{error!r}, at {traceback.extract_tb(error.__traceback__)[-1].line}"))
        raise


def ended(workers: list[Process], facts) -> list[str]:
    """Waits for them, and answers what is wrong with each that failed."""
    end, told = time.monotonic() + END_SECONDS_MAX, {}
    failed = []
    for number, worker in enumerate(workers):
        worker.join(max(0, end - time.monotonic()))
        while not facts.empty():
            whose, fact = facts.get()
            told[whose] = fact
        if worker.exitcode is None:
            failed.append(f"worker {number} did not end within {END_SECONDS_MAX} s; it waits in {waits_in(worker.pid)}")
            worker.kill()
            worker.join(KILLED_SECONDS_MAX)
        elif worker.exitcode != 0:
            fact = told.get(number, f"it ended with {worker.exitcode}")
            failed.append(f"worker {number} failed: {fact}")
        else:
            continue
        # What comes next may hang, as it did.
        print(failed[-1], file=sys.stderr, flush=True)
    return failed


def waits_in(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/wchan").read_text()
    except OSError as error:
        return f"what cannot be seen: {error}"


def descendants() -> dict[int, str]:
    """All that this program started, by what they are; they stay its descendants as it adopts them."""
    parents, names = {}, {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                line = (process / "stat").read_text()
            except OSError:
                continue
            parents[int(process.name)] = int(line.rpartition(")")[2].split()[1])
            names[int(process.name)] = Path(words[0].split()[0].decode() if words[0] else "").name + (
                f" {words[1].decode()}" if words[0].endswith(b"tidefs") and len(words) > 1 else ""
            )
    mine, found = {os.getpid()}, {}
    for _ in range(len(parents)):
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        if not more:
            break
        mine |= more
    for pid in sorted(mine):
        if "tidefs" in names[pid] or "server" in names[pid]:
            found[pid] = names[pid]
    return found


def measure(pid: int) -> dict[str, int]:
    rollup = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    )
    return {
        # What of it is shared with nobody, and no file's: the binary's pages come with use.
        "memory": int(rollup["Anonymous"].split()[0]) << 10,
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
    }


def slope(points: list[tuple[float, float]]) -> float:
    step = -(-len(points) // SAMPLES_MAX)
    points = points[::step]
    return median((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2))


@dataclass
class Sampled:
    name: str
    at: list[float] = field(default_factory=list)
    values: dict[str, list[int]] = field(default_factory=lambda: {what: [] for what in GROWTH_MAX})

    def add(self, now: float, values: dict[str, int]) -> None:
        self.at.append(now)
        for what, value in values.items():
            self.values[what].append(value)

    def growth(self, what: str, warm: float, fills: int = 0) -> float:
        """Once it is warm, over what is left of it, beyond what may fill up."""
        values = self.values[what]
        points = [(at, max(value, values[0] + fills)) for at, value in zip(self.at, values)]
        points = [point for point in points if point[0] >= warm]
        return slope(points) * (points[-1][0] - points[0][0])


def run(setup: str, options, scratch: Path) -> list[str]:
    """What grew."""
    up, mounts = SETUPS[setup]
    scratch.mkdir()
    stop, made, facts = Event(), Value("q", 0), Queue()
    with Mounted(options.tidefs, scratch, *up, mounts=mounts) as mounted:
        watch = mounted.give_up_after(options.seconds + 2 * END_SECONDS_MAX)
        folders = [mounted.mounts[at % mounts] / f"w{at}" for at in range(options.workers)]
        lives = [(work, n, at, n, stop, made) for n, at in enumerate(folders)]
        if mounts > 1:
            # They are made by the workers on the other mount.
            others = [mounted.mounts[(n + 1) % mounts] / f"w{n}" for n in range(options.workers)]
            lives += [(look, n, at, stop) for n, at in enumerate(others, len(folders))]
        workers = [Process(target=working, args=life, kwargs={"facts": facts}) for life in lives]
        for at, worker in enumerate(workers):
            worker.start()
            while at < options.workers and worker.is_alive() and not folders[at].exists():
                time.sleep(0.01)
        try:
            samples, filled = sample(options, workers, made)
        finally:
            stop.set()
            failed = ended(workers, facts)
            if all(worker.exitcode is not None for worker in workers):
                watch.cancel()
        count = len(samples)
    if options.samples:
        write(options.samples, setup, samples)
    print(f"{setup}: {made.value} files in {options.seconds:.0f} s, {count} processes", flush=True)
    # What has filled too late for the rest to tell anything has room to fill.
    is_full = filled is not None and filled <= options.seconds * 2 / 3
    warm = max(options.seconds / 3, filled) if is_full else options.seconds / 3
    fills = {} if is_full else dict(FILLS.get(setup, {}))
    if "server" in fills:
        fills["server"] += int(made.value / options.seconds * STAYS_SECONDS * sum(SIZES) / len(SIZES))
    if failed:
        # What there is of samples says nothing.
        return [f"{setup}, after {made.value} files: {fact}" for fact in failed]
    return [
        fact for sampled in samples.values() for fact in judge(setup, sampled, warm, fills)
    ]


def sample(options, workers, made) -> tuple[dict[int, Sampled], float | None]:
    """Of each process; and when so many files had gone through that budgets are full."""
    filled = None
    samples = {pid: Sampled(name) for pid, name in descendants().items()}
    begun = time.monotonic()
    while (now := time.monotonic() - begun) < options.seconds:
        if not all(worker.is_alive() for worker in workers):
            break
        for pid, sampled in samples.items():
            sampled.add(now, measure(pid))
        if filled is None and made.value >= FILES_THAT_FILL:
            filled = now
        time.sleep(min(options.every, options.seconds))
    return samples, filled


def judge(setup: str, sampled: Sampled, warm: float, fillers: dict[str, int]) -> list[str]:
    grown = []
    for what, most in GROWTH_MAX.items():
        values = sampled.values[what]
        fills = fillers if what == "memory" else {}
        fill = next((most for name, most in fills.items() if name in sampled.name), 0)
        growth = sampled.growth(what, warm, fill)
        unit, divisor = (" KiB", 1024) if what == "memory" else ("", 1)
        said = (
            f"{setup}: {sampled.name}: {what} {values[0] // divisor} to {values[-1] // divisor}{unit}, "
            f"after {warm:.0f} s {growth / divisor:+.1f}{unit} (at most {most // divisor}{unit})"
        )
        print(said, flush=True)
        if growth > most:
            grown.append(said)
    return grown


def write(path: Path, setup: str, samples: dict[int, Sampled]) -> None:
    with path.open("a", newline="") as file:
        rows = csv.writer(file)
        for pid, sampled in samples.items():
            for number, at in enumerate(sampled.at):
                values = [sampled.values[what][number] for what in GROWTH_MAX]
                rows.writerow([setup, sampled.name, pid, f"{at:.1f}", *values])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--tidefs", type=Path, default=TIDEFS)
    options.add_argument("--seconds", type=float, default=3600, help="on each file system")
    options.add_argument("--every", type=float, default=1.0, help="seconds between samples")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--setup", choices=SETUPS, action="append", help="which; all")
    options.add_argument("--samples", type=Path, help="a file for all samples: comma-separated values")
    options = options.parse_args()
    if options.seconds < 10 or options.workers < 1:
        print("steady.py: at least 10 seconds and one worker", file=sys.stderr)
        return 2
    # Processes that leave their starter come to this one, and are known by that.
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)
    grown = []
    with tempfile.TemporaryDirectory(prefix="tidefs-steady-", ignore_cleanup_errors=True) as scratch:
        for setup in options.setup or SETUPS:
            grown += run(setup, options, Path(scratch) / setup)
    for fact in grown:
        print(f"FAILED: {fact}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
