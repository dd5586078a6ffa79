#!/usr/bin/python3
"""fsx, a seeded random exerciser of one file's bytes, on mounts of both stores.

Every operation of it is switched on: reads and writes, also through maps and sendfile, truncation,
allocation, holes, copies inside the file, advice, syncs, and closing. It compares each byte that it
reads with what it wrote. A quarter of the operations go to a file of several stripes, and a quarter
to a mount that is not alone.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage. A failure names the
command that repeats it; what fsx leaves behind then is in out/fsx.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mounted import PROJECT, STORES, SUITES, TIDEFS, Mounted  # noqa: E402

SUITE = SUITES / "fsx"
# The program never ends the maps that it reads through, and the kernel allows 65,530 of them.
SLICE = 100_000
# A slice takes a minute or two; this is for a machine that does much else.
SLICE_SECONDS_MAX = 1800
# Mounts, settings, and the share of the operations.
KINDS = [(1, "small.toml", 2), (1, "stripes.toml", 1), (2, "small.toml", 1)]


def slices(operations: int) -> list[int]:
    whole, rest = divmod(operations, SLICE)
    return [SLICE] * whole + [rest] * (rest > 0)


def exercise(options, store: str, operations: int) -> list[str]:
    """Runs all kinds on one store; says what failed."""
    chance = random.Random(f"{options.seed}/{store}")
    failures = []
    shares = sum(share for _, _, share in KINDS)
    for mounts, settings, share in KINDS:
        with tempfile.TemporaryDirectory(prefix="tidefs-fsx-", dir="/tmp") as scratch:
            with Mounted.on(store, options.tidefs, Path(scratch), mounts) as mounted:
                for number in slices(operations * share // shares):
                    seed = chance.randrange(1 << 32)
                    said = run(mounted.mounts[-1], settings, number, seed)
                    if said:
                        failures.append(f"{store}, {mounts} mounts: {said}")
                        break
    return failures


def run(mount: Path, settings: str, operations: int, seed: int) -> str | None:
    left = PROJECT / "out/fsx"
    left.mkdir(parents=True, exist_ok=True)
    path = mount / "file"
    words = ["-f", HERE / settings, "-N", operations, "-S", seed, "-P", left, "-q", path]
    command = [str(word) for word in [SUITE, *words]]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SLICE_SECONDS_MAX,
    )
    if done.returncode == 0 and "A-OK" in done.stdout:
        path.unlink()
        return None
    return f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-4000:]}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    for store in STORES:
        parser.add_argument(f"--{store}", type=int, default=10_000, metavar="OPERATIONS")
    parser.add_argument("--seed", type=int, default=None, help="default: another each time")
    options = parser.parse_args()
    for program in (options.tidefs, SUITE):
        if not program.is_file():
            parser.error(f"there is no program {program}; run make setup build")
    options.tidefs = options.tidefs.resolve()
    if options.seed is None:
        options.seed = random.randrange(1 << 32)
    # Each store mostly waits for the other side of its mount.
    with ThreadPoolExecutor(len(STORES)) as pool:
        running = [pool.submit(exercise, options, s, getattr(options, s)) for s in STORES]
    failures = [failure for store in running for failure in store.result()]
    counts = ", ".join(f"{getattr(options, store):,} operations on {store}" for store in STORES)
    print(f"fsx: {counts}, seed {options.seed}", flush=True)
    for failure in failures:
        print(f"FAILED (seed {options.seed}): {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
