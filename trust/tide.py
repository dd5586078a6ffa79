#!/usr/bin/python3
"""A run that rises and ebbs: more is written than a node holds, read back, deleted, and waited for.

`tidefs run --nodes 1..6 --node-memory 256MiB --policy nso+asi` around a command that writes 1.2 GiB,
compares every byte it reads back, deletes all of it and waits until one node is left.  No call may
fail, no byte may be wrong, the nodes must have grown to what the bytes need (in memory, as servers
take it) and no further than that and one step, and one must be left.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20
FILE_BYTES = 24 * MIB
NODE_MIB = 256
# Part of the memory in use above which the policy adds nodes.
GROWS_AT = 0.95
# From the deletion to the last node.
EBB_SECONDS_MAX = 400


def content(number: int) -> bytes:
    return random.Random(number).randbytes(FILE_BYTES)


def inside(tidefs: str, files: int) -> int:
    """The command that the run is around."""
    mount = Path(os.environ["TIDEFS_MOUNT"])
    for number in range(files):
        (mount / f"file-{number}").write_bytes(content(number))
    for number in range(files):
        if (mount / f"file-{number}").read_bytes() != content(number):
            print(f"file-{number} is not what was written", file=sys.stderr)
            return 1
    for number in range(files):
        (mount / f"file-{number}").unlink()
    end = time.monotonic() + EBB_SECONDS_MAX
    while time.monotonic() < end:
        said = subprocess.run(
            [tidefs, "status", "--json"], capture_output=True, text=True, check=True, timeout=60
        )
        if len(json.loads(said.stdout)["nodes"]) == 1:
            return 0
        time.sleep(0.5)
    print("more than one node is left", file=sys.stderr)
    return 1


def check(report: dict, files: int) -> list[str]:
    found = []
    most = max(row["nodes"] for row in report["timeline"])
    full = max(row["allocated_bytes"] / row["nodes"] for row in report["timeline"]) * GROWS_AT
    needed = math.ceil(report["peak_used_bytes"] / full)
    # The policy adds as many as it began with: one.
    if not needed <= most <= needed + 1:
        found.append(f"grew to {most} nodes where {needed} are needed")
    if report["timeline"][-1]["nodes"] != 1:
        found.append(f"{report['timeline'][-1]['nodes']} nodes are left")
    if report["io_errors"]:
        found.append(f"{report['io_errors']} calls failed")
    for one in report["reconfigurations"]:
        if one["outcome"] != "completed":
            found.append(f"{one['kind']}: {one['outcome']}")
    kinds = [one["kind"] for one in report["reconfigurations"]]
    print(
        f"{report['store']}: {files * FILE_BYTES // MIB} MiB, up to {most} nodes where {needed} are needed, "
        f"{kinds.count('commission')} growths and {kinds.count('decommission')} shrinks "
        f"in {report['wall_seconds']:.0f} s, improvement {report['resource_usage_improvement']}"
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, required=True, help="the program to test")
    parser.add_argument("--server", help="the server program that nodes run")
    # 1.2 GiB. Redis keeps a stripe of 1 MiB in 1.25 MiB, and six nodes do not hold so much.
    parser.add_argument("--files", type=int, default=52, help="of 24 MiB each")
    parser.add_argument("--quiet-period", default="45", help="seconds before it shrinks")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(str(options.tidefs), options.files)
    if not options.tidefs.exists():
        parser.error("no such program")
    environment = {**os.environ, **({"TIDEFS_SERVER": options.server} if options.server else {})}
    with tempfile.TemporaryDirectory(prefix="tt", dir="/tmp") as folder:
        tidefs = str(options.tidefs.resolve())
        words = [tidefs, "--state", f"{folder}/state", "run", "--nodes", "1..6"]
        words += ["--node-memory", f"{NODE_MIB}MiB", "--policy", "nso+asi"]
        words += ["--quiet-period", options.quiet_period, "--report", f"{folder}/report", "--"]
        words += [sys.executable, str(Path(__file__).resolve()), "--inside", "--tidefs", tidefs]
        words += ["--files", str(options.files)]
        ran = subprocess.run(words, cwd=folder, env=environment, check=False)
        if ran.returncode != 0:
            print(f"FAILED: the run ended with {ran.returncode}", file=sys.stderr)
            return 1
        found = check(json.loads(Path(folder, "report", "report.json").read_text()), options.files)
    for what in found:
        print(f"FAILED: {what}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
