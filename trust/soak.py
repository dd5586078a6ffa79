#!/usr/bin/python3
"""Nodes come and go without pause while programs write and read back on two mounts.

Workers on both mounts write large files, parts of files, small files, and rename; every byte
follows from a seed, so each read is compared with what must be there.  Meanwhile nodes are
added, drained and removed by hand, at random.  No system call may fail and no byte may be
wrong.  Afterwards all partitions must have one owner and all files that are left must read
right through both mounts.  Several servers are tried at the same time, each with its own file
system.

What calls took, what was moved over the least, and how even nodes were are printed; with --judged
the last two must hold as well, which needs nodes that hold enough to tell.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import Event, Process, Queue
from pathlib import Path
from statistics import median

import owners
from mounted import COMMAND_SECONDS_MAX, TIDEFS, Mounted
from workers import KINDS, work

LOG_LINES_MAX = 60
# Bytes moved over the least that had to, in the whole run.
MOVED_MOST = 1.05
# The median of how uneven the nodes are after a change, in per cent.
UNEVEN_MOST = 2.0
# With fewer stripes on a node, one stripe counts for too much.
STRIPES_LEAST = 200
STRIPE = 1 << 20


class FileSystem(Mounted):
    """On two mounts, with as many nodes as are asked for by hand."""

    def __init__(self, options, server: str | None, scratch: Path):
        self.most = options.nodes_max
        up = ("--nodes", f"1..{self.most}", "--policy", "static", "--node-memory", options.node_memory)
        up += ("--sealed", options.sealed)
        super().__init__(options.tidefs, scratch, *up, mounts=2, server=server)
        # Which request failed, and why, is told to programs as a number and otherwise not logged.
        self.environment["TIDEFS_LOG"] = "warn,tidefs_manager=info"

    def log(self) -> str:
        """What its processes said last; it is gone with the file system."""
        logs = sorted(self.scratch.glob("state/**/log"))
        return "".join(
            f"--- {log.parent.name}/{log.name}\n"
            + "".join(log.read_text(errors="replace").splitlines(keepends=True)[-LOG_LINES_MAX:])
            for log in logs
        )

    def change(self, chance: random.Random) -> dict | None:
        """Another number of nodes, by any way that leads there; says what was done.  None: what is in
        use fits no other number now."""
        status = self.status()
        count = len(status["nodes"])
        used = sum(node["memory_used_bytes"] for node in status["nodes"])
        each = status["nodes"][0]["memory_capacity_bytes"]
        # What is left must take everything, and what is written meanwhile.
        least = max(1, -(-int(used * 1.5) // each))
        others = [n for n in range(1, self.most + 1) if n >= least and n != count]
        if not others:
            return None
        wanted = chance.choice(others)
        words = ["scale", str(wanted)]
        if wanted == count - 1:
            words = ["drain", str(chance.choice(status["nodes"])["number"])]
        begun = time.monotonic()
        done = json.loads(self.call(*words, "--json"))
        stripes = used / STRIPE / done["nodes_after"]
        return done | {"begun": begun, "ended": time.monotonic(), "stripes_a_node": stripes}


@dataclass
class Outcome:
    """What a soak on one kind of server came to."""

    store: str = "not started"
    seconds: float = 0.0
    changes: list[dict] = field(default_factory=list)
    operations: int = 0
    calls: int = 0
    failed_calls: list[str] = field(default_factory=list)
    wrong_bytes: list[str] = field(default_factory=list)
    # Anything else: a change that was refused, partitions without an owner.
    failures: list[str] = field(default_factory=list)
    # A sample of the calls: when each began and how long it took.
    times: list[tuple[float, float]] = field(default_factory=list)
    # The longest call that was under way in each second.
    longest: dict[int, float] = field(default_factory=dict)
    # Of a file system that met a problem.
    log: str = ""

    def moved_over_minimum(self) -> float:
        """Not a number where nothing had to move."""
        moved = sum(change["bytes_moved"] for change in self.changes)
        least = sum(change["bytes_minimum"] for change in self.changes)
        return moved / least if least else float("nan")

    def p99s(self) -> list[float]:
        """Of the calls that began during each change."""
        during = (
            sorted(took for begun, took in self.times if it["begun"] <= begun < it["ended"])
            for it in self.changes
        )
        return [times[int((len(times) - 1) * 0.99)] for times in during if times]

    def stalls(self) -> list[float]:
        """The longest call of each change, to the second."""
        during = (range(int(it["begun"]), int(it["ended"]) + 1) for it in self.changes)
        return [max(self.longest.get(second, 0.0) for second in seconds) for seconds in during]

    def ratios(self) -> list[float]:
        """What each change moved over the least."""
        return [it["bytes_moved"] / it["bytes_minimum"] for it in self.changes if it["bytes_minimum"]]

    def uneven(self, stripes_least: float = 0) -> list[float]:
        """How uneven several nodes were after each change that left so many stripes on a node, as far as
        that is known."""
        told = (it["imbalance_percent"] for it in self.with_several(stripes_least))
        return [percent for percent in told if percent is not None]

    def with_several(self, stripes_least: float) -> list[dict]:
        several = (it for it in self.changes if it["nodes_after"] > 1)
        return [it for it in several if it["stripes_a_node"] >= stripes_least]

    def judged(self) -> list[str]:
        moved, uneven = self.moved_over_minimum(), self.uneven(STRIPES_LEAST)
        found = []
        if not moved <= MOVED_MOST:
            found.append(f"{moved:.3f} times the least was moved, more than {MOVED_MOST}")
        if not uneven:
            found.append(f"no change left {STRIPES_LEAST} stripes on a node, so nothing says how even they are")
        elif len(uneven) < len(self.with_several(STRIPES_LEAST)) / 2:
            found.append("of most changes it is not known how even they left the nodes")
        elif median(uneven) > UNEVEN_MOST:
            found.append(
                f"nodes were uneven by {median(uneven):.1f} % in the median, more than {UNEVEN_MOST} %"
            )
        return [f"{self.store}: {what}" for what in found]

    def problems(self) -> list[str]:
        return [*self.failed_calls, *self.wrong_bytes, *self.failures]


def soak(options, server: str | None, seed: int) -> Outcome:
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="tidefs-soak-", dir="/tmp") as scratch:
        try:
            with FileSystem(options, server, Path(scratch)) as system:
                try:
                    churn(options, system, seed, outcome)
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    outcome.failures.append(str(error))
                if outcome.problems():
                    outcome.log = system.log()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            outcome.failures.append(f"{server or 'the usual server'}: {error}")
    return outcome


def churn(options, system: FileSystem, seed: int, outcome: Outcome) -> None:
    stop, reports = Event(), Queue()
    share = (options.live_mib << 20) // options.workers
    kinds = [KINDS[number % len(KINDS)] for number in range(options.workers)]
    workers = [kind(n, seed, system.mounts, share) for n, kind in enumerate(kinds)]
    processes = [Process(target=work, args=(worker, stop, reports)) for worker in workers]
    for process in processes:
        process.start()
    begun = time.monotonic()
    try:
        change_nodes(options, system, seed, outcome, reports)
    finally:
        stop.set()
        found = [reports.get(timeout=COMMAND_SECONDS_MAX) for _ in processes]
        for process in processes:
            process.join(COMMAND_SECONDS_MAX)
    outcome.seconds = time.monotonic() - begun
    for failed, wrong, operations, calls, longest, kept in found:
        outcome.failed_calls += [failed] if failed else []
        outcome.wrong_bytes += [wrong] if wrong else []
        outcome.operations += operations
        outcome.calls += calls
        for second, most in longest.items():
            outcome.longest[second] = max(outcome.longest.get(second, 0.0), most)
        outcome.times += kept
    status = system.status()
    outcome.store = status["store"]
    wrong = owners.odd(Path(system.state) / "up")
    if wrong is not None:
        outcome.failures.append(wrong)


def change_nodes(options, system: FileSystem, seed: int, outcome: Outcome, reports) -> None:
    """Without a pause, until the time is over or a worker has met something wrong."""
    chance = random.Random(seed)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end and reports.empty():
        done = system.change(chance)
        if done is None:
            time.sleep(0.2)
            continue
        outcome.changes.append(done)
        if options.verbose:
            print(
                f"{len(outcome.changes):>4}  {done['nodes_before']} to {done['nodes_after']} nodes "
                f"in {done['seconds']:.2f} s, {done['bytes_moved'] >> 20} MiB; "
                + ", ".join(f"{it['name']} {it['seconds']:.2f} s" for it in done["phases"]),
                flush=True,
            )


def middle_and_worst(values: list[float], unit: str, factor: float = 1) -> str:
    if not values:
        return "unknown"
    digits = 2 if unit == "" else 0 if unit == " ms" else 1
    middle, worst = (f"{value * factor:.{digits}f}" for value in (median(values), max(values)))
    return f"{middle} {worst}{unit}"


def print_table(outcomes: list[Outcome], seed: int) -> None:
    line = "{:<16}{:>8}{:>9}{:>10}{:>8}{:>8}{:>13}{:>13}{:>8}{:>12}{:>14}{:>8}"
    print(
        line.format(
            *("server", "seconds", "changes", "calls", "failed", "wrong", "p99", "longest"),
            *("moved", "each", "imbalance", "of full"),
        )
    )
    for it in outcomes:
        full = it.uneven(STRIPES_LEAST)
        print(
            line.format(
                it.store,
                f"{it.seconds:.0f}",
                len(it.changes),
                it.calls,
                len(it.failed_calls),
                len(it.wrong_bytes),
                middle_and_worst(it.p99s(), " ms", 1000),
                middle_and_worst(it.stalls(), " ms", 1000),
                f"x {it.moved_over_minimum():.2f}",
                middle_and_worst(it.ratios(), ""),
                middle_and_worst(it.uneven(), " %"),
                f"{median(full):.1f} %" if full else "none",
            )
        )
    print(
        f"seed {seed}; two figures: the median and the worst of all changes; moved: over the least, in all "
        f"and by change; of full: the median imbalance where nodes hold {STRIPES_LEAST} stripes or more",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument(
        "--server",
        action="append",
        help="a server program, or `usual` for the one that tidefs finds; may be given again",
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--changes", type=int, default=0, help="fail with fewer changes of nodes")
    parser.add_argument(
        "--judged", action="store_true", help="fail where too much is moved, or nodes are uneven"
    )
    parser.add_argument("--seed", type=int, default=None, help="default: another each time")
    parser.add_argument("--workers", type=int, default=len(KINDS))
    parser.add_argument("--nodes-max", type=int, default=5)
    parser.add_argument("--node-memory", default="256MiB")
    parser.add_argument("--sealed", default="victims", choices=("always", "victims", "never"))
    parser.add_argument("--live-mib", type=int, default=96, help="what the workers leave, at most")
    parser.add_argument("--verbose", action="store_true", help="a line for each change")
    options = parser.parse_args()
    if not options.tidefs.is_file():
        parser.error(f"there is no program {options.tidefs}; build it: cargo build --release")
    if options.workers < 1 or options.nodes_max < 2:
        parser.error("at least 1 worker and 2 nodes are needed")
    options.tidefs = options.tidefs.resolve()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    servers = [None if name == "usual" else name for name in options.server or ["usual"]]
    # Not threads: a worker that is forked in one would inherit what another one has open.
    with ProcessPoolExecutor(len(servers)) as pool:
        each = [pool.submit(soak, options, server, seed) for server in servers]
        outcomes = [soaked.result() for soaked in each]
    print_table(outcomes, seed)
    problems = [problem for outcome in outcomes for problem in outcome.problems()]
    problems += [
        f"{it.store}: {len(it.changes)} changes of the nodes, fewer than {options.changes}"
        for it in outcomes
        if len(it.changes) < options.changes
    ]
    problems += [problem for it in outcomes for problem in it.judged() if options.judged]
    for outcome in outcomes:
        print(outcome.log, end="", file=sys.stderr)
    for problem in problems:
        print(f"FAILED (seed {seed}): {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
