#!/usr/bin/python3
"""The share of the data on own nodes, on real ones: MemFSS's figure 2.

Two own nodes and six lent ones.  For each share, files of whole stripes are written, three more lent
nodes come and go, and after each of that the stripes on own nodes are counted once nothing moves any
more.  Each share must be within 2 points, every byte must be right, and victims must hold no metadata.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from lenders import Lender, TooLate, at_rest, until, victims
from mounted import TIDEFS, Mounted, is_left_out

MIB = 1 << 20
POINTS_MOST = 2.0


def content(number: int) -> bytes:
    return random.Random(number).randbytes(MIB)


def own_percent(mounted: Mounted, stripes: int) -> float:
    """Victims hold stripes and nothing else, so what they do not hold is on own nodes."""
    lent = sum(node["keys"] for node in victims(mounted.status()))
    return 100 * (stripes - lent) / stripes


def settled(mounted: Mounted, wanted: float, stripes: int, count: int) -> float:
    """The share once nothing moves any more."""
    there = lambda: (
        at_rest(mounted, count) and abs(own_percent(mounted, stripes) - wanted) <= POINTS_MOST
    )
    try:
        until("the share", there, 60)
    except TooLate:
        pass
    return own_percent(mounted, stripes)


def tried(tidefs: Path, share: str, stripes: int, victims_first: int, victims_then: int) -> bool:
    wanted, found = 100 * float(share), []
    up = ["--nodes", "2", "--node-memory", f"{stripes * 2 + 64}MiB"]
    up += ["--listen", "127.0.0.1:0", "--own-share", share]
    memory = f"{max(stripes, 64) + 64}MiB"
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ts", dir="/tmp")))
        mounted = stack.enter_context(Mounted(tidefs, scratch, *up))
        mount = mounted.mounts[0]
        lent = [stack.enter_context(Lender(mounted, memory)) for _ in range(victims_first)]
        until("the lent nodes are in use", lambda: at_rest(mounted, victims_first))
        for number in range(stripes):
            (mount / str(number)).write_bytes(content(number))
        found.append(("written", settled(mounted, wanted, stripes, victims_first)))
        more = [stack.enter_context(Lender(mounted, memory)) for _ in range(victims_then)]
        both = victims_first + victims_then
        until("more lent nodes are in use", lambda: at_rest(mounted, both))
        found.append(("more victims", settled(mounted, wanted, stripes, both)))
        seconds = [lender.give_back() for lender in more]
        until("they have left", lambda: at_rest(mounted, victims_first))
        found.append(("fewer victims", settled(mounted, wanted, stripes, victims_first)))
        right = all((mount / str(number)).read_bytes() == content(number) for number in range(stripes))
        seconds += [lender.give_back() for lender in lent]
        until("all have left", lambda: at_rest(mounted, 0))
        right &= all((mount / str(number)).read_bytes() == content(number) for number in range(stripes))
    said = ", ".join(f"{what} {percent:.2f} %" for what, percent in found)
    print(f"own share {share}: {said}; given back in up to {max(seconds):.1f} s", flush=True)
    if not right:
        print("a byte is wrong", file=sys.stderr)
    return right and all(abs(percent - wanted) <= POINTS_MOST for _, percent in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, default=TIDEFS, help="the program to test")
    parser.add_argument("--shares", default="0,0.25,0.5,0.75,1")
    parser.add_argument("--stripes", type=int, default=400, help="files of 1 MiB")
    parser.add_argument("--victims", type=int, default=3, help="at first; as many come and go")
    options = parser.parse_args()
    if is_left_out("cgroup") or is_left_out("server") or is_left_out("fuse"):
        return 0
    held = [
        tried(options.tidefs.resolve(), share, options.stripes, options.victims, options.victims)
        for share in options.shares.split(",")
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
