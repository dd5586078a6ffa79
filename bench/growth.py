#!/usr/bin/python3
"""What growth costs: more nodes on this machine, and more files in a directory.

Nodes.  In each round a file system of each number of nodes is started, measured and taken down, the
order turned from round to round: a file of --file-mib written and read back by 1 MiB, and --files
files of 4 KiB made in one directory.  Beside it stand the processor seconds that mount and nodes took
for a GiB, and the part of the time in which the least busy and the busiest node had a processor: one
client stream is to keep them all busy.  More servers on the same processors do the same work, so what
is lost with them is the cost of being many.  Each rate is divided by the best of its round; the
median counts, and the goal is that none falls below 0.8.

Directories.  Files are made, listed, looked at and removed in directories of several sizes, on both
stores, on a FUSE layer that does nothing and on tmpfs (`directories.py`).  From what a file takes in a
directory, what it takes more there than in the smallest one on the layer that does nothing is taken
off: that is the kernel's.  The rest is divided by what a file takes in the smallest directory; the goal
is at most 1.5, since the time is to be proportional to the size.

    bench/growth.py --nodes 1,4 --rounds 3 --directories 10000,100000
    bench/growth.py --nodes "" --subjects valkey,null

With --check it fails when a goal is missed.
"""

import argparse
import hashlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "trust"))

import about  # noqa: E402
import directories  # noqa: E402
from mounted import TIDEFS, Mounted  # noqa: E402

MIB = 1 << 20
GOAL_NODES = 0.8
# The nodes' memory in all, whatever their number.
MEMORY_MIB = 2_048
# Removed files' bytes go in the background.
PAUSE_SECONDS = 1
KINDS = ("write", "read", "create")
COSTS = ("mount", "nodes", "least_busy", "busiest")


def write(path: Path, mib: int) -> None:
    block = hashlib.shake_256(b"tidefs").digest(MIB)
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    for _ in range(mib):
        assert os.write(file, block) == MIB
    os.fsync(file)
    os.close(file)


def read(path: Path, mib: int) -> None:
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    held = sum(len(os.read(file, MIB)) for _ in range(mib))
    os.close(file)
    assert held == mib * MIB, f"{path} has {held} bytes"


def create(directory: Path, files: int) -> None:
    block = b"t" * 4_096
    directory.mkdir()
    for number in range(files):
        file = os.open(directory / f"{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        assert os.write(file, block) == len(block)
        os.close(file)


def per_second(amount: int, work, *arguments) -> float:
    begun = time.monotonic()
    work(*arguments)
    return amount / (time.monotonic() - begun)


def moved(state: Path, mib: int, kind: str, work, path: Path) -> dict[str, float]:
    """MiB a second, and what that took of the processors."""
    before = about.used(state)
    rate = per_second(mib, work, path, mib)
    spent = about.costs(before, about.used(state), mib * MIB, mib / rate)
    return {kind: rate} | {f"{kind} {of}": spent[of] for of in COSTS}


def on_nodes(count: int, options) -> dict[str, float]:
    """Rates with so many nodes."""
    with tempfile.TemporaryDirectory(prefix="tg", dir="/tmp") as scratch:
        memory = f"{MEMORY_MIB // count}MiB"
        up = ("--nodes", str(count), "--node-memory", memory)
        with Mounted(options.tidefs, Path(scratch), *up) as mounted:
            mount = mounted.mounts[0]
            large, mib = mount / "large", options.file_mib
            # Once unmeasured: connections are made with the first use of each node.
            write(mount / "first", 4 * count)
            state = Path(mounted.state)
            rates = moved(state, mib, "write", write, large)
            rates |= moved(state, mib, "read", read, large)
            large.unlink()
            time.sleep(PAUSE_SECONDS)
            rates["create"] = per_second(options.files, create, mount / "files", options.files)
    return rates


def nodes(options) -> dict:
    counts = [int(count) for count in options.nodes.split(",")]
    rounds = []
    for number in range(options.rounds):
        turn = number % len(counts)
        taken = {count: on_nodes(count, options) for count in counts[turn:] + counts[:turn]}
        rounds.append({count: taken[count] for count in counts})
    middle = {
        count: {
            f"{kind} {of}": statistics.median(one[count][f"{kind} {of}"] for one in rounds)
            for kind in ("write", "read")
            for of in COSTS
        }
        for count in counts
    }
    return {"rounds": rounds, "judged": judge_nodes(counts, rounds), "processor": middle}


def judge_nodes(counts: list[int], rounds: list[dict]) -> dict:
    """Of each rate, the median over the rounds of its part of the round's best."""

    def part(one: dict, count: int, kind: str) -> float:
        return one[count][kind] / max(rates[kind] for rates in one.values())

    return {
        count: {kind: statistics.median(part(one, count, kind) for one in rounds) for kind in KINDS}
        for count in counts
    }


def table(of: str, columns: tuple[str, ...], judged: dict) -> None:
    width = 2 + max(8, *map(len, columns))
    print(of.ljust(30) + "".join(name.rjust(width) for name in columns))
    for row, values in judged.items():
        print(f"{row:<30}" + "".join(f"{values[name]:{width}.2f}" for name in columns), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--nodes", default="1,2,4,8,16", help="may be empty")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--file-mib", type=int, default=256)
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--directories", default="10000,100000,1000000", help="may be empty")
    subjects = ",".join(directories.STORES + directories.FLOORS)
    parser.add_argument("--subjects", default=subjects, help="where directories are made")
    parser.add_argument("--bench", type=Path, default=TIDEFS.with_name("tidefs-bench"))
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    options = parser.parse_args()
    options.tidefs = options.tidefs.resolve()
    where = about.look(options.tidefs)
    report = {"nodes": {"judged": {}}, "directories": {}}
    if options.nodes:
        report["nodes"] = nodes(options)
        table("nodes", KINDS, report["nodes"]["judged"])
        for kind in ("write", "read"):
            print(f"{kind}: processor s/GiB of mount and nodes; part of the time of the least busy")
            print("node and of the busiest one")
            table("nodes", tuple(f"{kind} {of}" for of in COSTS), report["nodes"]["processor"])
    if options.directories:
        report["directories"] = directories.measure(options)
        directories.show(report["directories"], table)
    missed = [
        f"{count} nodes, {kind}: {part:.2f} of the best is below {GOAL_NODES}"
        for count, parts in report["nodes"]["judged"].items()
        for kind, part in parts.items()
        if part < GOAL_NODES
    ] + directories.missed(report["directories"])
    about.keep(options.results, "growth", where, report | {"missed": missed})
    for one in missed:
        print(f"missed: {one}", file=sys.stderr)
    sys.exit(1 if missed and options.check else 0)


if __name__ == "__main__":
    main()
