#!/usr/bin/python3
"""What leases are worth, and cost: two mounts of one file system, and directories at rest.

Each program that is given has a file system with two mounts, both at the same time. In each round they have
their turn, and the order is turned from round to round. Measured are the seconds of

- stat: each file, by its path, through the second mount, again and again;
- find: all names with their attributes, through the second mount, again;
- kept: `chmod` of a file in each directory through the first mount, after the second one looked at all;
- create: a file in each directory through the first mount, likewise;
- busy: files that are made, changed and removed in one directory, which both mounts look at meanwhile.

The ratio is that of the first program's seconds to the second one's in the same round; the median of the
rounds counts.

    bench/rest.py --tidefs target/release/tidefs --before OTHER/tidefs --rounds 7
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import about

FILES = 4
# So often that each shard is at rest, also after a change in the round before.
PASSES = 30
BUSY = 100


@contextlib.contextmanager
def mounted(tidefs: Path):
    """Both mounts; gone in the end, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="tr", dir="/tmp") as folder:
        mounts = Path(folder, "1"), Path(folder, "2")

        def run(*words: object) -> None:
            about.must(tidefs, "--state", f"{folder}/s", *words)

        run("up", "--nodes", 1, "--node-memory", "256MiB", "--mount", mounts[0])
        try:
            mounts[1].mkdir()
            run("mount", mounts[1])
            yield mounts
        finally:
            run("down")


def seconds(work) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


class Bed:
    def __init__(self, mounts, directories: int):
        self.first, self.second = mounts
        self.names = [f"d{number}" for number in range(directories)]
        for name in self.names:
            (self.first / name).mkdir()
            for file in range(FILES):
                (self.first / name / f"f{file}").touch()
        (self.first / "busy").mkdir()
        self.rounds = 0

    def look(self) -> None:
        for name in self.names:
            for file in range(FILES):
                os.stat(self.second / name / f"f{file}")

    def find(self) -> None:
        found = subprocess.run(
            ["find", self.second, "-size", "+1"], capture_output=True, check=True, timeout=300
        )
        assert not found.stdout.count(b"f0")

    def rest(self) -> None:
        for _ in range(PASSES):
            self.look()
            self.find()

    def change(self) -> None:
        for name in self.names:
            os.chmod(self.first / name / "f0", 0o600 + self.rounds % 8)

    def create(self) -> None:
        for name in self.names:
            (self.first / name / f"new{self.rounds}").touch()

    def busy(self) -> None:
        for number in range(BUSY):
            file = f"busy/b{number % 10}"
            (self.first / file).touch()
            os.chmod(self.first / file, 0o600)
            os.stat(self.second / file)
            os.unlink(self.second / file)

    def round(self) -> dict[str, float]:
        self.rounds += 1
        self.rest()
        found = {"stat": seconds(self.look), "find": seconds(self.find)}
        found["kept"] = seconds(self.change)
        self.rest()
        found["create"] = seconds(self.create)
        found["busy"] = seconds(self.busy)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, required=True)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--directories", type=int, default=300)
    options = parser.parse_args()
    where = about.look(options.tidefs)
    with mounted(options.tidefs) as now, mounted(options.before) as before:
        beds = [Bed(mounts, options.directories) for mounts in (now, before)]
        rows = []
        for number in range(options.rounds):
            order = (0, 1) if number % 2 else (1, 0)
            found = {which: beds[which].round() for which in order}
            rows.append((found[0], found[1]))
    figures = {}
    for what in rows[0][0]:
        ratios = [now[what] / before[what] for now, before in rows]
        figures[what] = {
            "seconds": statistics.median(now[what] for now, _ in rows),
            "seconds_before": statistics.median(before[what] for _, before in rows),
            "ratio": statistics.median(ratios),
            "least": min(ratios),
            "most": max(ratios),
        }
        print(
            f"{what:8} {figures[what]['seconds'] * 1e3:8.1f} ms, before {figures[what]['seconds_before'] * 1e3:8.1f} ms:"
            f" {figures[what]['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )
    about.keep(about.PROJECT / "bench/results", "rest", where, {"figures": figures})


if __name__ == "__main__":
    main()
