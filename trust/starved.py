#!/usr/bin/python3
"""A lent node that stands still keeps its lender from nothing: where the lender's machine lacks memory,
the node is ended when the deadline is over, and not when somebody has answered.

A control group is the lender's machine.  The node is stopped (SIGSTOP), the group's limit is lowered to
less than the lender keeps free, and the time is taken until the lender says that the node was ended.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from lenders import Lender, TooLate, at_rest, until
from mounted import TIDEFS, Mounted, is_left_out
from yields import MIB, machine

MACHINE_MIB, KEPT_FREE_MIB, LEFT_FREE_MIB = 512, 64, 24


def node_of(lender: Lender) -> int:
    tasks = Path(f"/proc/{lender.process.pid}/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    return next(pid for pid in children if "valkey" in Path(f"/proc/{pid}/cmdline").read_text())


def lower(group: Path) -> None:
    """What is free in the group is less than the lender keeps free from now on."""
    first = (group / "memory.limit_in_bytes").exists()
    usage = group / ("memory.usage_in_bytes" if first else "memory.current")
    limit = group / ("memory.limit_in_bytes" if first else "memory.max")
    limit.write_text(str(int(usage.read_text()) + LEFT_FREE_MIB * MIB))


def tried(tidefs: Path, deadline: float) -> float:
    """Seconds from the need, as the lender has seen it, to the end of the node."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ts", dir="/tmp")))
        up = ("--nodes", "1", "--node-memory", "128MiB", "--listen", "127.0.0.1:0")
        mounted = stack.enter_context(Mounted(tidefs, scratch, *up))
        group = stack.enter_context(machine(MACHINE_MIB))
        words = ("--keep-free", f"{KEPT_FREE_MIB}MiB", "--deadline", f"{deadline}s")
        lender = stack.enter_context(Lender(mounted, "128MiB", *words, into=group))
        until("the node is in use", lambda: at_rest(mounted, 1))
        os.kill(node_of(lender), signal.SIGSTOP)
        lower(group)
        until("the need is seen", lambda: "needs its memory" in lender.said(), 10)
        begun = time.monotonic()
        until("the node is ended", lambda: "is lost" in lender.said(), deadline + 30)
        return time.monotonic() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, default=TIDEFS, help="the program to test")
    parser.add_argument("--tries", type=int, default=1)
    # No multiple of what a question to a node may take.
    parser.add_argument("--deadline", type=float, default=2.5, help="seconds")
    late = "seconds beyond the deadline that a busy machine may take"
    parser.add_argument("--late", type=float, default=0.3, help=late)
    options = parser.parse_args()
    if any(is_left_out(what) for what in ("cgroup", "server", "fuse")):
        return 0
    try:
        took = [tried(options.tidefs.resolve(), options.deadline) for _ in range(options.tries)]
    except TooLate as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print(f"nodes that stood still were ended after {', '.join(f'{it:.2f}' for it in took)} s")
    return 0 if max(took) <= options.deadline + options.late else 1


if __name__ == "__main__":
    sys.exit(main())
