#!/usr/bin/python3
"""Local placement beside striped placement, on 1, 2, 4 and 8 nodes of this machine.

FusionFS writes a file on the node of its writer, so that throughput does not depend on how many nodes
there are.  Here a file is written in a local directory with calls of 1 MiB, synced, forgotten by the
kernel and read again, and so is one in a striped directory; several times in turn, the median counts.
In each round all numbers of nodes have their turn, each with servers of its own; the order is turned
from round to round.  The ratio is that of the throughput to that of a local directory on a single node
in the same round; the median of the rounds counts.

    bench/local.py --tidefs target/release/tidefs --rounds 5

With --check it fails when a local directory stays below 0.9 of a single node.
"""

import argparse
import contextlib
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PLACEMENTS = ("local", "striped")
PHASES = ("write", "read")
GOAL = 0.9
MIB = 1 << 20
COMMAND_SECONDS_MAX = 120


@contextlib.contextmanager
def mounted(tidefs: Path, nodes: int, memory: str):
    """A file system on so many nodes, and its mount; gone in the end, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="tl", dir="/tmp") as folder:
        mount = Path(folder, "m")

        def run(*words: object) -> None:
            words = [str(word) for word in (tidefs, "--state", f"{folder}/s", *words)]
            options = {"capture_output": True, "text": True, "timeout": COMMAND_SECONDS_MAX}
            done = subprocess.run(words, check=False, **options)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")

        run("up", "--nodes", nodes, "--node-memory", memory, "--mount", mount)
        try:
            yield mount
        finally:
            run("down")


def timed(path: Path, mode: int, work) -> float:
    """MiB a second of what `work` does with an open file."""
    file = os.open(path, mode, 0o600)
    try:
        begun = time.monotonic()
        done = work(file)
        return done / MIB / (time.monotonic() - begun)
    finally:
        os.close(file)


def once(folder: Path, size: int) -> dict[str, float]:
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

    figures = {"write": timed(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, write)}
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    figures["read"] = timed(path, os.O_RDONLY, read)
    assert buffer == block, "what was read is not what was written"
    path.unlink()
    return figures


def measure(tidefs: Path, nodes: int, options) -> dict[str, dict[str, float]]:
    """The median throughputs on so many nodes, by placement and phase."""
    with mounted(tidefs, nodes, options.node_memory) as mount:
        for placement in PLACEMENTS:
            (mount / placement).mkdir()
            os.setxattr(mount / placement, "user.tidefs.placement", placement.encode())
        size = options.file_mib * MIB
        # The first of each warms up.
        figures = [
            {it: once(mount / it, size) for it in PLACEMENTS} for _ in range(options.repeats + 1)
        ][1:]
    return {
        it: {phase: statistics.median(one[it][phase] for one in figures) for phase in PHASES}
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
    rounds = []
    for number in range(options.rounds):
        order = counts if number % 2 == 0 else counts[::-1]
        rounds.append({nodes: measure(tidefs, nodes, options) for nodes in order})
    rows, missed = [], []
    print("nodes  placement   write MiB/s  ratio   read MiB/s  ratio")
    for nodes in counts:
        for placement in PLACEMENTS:
            row = {"nodes": nodes, "placement": placement}
            for phase in PHASES:
                speed = statistics.median(it[nodes][placement][phase] for it in rounds)
                ratio = statistics.median(ratios(rounds, nodes, placement, phase))
                row |= {phase: speed, f"{phase}_ratio": ratio}
                if placement == "local" and ratio < GOAL:
                    missed.append(f"{nodes} nodes, {phase}: {ratio:.2f} is below {GOAL}")
            rows.append(row)
            print(
                f"{nodes:5}  {placement:9}  {row['write']:12.0f}  {row['write_ratio']:5.2f} "
                f"{row['read']:12.0f}  {row['read_ratio']:5.2f}"
            )
    print(f"load {os.getloadavg()[0]:.1f}; medians of {options.rounds} rounds")
    when = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / f"local-{when}.json"
    report = {"rows": rows, "rounds": rounds, "load": os.getloadavg()}
    file.write_text(json.dumps(report, indent=1) + "\n")
    print(f"figures in {file}")
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    sys.exit(1 if missed and options.check else 0)


if __name__ == "__main__":
    main()
