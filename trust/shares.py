#!/usr/bin/python3
"""The share of the data on own nodes, on real ones: MemFSS's figure 2.

Two own nodes and six lent ones.  For each share, files of whole stripes are written, three more lent
nodes come and go, and after each of that the stripes on own nodes are counted once nothing moves any
more.  Each share must be within 2 points, every byte must be right, and victims must hold stripes and
nothing else: their keys are listed.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from lenders import Lender, TooLate, at_rest, until, victims
from mounted import PROJECT, TIDEFS, Mounted, is_left_out
from strangers import looking_server, strangers

sys.path.insert(0, str(PROJECT / "bench"))

import about  # noqa: E402

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


class Tried:
    """One share: the figures of each step, and what went wrong."""

    def __init__(self, share: str, options: argparse.Namespace):
        self.share, self.wanted, self.options = share, 100 * float(share), options
        self.found, self.wrong, self.seconds = {}, [], []

    def look(self, what: str, mounted: Mounted, count: int) -> None:
        stripes = self.options.stripes
        percent = settled(mounted, self.wanted, stripes, count)
        self.found[what] = percent
        if abs(percent - self.wanted) > POINTS_MOST:
            self.wrong.append(f"{what}: {percent:.2f} %")
        held, nodes = 0, mounted.status()["nodes"]
        own = [node["endpoint"] for node in nodes if node["class"] == "own"]
        if not any(strangers(endpoint)[1] for endpoint in own):
            self.wrong.append(f"{what}: own nodes list no metadata, so who looks sees none")
        for node in victims(mounted.status()):
            counted, others = strangers(node["endpoint"])
            held += counted
            if others:
                self.wrong.append(f"{what}: {len(others)} keys on a victim are no stripes: {others[:3]}")
        if round(100 * (stripes - held) / stripes, 6) != round(percent, 6):
            self.wrong.append(f"{what}: victims list {held} stripes, and status says something else")

    def read(self, what: str, mounted: Mounted) -> None:
        mount = mounted.mounts[0]
        files = range(self.options.stripes)
        wrong = sum((mount / str(it)).read_bytes() != content(it) for it in files)
        if wrong:
            self.wrong.append(f"{what}: {wrong} files are not what was written")

    def run(self) -> None:
        stripes, first, more = self.options.stripes, self.options.victims, self.options.more
        up = ["--nodes", "2", "--node-memory", f"{stripes * 2 + 64}MiB"]
        # Whoever looks into the nodes has no certificate.
        up += ["--listen", "127.0.0.1:0", "--network", "trusted", "--own-share", self.share]
        memory = f"{max(stripes, 64) + 64}MiB"
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ts", dir="/tmp")))
            server = str(looking_server(scratch))
            mounted = Mounted(self.options.tidefs.resolve(), scratch, *up, server=server)
            mounted = stack.enter_context(mounted)
            mount = mounted.mounts[0]
            lent = [stack.enter_context(Lender(mounted, memory)) for _ in range(first)]
            until("the lent nodes are in use", lambda: at_rest(mounted, first))
            for number in range(stripes):
                (mount / str(number)).write_bytes(content(number))
            self.look("written", mounted, first)
            added = [stack.enter_context(Lender(mounted, memory)) for _ in range(more)]
            until("more lent nodes are in use", lambda: at_rest(mounted, first + more))
            self.look("more victims", mounted, first + more)
            self.seconds += [lender.give_back() for lender in added]
            until("they have left", lambda: at_rest(mounted, first))
            self.look("fewer victims", mounted, first)
            self.read("fewer victims", mounted)
            self.seconds += [lender.give_back() for lender in lent]
            until("all have left", lambda: at_rest(mounted, 0))
            self.read("no victims", mounted)

    def row(self) -> dict[str, object]:
        return {"own share": self.share} | self.found | {"given back, s": max(self.seconds, default=0)}


def tried(share: str, options: argparse.Namespace) -> Tried:
    one = Tried(share, options)
    try:
        one.run()
    except TooLate as error:
        one.wrong.append(str(error))
    said = ", ".join(f"{what} {percent:.2f} %" for what, percent in one.found.items())
    seconds = max(one.seconds, default=0)
    print(f"own share {share}: {said}; given back in up to {seconds:.1f} s", flush=True)
    for wrong in one.wrong:
        print(f"FAILED: {share}: {wrong}", file=sys.stderr, flush=True)
    return one


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, default=TIDEFS, help="the program to test")
    parser.add_argument("--shares", default="0,0.25,0.5,0.75,1")
    parser.add_argument("--stripes", type=int, default=400, help="files of 1 MiB")
    parser.add_argument("--victims", type=int, default=6, help="lent nodes at first")
    parser.add_argument("--more", type=int, default=3, help="lent nodes that come and go")
    parser.add_argument("--results", type=Path, help="a folder to keep the figures in")
    options = parser.parse_args()
    if is_left_out("cgroup") or is_left_out("server") or is_left_out("fuse"):
        return 0
    where = about.look(options.tidefs.resolve()) if options.results else None
    held = [tried(share, options) for share in options.shares.split(",")]
    if options.results:
        missed = [f"{one.share}: {wrong}" for one in held for wrong in one.wrong]
        report = {"rows": [one.row() for one in held], "stripes": options.stripes, "missed": missed}
        about.keep(options.results, "shares", where, report)
    return 1 if any(one.wrong for one in held) else 0


if __name__ == "__main__":
    sys.exit(main())
