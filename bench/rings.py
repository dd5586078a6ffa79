#!/usr/bin/python3
"""What rings gain: the same mount served from the kernel's connection, and by a ring of each processor.

A round makes a mount each way, one right after the other, of a layer that does nothing and of a file system
with one node: small files of one program, of four at once, and of one program on the processor of all that
serves it; and large files of one program.  Ratios are those of a round; their median counts, and the range
stands beside it.  Needs root and a kernel that has rings; its switch is set back at the end.

    bench/rings.py --tidefs target/release/tidefs --bench target/release/tidefs-bench
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import about
from mounts import Work, new_directory, pinned
from served import FileSystem, Program, Served, null_layer, programs
from uring import SWITCH, switched_on

WAYS = ("off", "on")
PROGRAMS = 4
ORDERS = [
    {"sequential": {"bytes": 256 << 20}},
    {"random_read": {"bytes": 256 << 20, "reads": 20_000}},
]
# Ratios of a run: the medians of one program's small files, of several programs', and of large files.
GOALS = {"one": 1.5, "four": 1.3, "large": 0.95}


def large(bench: Path, place: Path, served: Served) -> Iterator[tuple[str, float]]:
    """Rates of a program with large files, and how many of them a second of those who serve yields."""
    line = [bench, "worker", "null", place, "--tidefs", "none", "--memory-mib", "2048"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        json.loads(worker.stdout.readline())
        for order in ORDERS:
            before = served.processor()
            print(json.dumps(order), file=worker.stdin, flush=True)
            reply = json.loads(worker.stdout.readline())
            if "figures" not in reply:
                raise SystemExit(f"{order}: {reply}")
            # Nodes, of which the worker knows none, are told as zero.
            yield from ((f"large: {name}", rate) for name, rate in reply["figures"] if rate and "processor" not in name)
            (name,) = order
            yield f"processor, large: {name}", 1e6 / (served.processor() - before)
        worker.stdin.close()


def small(who: str, mount: Path, served: Served, workers: list[Program], files: int) -> Iterator[tuple[str, float]]:
    """Rates of programs with small files, and the same of a second of those who serve."""
    with new_directory(workers[0], mount / who) as directory:
        found = Work(served, files // len(workers)).measure([(it, directory) for it in workers])
    for operation, figure in found.items():
        yield f"{who}: {operation}", figure.rate
        yield f"processor, {who}: {operation}", 1e6 / figure.processor_us


def all_of(mount: Path, served: Served, workers: list[Program], options) -> dict[str, float]:
    found = dict(small("one", mount, served, workers[:1], options.files))
    found |= dict(small("four", mount, served, workers, options.files))
    found |= dict(large(options.bench, mount, served))
    # It changes for good where threads run.
    with pinned(served, workers):
        return found | dict(small("pinned", mount, served, workers[:1], options.files))


def round_of(options) -> dict[str, dict[str, dict[str, float]]]:
    """Of each subject, each way, all figures; more is better."""
    found: dict[str, dict[str, dict[str, float]]] = {"null": {}, "node": {}}
    for way in WAYS:
        with tempfile.TemporaryDirectory(prefix="tr", dir="/tmp") as name, programs(options.bench, PROGRAMS) as workers:
            folder = Path(name)
            for part in ("e", "n"):
                (folder / part).mkdir()
            with null_layer(options.bench, folder / "e", "--rings", way) as (mount, served):
                found["null"][way] = all_of(mount, served, workers, options)
            with FileSystem(options.tidefs, folder / "n", ("--nodes", "1", "--rings", way)) as it:
                found["node"][way] = all_of(it.mounts[0], it.served(), workers, options)
    return found


def told(rounds: list[dict]) -> list[dict]:
    """A row for each figure: its ratios, rings over none."""
    rows = []
    for subject, ways in rounds[0].items():
        for figure in ways["off"]:
            values = {way: [it[subject][way][figure] for it in rounds] for way in WAYS}
            ratios = [on / off for off, on in zip(values["off"], values["on"])]
            rows.append({"subject": subject, "figure": figure, "ratio": statistics.median(ratios), **values})
            print(f"  {subject}, {figure}: {rows[-1]['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return rows


def missed(rows: list[dict]) -> list[str]:
    goals = [(row, GOALS.get(row["figure"].partition(":")[0])) for row in rows if row["subject"] == "node"]
    return [f"{row['figure']}: {row['ratio']:.2f} is less than {goal}" for row, goal in goals if goal and row["ratio"] < goal]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    target = about.PROJECT / "target/release"
    parser.add_argument("--tidefs", type=Path, default=target / "tidefs")
    parser.add_argument("--bench", type=Path, default=target / "tidefs-bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=4000, help="of one program, and of four together")
    parser.add_argument("--results", type=Path, default=about.PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    options = parser.parse_args()
    if not SWITCH.exists():
        raise SystemExit("this kernel has no rings (Linux 6.14)")
    options.tidefs, options.bench = options.tidefs.resolve(), options.bench.resolve()
    looked = about.look(options.tidefs)
    with switched_on():
        rounds = [round_of(options) for _ in range(options.rounds)]
    rows = told(rounds)
    below = missed(rows)
    for line in below:
        print(f"missed: {line}")
    about.keep(options.results, "rings", looked, {"rows": rows, "missed": below})
    return 1 if options.check and below else 0


if __name__ == "__main__":
    sys.exit(main())
