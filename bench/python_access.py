#!/usr/bin/python3
"""fsspec beside plain `open` on one mount: large reads, and a zarr store of 10,000 objects.

Both kinds of access have their turn in each round, in an order that is turned from round to round; the
ratio of a round is that of its two times, and the median of the rounds counts, beside the least and the
most.  It needs the Python package with zarr (`make python` makes such an environment).

    bench/python_access.py --tidefs target/release/tidefs --rounds 7

With --check it fails when large reads stay below 0.8 of plain `open`, or a zarr store takes more than
1.2 times as long as on the mount's directory.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

MIB = 1 << 20
LARGE_READ_GOAL, ZARR_GOAL = 0.8, 1.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", required=True, type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--nodes", type=int, help="storage nodes (default: the embedded store)")
    parser.add_argument("--large-mib", type=int, default=256)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    os.environ["TIDEFS_BINARY"] = str(options.tidefs.resolve())

    import tidefs

    memory = {} if options.nodes is None else {"node_memory": f"{2 * options.large_mib + 512}MiB"}
    with tidefs.run(nodes=options.nodes, **memory) as mounted:
        ratios = measure(mounted, options)
    rows = {name: summary(values) for name, values in ratios.items()}
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        for name, row in rows.items():
            print(f"{name:48} {row['median']:.2f} ({row['least']:.2f} to {row['most']:.2f})")
    good = rows["large read, part of plain open's rate"]["median"] >= LARGE_READ_GOAL
    good = good and rows["zarr, times the directory's time"]["median"] <= ZARR_GOAL
    return 1 if options.check and not good else 0


def measure(mounted, options) -> dict:
    fs = mounted.fsspec
    large = mounted / "large"
    with open(large, "wb") as file:
        for _ in range(options.large_mib):
            file.write(os.urandom(MIB))
    ratios = {"large read, part of plain open's rate": [], "zarr, times the directory's time": []}
    for turn in range(options.rounds):
        plain, through = in_turn(
            turn, lambda: read_all(open(large, "rb")), lambda: read_all(fs.open("/large", "rb"))
        )
        ratios["large read, part of plain open's rate"].append(plain / through)
        plain, through = in_turn(
            turn,
            lambda: store_and_load(str(mounted / f"plain-{turn}.zarr"), {}, options.objects),
            lambda: store_and_load(
                f"tidefs://through-{turn}.zarr",
                {"storage_options": {"mount": str(mounted.mount), "auto_mkdir": True}},
                options.objects,
            ),
        )
        ratios["zarr, times the directory's time"].append(through / plain)
        fs.rm([f"/plain-{turn}.zarr", f"/through-{turn}.zarr"], recursive=True)
    return ratios


def in_turn(turn: int, first, second) -> tuple:
    """The seconds of both, the second one first in every other turn."""
    if turn % 2 == 0:
        return timed(first), timed(second)
    late = timed(second)
    return timed(first), late


def timed(work) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def read_all(file) -> None:
    with file:
        while file.read(8 * MIB):
            pass


def store_and_load(where: str, named: dict, objects: int) -> None:
    import numpy
    import zarr

    data = numpy.arange(objects * 64, dtype="i4")
    array = zarr.create_array(where, shape=data.shape, chunks=(64,), dtype=data.dtype, compressors=None, **named)
    array[:] = data
    if not (zarr.open_array(where, mode="r", **named)[:] == data).all():
        raise AssertionError(f"{where} does not hold what was stored")


def summary(values: list) -> dict:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


if __name__ == "__main__":
    sys.exit(main())
