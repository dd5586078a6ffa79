#!/usr/bin/python3
"""Local placement beside striped placement, on 1, 2, 4 and 8 nodes of this machine.

FusionFS writes a file on the node of its writer, so that throughput does not depend on how many nodes
there are.  Here a file is written in a local directory with calls of 1 MiB, synced, forgotten by the
kernel and read again, and so is one in a striped directory; several times in turn, the median counts.
In each round all numbers of nodes have their turn, each with servers of its own; the order is turned
from round to round.  The ratio is that of the throughput to that of a local directory on a single node
in the same round; the median of the rounds counts.

Beside it stand the processor seconds that the mount and the nodes took for each GiB.

    bench/local.py --tidefs target/release/tidefs --rounds 5

With --check it fails when a local directory stays below 0.9 of a single node.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import about

PROJECT = Path(__file__).resolve().parents[1]
PLACEMENTS = ("local", "striped")
PHASES = ("write", "read")
GOAL = 0.9
MIB = 1 << 20


@contextlib.contextmanager
def mounted(tidefs: Path, nodes: int, memory: str):
    """A file system on so many nodes: its mount, and where its state is; gone in the end, whatever
    happens."""
    with tempfile.TemporaryDirectory(prefix="tl", dir="/tmp") as folder:
        mount = Path(folder, "m")

        def run(*words: object) -> None:
            about.must(tidefs, "--state", f"{folder}/s", *words)

        run("up", "--nodes", nodes, "--node-memory", memory, "--mount", mount)
        try:
            yield mount, Path(folder, "s")
        finally:
            run("down")


def timed(path: Path, state: Path, mode: int, work) -> dict[str, float]:
    """MiB a second of what `work` does with an open file, and what that takes of the processors."""
    file = os.open(path, mode, 0o600)
    try:
        before, begun = about.used(state), time.monotonic()
        done = work(file)
        took = time.monotonic() - begun
        return {"rate": done / MIB / took} | about.costs(before, about.used(state), done, took)
    finally:
        os.close(file)


def once(folder: Path, state: Path, size: int) -> dict[str, dict[str, float]]:
    block, path = os.urandom(MIB), folder / "file"
    buffer = bytearray(MIB)

    def write(file: int) -> int:
        for _ in range(size // MIB):
            assert os.write(file, block) == MIB
        os.fsync(file)
        return size

    def read(file: int) -> int:
        for _ in range(size // MIB):
            assert os.readv(file, [buffer]) == MIB
        return size

    figures = {"write": timed(path, state, os.O_CREAT | os.O_EXCL | os.O_WRONLY, write)}
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    figures["read"] = timed(path, state, os.O_RDONLY, read)
    assert buffer == block, "what was read is not what was written"
    path.unlink()
    return figures


def measure(tidefs: Path, nodes: int, options) -> dict[str, dict[str, float]]:
    """The median throughputs and costs on so many nodes, by placement and phase."""
    with mounted(tidefs, nodes, options.node_memory) as (mount, state):
        for placement in PLACEMENTS:
            (mount / placement).mkdir()
            os.setxattr(mount / placement, "user.tidefs.placement", placement.encode())
        size = options.file_mib * MIB
        # The first of each warms up.
        figures = [
            {it: once(mount / it, state, size) for it in PLACEMENTS}
            for _ in range(options.repeats + 1)
        ][1:]


    def middle(it: str, phase: str, what: str) -> float:
        return statistics.median(one[it][phase][what] for one in figures)

    return {
        it: {phase: middle(it, phase, "rate") for phase in PHASES}
        | {f"{phase} {of}": middle(it, phase, of) for phase in PHASES for of in ("mount", "nodes")}
        for it in PLACEMENTS
    }


def ratios(rounds: list[dict], nodes: int, placement: str, phase: str) -> list[float]:
    return [it[nodes][placement][phase] / it[min(it)]["local"][phase] for it in rounds]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=PROJECT / "target/release/tidefs")
    parser.add_argument("--nodes", default="1,2,4,8", help="the first is what others are held against")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=7, help="files in a round")
    # Less than 15 hundredths of a node: the manager leaves it where it is.
    parser.add_argument("--file-mib", type=int, default=48)
    parser.add_argument("--node-memory", default="512MiB")
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true", help="fail when the goal is missed")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    tidefs, counts = options.tidefs.resolve(), [int(it) for it in options.nodes.split(",")]
    where = about.look(tidefs)
    rounds = []
    for number in range(options.rounds):
        order = counts if number % 2 == 0 else counts[::-1]
        rounds.append({nodes: measure(tidefs, nodes, options) for nodes in order})
    rows, missed = [], []
    print("nodes  placement   write MiB/s  ratio  mount  nodes   read MiB/s  ratio  mount  nodes")
    for nodes in counts:
        for placement in PLACEMENTS:
            row = {"nodes": nodes, "placement": placement}
            for phase in PHASES:
                speed = statistics.median(it[nodes][placement][phase] for it in rounds)
                ratio = statistics.median(ratios(rounds, nodes, placement, phase))
                row |= {phase: speed, f"{phase}_ratio": ratio}
                for of in ("mount", "nodes"):
                    spent = (it[nodes][placement][f"{phase} {of}"] for it in rounds)
                    row[f"{phase}_{of}"] = statistics.median(spent)
                if placement == "local" and ratio < GOAL:
                    missed.append(f"{nodes} nodes, {phase}: {ratio:.2f} is below {GOAL}")
            rows.append(row)
            print(
                f"{nodes:5}  {placement:9}"
                + " ".join(
                    f"{row[it]:13.0f}  {row[f'{it}_ratio']:5.2f}  {row[f'{it}_mount']:5.2f}"
                    f"  {row[f'{it}_nodes']:5.2f}"
                    for it in PHASES
                )
            )
    print(f"medians of {options.rounds} rounds; mount and nodes: processor seconds a GiB")
    about.keep(options.results, "local", where, {"rows": rows, "rounds": rounds, "missed": missed})
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    sys.exit(1 if missed and options.check else 0)


if __name__ == "__main__":
    main()
