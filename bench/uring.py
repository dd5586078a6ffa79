#!/usr/bin/python3
"""What FUSE over io_uring gains: libfuse's file system in memory, with and without it.

memfs_ll of libfuse serves both ways of talking with the kernel with the same code, so what differs is
the way.  The bench's own worker does the work, in turns: first wherever the kernel puts the two processes,
then with both on one processor, where Tidefs puts itself.  Prints medians, ranges and the ratio of each
figure, and keeps them.  Needs root, and a kernel that offers it; its switch is set back at the end.
Run as `make uring`; see docs/decisions/fuse-over-io-uring.md.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import about

MEMFS = Path.home() / ".cache/tidefs/bin/memfs_ll"
SWITCH = Path("/sys/module/fuse/parameters/enable_uring")
ORDERS = [
    {"sequential": {"bytes": 256 << 20}},
    {"random_read": {"bytes": 256 << 20, "reads": 20_000}},
    {"small_files": {"files": 5_000}},
]
WAYS = {"device": [], "ring": ["-o", "io_uring", "-o", "io_uring_q_depth=8"]}
WAIT_SECONDS_MAX = 10


@contextlib.contextmanager
def switched_on() -> Iterator[None]:
    before = SWITCH.read_text()
    SWITCH.write_text("Y")
    try:
        yield
    finally:
        SWITCH.write_text(before)


@contextlib.contextmanager
def mounted(words: list[str]) -> Iterator[tuple[Path, int]]:
    """A mount, and the process that serves it."""
    with tempfile.TemporaryDirectory(prefix="tu", dir="/tmp") as folder:
        place, log = Path(folder, "m"), Path(folder, "log")
        place.mkdir()
        with log.open("wb") as to:
            server = subprocess.Popen([MEMFS, "-f", *words, place], stdout=to, stderr=to)
        try:
            end = time.monotonic() + WAIT_SECONDS_MAX
            while not place.is_mount():
                if server.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{MEMFS} does not mount: {log.read_text()}")
                time.sleep(0.01)
            yield place, server.pid
        finally:
            subprocess.run(["umount", place], check=False, timeout=WAIT_SECONDS_MAX)
            server.terminate()
            server.wait(WAIT_SECONDS_MAX)


def figures(bench: Path, words: list[str]) -> dict[str, float]:
    """Everything once, on a new mount."""
    found = {}
    with mounted(words) as (place, server):
        line = [bench, "worker", "null", place, "--tidefs", "none", "--memory-mib", "2048"]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            json.loads(worker.stdout.readline())
            for order in ORDERS:
                before = about.seconds(server)
                print(json.dumps(order), file=worker.stdin, flush=True)
                reply = json.loads(worker.stdout.readline())
                if "figures" not in reply:
                    raise SystemExit(f"{order}: {reply}")
                (name,) = order
                found |= dict(reply["figures"])
                found[f"{name}: server's processor seconds"] = about.seconds(server) - before
            worker.stdin.close()
    return found


def compare(bench: Path, rounds: int) -> list[dict]:
    """A row for each figure: its values both ways, and the ratio of their medians."""
    all_of: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, words in WAYS.items():
            all_of[way].append(figures(bench, words))
    rows = []
    for figure in all_of["device"][0]:
        each = {way: [one[figure] for one in found] for way, found in all_of.items()}
        # Nodes, of which there are none here, are told as zero.
        if not all(map(all, each.values())):
            continue
        middle = {way: statistics.median(values) for way, values in each.items()}
        ratio = middle["ring"] / middle["device"]
        rows.append({"figure": figure, "ratio": ratio, **each})
        told = ", ".join(
            f"{way} {middle[way]:.4g} ({min(values):.4g} to {max(values):.4g})"
            for way, values in each.items()
        )
        print(f"  {figure}: {told}; ring over device {ratio:.2f}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", type=Path, default=about.PROJECT / "target/release/tidefs-bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--results", type=Path, default=about.PROJECT / "bench/results")
    arguments = parser.parse_args()
    if not SWITCH.exists():
        raise SystemExit("this kernel offers no FUSE over io_uring")
    looked = about.look()
    all_processors = os.sched_getaffinity(0)
    with switched_on():
        print("wherever the kernel puts them:")
        anywhere = compare(arguments.bench, arguments.rounds)
        os.sched_setaffinity(0, {max(all_processors)})
        print("program and server on one processor:")
        together = compare(arguments.bench, arguments.rounds)
        os.sched_setaffinity(0, all_processors)
    about.keep(arguments.results, "uring", looked, {"anywhere": anywhere, "together": together})


if __name__ == "__main__":
    main()
