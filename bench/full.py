#!/usr/bin/python3
"""What a writer waits for at full nodes, and how even nodes are after every change.

One program writes files of 1 MiB pieces into a file system of few small nodes that grows while it
writes, until four fifths of what the most nodes hold are there.  It writes as fast as it can, or at a
rate.  Each line is a run:

    stall       the longest time of one write or close, as the program saw it;
    moved       what all changes moved, over the least that any plan moves;
    imbalance   after the worst change, how far the node that is farthest from its share is off, in
                per cent of a node's memory (goal: 2, or two stripes); a change that made way for another one
                was not looked at afterwards, and is counted beside.

Below it stands of what the longest stall consists: the change that was under way and the seconds of
its phases, and what failed meanwhile.  The load of the machine stands beside, since times mean little
under it.

    bench/full.py --runs 10
    bench/full.py --runs 3 --rate 60 --up "--scale-out-at 70"

With --check it fails when a goal is missed: moved, imbalance, and the stall of --stall milliseconds, which are 600,
and 300 where nodes come ahead of need.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "trust"))

import about  # noqa: E402
from mounted import TIDEFS  # noqa: E402

MIB = 1 << 20
FILE_MIB = 8
NODES, NODE_MIB, HEAD_ROOM_MIB = (2, 8), 128, 8
FILLED = 0.8
GOAL_MOVED, GOAL_IMBALANCE_PERCENT, GOAL_STRIPES = 1.05, 2, 2
STALL_MS, STALL_AHEAD_MS = 600, 300
RUN_SECONDS_MAX = 300


def write_all(folder: Path, mib: int, rate: float | None) -> dict[str, float]:
    """The longest time that one call took, and all of it, in seconds."""
    block, begun, longest = os.urandom(MIB), time.monotonic(), 0.0
    for number in range(mib // FILE_MIB):
        file = os.open(folder / f"file-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        calls = [lambda: os.write(file, block)] * FILE_MIB + [lambda: os.close(file)]
        for at, call in enumerate(calls):
            called = time.monotonic()
            call()
            longest = max(longest, time.monotonic() - called)
            due = begun + (number * FILE_MIB + at) / rate if rate else 0
            time.sleep(max(0.0, due - time.monotonic()))
    return {"longest": longest, "seconds": time.monotonic() - begun}


def imbalance(change: dict, rows: list[dict]) -> float:
    """Of the last row before the next change begins, in per cent of a node's memory."""
    off = change["imbalance_percent"]
    end = change["started_at"] + change["seconds"]
    row = min(rows, key=lambda it: abs(it["t"] - end))
    return off * row["used_bytes"] / max(row["nodes"], 1) / ((NODE_MIB - HEAD_ROOM_MIB) * MIB)


def phases(change: dict) -> str:
    told = ", ".join(f"{it['name']} {it['seconds']:.2f} s" for it in change["phases"])
    stall = change["io_stall_max_ms"] or 0
    nodes = f"{change['nodes_before']} to {change['nodes_after']} nodes"
    return f"    {stall:.0f} ms during {change['kind']}, {nodes}: {told}; {change['outcome']}"


def measure(options, number: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="tidefs-full-", dir="/tmp") as scratch:
        scratch = Path(scratch)
        least, most = NODES
        mib = int(most * (NODE_MIB - HEAD_ROOM_MIB) * FILLED) // FILE_MIB * FILE_MIB
        up = ("--nodes", f"{least}..{most}", "--node-memory", f"{NODE_MIB}MiB")
        up += ("--mount", scratch / "mount", "--report", scratch, *shlex.split(options.up))
        program = (sys.executable, __file__, "--write", mib, *(("--rate", options.rate) if options.rate else ()))
        line = [options.tidefs, "--state", scratch / "state", "run", *up, "--", *program]
        done = subprocess.run(
            [str(word) for word in line], capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"run {number} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        said = json.loads(next(it for it in done.stdout.splitlines() if it.startswith('{"longest"')))
        report = json.loads((scratch / "report.json").read_text())
    changes = report["reconfigurations"]
    moved = sum(it["bytes_moved"] for it in changes)
    needed = sum(it["bytes_minimum"] for it in changes)
    seen = [it for it in changes if it["imbalance_percent"] is not None]
    uneven = max((imbalance(it, report["timeline"]) for it in seen), default=0.0)
    waited = max(changes, key=lambda it: it["io_stall_max_ms"] or 0, default=None)
    row = {
        "stall_ms": 1000 * said["longest"],
        "seconds": said["seconds"],
        "changes": len(changes),
        "moved_over_least": moved / needed if needed else 1.0,
        "imbalance_percent": uneven,
        "failed": sum(it["outcome"] != "completed" for it in changes),
        "not_looked_at": len(changes) - len(seen),
        "again": sum(any("right" in phase["name"] for phase in it["phases"]) for it in changes),
        "idle_byte_seconds": report["wasted_byte_seconds"],
        "load": os.getloadavg()[0],
    }
    print(
        f"run {number}: stall {row['stall_ms']:.0f} ms, moved x {row['moved_over_least']:.3f} of the least, "
        f"imbalance {uneven:.1f} %, {len(changes)} changes, of which {row['again']} put moves right "
        f"and {row['not_looked_at']} made way before anybody looked, "
        f"{row['seconds']:.1f} s, load {row['load']:.1f}",
        flush=True,
    )
    if waited is not None:
        print(phases(waited), flush=True)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, default=TIDEFS, help="the program to measure")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rate", type=float, help="MiB a second; as fast as it can without")
    parser.add_argument("--up", default="", help="more options of `tidefs run`")
    parser.add_argument("--stall", type=float, help="the goal, in milliseconds [default: 600, or 300]")
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    parser.add_argument("--write", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        print(json.dumps(write_all(Path(os.environ["TIDEFS_MOUNT"]), options.write, options.rate)))
        return 0
    options.tidefs = options.tidefs.resolve()
    is_ahead = "--scale-out-ahead" in options.up
    stall = options.stall or (STALL_AHEAD_MS if is_ahead else STALL_MS)
    where = about.look(options.tidefs)
    rows = [measure(options, number) for number in range(1, options.runs + 1)]
    worst = {what: max(row[what] for row in rows) for what in ("stall_ms", "moved_over_least", "imbalance_percent")}
    print(
        f"worst of {len(rows)}: stall {worst['stall_ms']:.0f} ms, "
        f"moved x {worst['moved_over_least']:.3f}, imbalance {worst['imbalance_percent']:.1f} %"
    )
    even = max(GOAL_IMBALANCE_PERCENT, 100 * GOAL_STRIPES / (NODE_MIB - HEAD_ROOM_MIB))
    goals = {"stall_ms": stall, "moved_over_least": GOAL_MOVED, "imbalance_percent": even}
    missed = [f"{what}: {worst[what]:.3f}, goal {goal:.3f}" for what, goal in goals.items() if worst[what] > goal]
    about.keep(options.results, "full", where, {"up": options.up, "rate": options.rate, "runs": rows, "missed": missed})
    for one in missed:
        print(f"missed: {one}", file=sys.stderr)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
