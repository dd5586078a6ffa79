"""Litmus tests: small races between two mounts of one file system, one for each promise that
docs/SEMANTICS.md makes of them.

Each is seeded and bounded in time. Run as `python3 trust/litmus [NAMES]`. With --churn nodes come and
go meanwhile, on the store that has any. With --clocks the mounts are on hosts whose clocks are hours apart, and
are set all the time, where a mount is a process of its own; what is about times is left out. With --mounts 3 a
third mount takes part. What takes long is
tried where --seconds or its name asks for it.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import clocks  # noqa: E402
import contents  # noqa: E402
import growing  # noqa: E402
import listings  # noqa: E402
import locks  # noqa: E402
import names  # noqa: E402
import rest  # noqa: E402
import stopped  # noqa: E402
import together  # noqa: E402
import trees  # noqa: E402
import winners  # noqa: E402
import worked  # noqa: E402
from host_clock import stepping  # noqa: E402
from mounted import STORES, TIDEFS, Mounted  # noqa: E402
from race import Broken, Race  # noqa: E402

# What each test may take beyond its time, on a machine that does much else: together they may take longer.
GRACE_SECONDS = 300

# Where the kernel writes by itself, it dates by a clock that moves on once a tick.
EARLY_NS = {"embedded": 10_000_000}

# How many nodes there are at most while they come and go.
NODES_MAX = 3

FAMILIES = [
    names,
    listings,
    contents,
    growing,
    together,
    winners,
    locks,
    clocks,
    rest,
    worked,
    trees,
    stopped,
]
TESTS = {f"{f.__name__}.{test.__name__}": test for f in FAMILIES for test in f.TESTS}


@contextlib.contextmanager
def churn(mounted: Mounted, seed: int) -> Iterator[list[str]]:
    """Changes the number of nodes all the time. The answer is what was done, or failed."""
    chance = random.Random(f"{seed}/churn")
    over = threading.Event()
    done: list[str] = []

    def change() -> None:
        count = 1
        while not over.is_set():
            count = chance.choice([n for n in range(1, NODES_MAX + 1) if n != count])
            try:
                mounted.call("scale", str(count))
                done.append(f"{count} nodes")
            except Exception as error:
                done.append(f"FAILED: {error}")
                return

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def seconds_min(test) -> float:
    """For how long all tests must run for this one to be among them."""
    return getattr(test, "seconds_min", 0)


def begin(store: str, options, scratch: Path) -> Mounted:
    if not options.churn:
        return Mounted.on(store, options.tidefs, scratch, options.mounts, options.clocks)
    nodes = ("--nodes", f"1..{NODES_MAX}", "--policy", "static", "--node-memory", "256MiB")
    return Mounted(options.tidefs, scratch, *nodes, mounts=options.mounts, clocks=options.clocks)


def play(store: str, chosen: dict, options) -> list[str]:
    """Runs the chosen tests on one store; says what was broken."""
    broken, tried = [], 0
    with tempfile.TemporaryDirectory(prefix="tidefs-litmus-", dir="/tmp") as scratch:
        with contextlib.ExitStack() as stack:
            mounted = stack.enter_context(begin(store, options, Path(scratch)))
            if mounted.clocks:
                stack.enter_context(stepping(mounted.clocks, options.seed))
            changes = stack.enter_context(churn(mounted, options.seed)) if options.churn else []
            for name, test in chosen.items():
                seconds, early = options.seconds / len(chosen), EARLY_NS.get(store, 0)
                watch = mounted.give_up_after(seconds + GRACE_SECONDS, f"{name}, seed {options.seed}")
                try:
                    race = Race(name, mounted, seconds, options.seed, early)
                    count = test(race)
                    tried += count
                    if options.verbose:
                        print(f"  {name}: {count}", flush=True)
                except Broken as error:
                    broken.append(f"{store}, {name}: {error}")
                    if options.verbose:
                        print(f"  {name}: {error}", flush=True)
                finally:
                    watch.cancel()
    broken += [f"{store}, a change of the nodes: {what}" for what in changes if "FAILED" in what]
    if options.churn:
        print(f"litmus, {store}: {len(changes)} changes of the number of nodes", flush=True)
        broken += [] if changes else [f"{store}: the number of nodes never changed"]
    print(
        f"litmus, {store}: {len(chosen)} tests, {tried} operations and looks, "
        f"{len(broken)} broken, seed {options.seed}",
        flush=True,
    )
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="litmus", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--store", choices=STORES, action="append", help="default: both")
    parser.add_argument("--mounts", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="for all tests on one store")
    parser.add_argument("--seed", type=int, default=None, help="default: another each time")
    parser.add_argument("--churn", action="store_true", help="nodes come and go, on valkey only")
    parser.add_argument("--clocks", action="store_true", help="hosts' clocks differ, on valkey only")
    parser.add_argument("--verbose", action="store_true", help="a line for each test")
    parser.add_argument("names", nargs="*", help="parts of the names of tests; default: all")
    options = parser.parse_args()
    if not options.tidefs.is_file():
        parser.error(f"there is no program {options.tidefs}; run make build")
    if options.churn and options.store not in (None, ["valkey"]):
        parser.error("--churn is for --store valkey: the other one has no nodes")
    if options.clocks and (options.store != ["valkey"] or options.mounts < 2):
        parser.error("--clocks is for several mounts on --store valkey")
    if options.mounts < 1:
        parser.error("at least 1 mount is needed")
    chosen = {
        name: test
        for name, test in TESTS.items()
        if not options.names or any(part in name for part in options.names)
    }
    long = [name for name, test in chosen.items() if seconds_min(test) > options.seconds]
    if long and not options.names:
        print(f"litmus: left out for lack of time: {', '.join(long)}", flush=True)
        chosen = {name: test for name, test in chosen.items() if name not in long}
    if not chosen:
        parser.error(f"no test has such a name; there are {', '.join(TESTS)}")
    options.tidefs = options.tidefs.resolve()
    if options.seed is None:
        options.seed = random.randrange(1 << 32)
    if options.clocks and not options.names:
        chosen = {name: test for name, test in chosen.items() if test not in clocks.TESTS}
    stores = options.store or (["valkey"] if options.churn else STORES)
    broken = [what for store in stores for what in play(store, chosen, options)]
    for what in broken:
        print(f"BROKEN (seed {options.seed}): {what}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
