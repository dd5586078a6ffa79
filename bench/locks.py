#!/usr/bin/python3
"""Locks and SQLite on two mounts of one file system, beside the disk and beside a round to the store.

A lock with company is a round to the node with the file's record, and so is its end.  What is written
under it goes to the store before it ends: the bytes in one round, the record in another.  So there is a
floor under everything that programs on two mounts do with locks, and it is a number of rounds.  A round
is measured as `F_GETLK` while another mount is there, which asks for one record.

- `lock`: one process takes a lock of a file and gives it back, again and again.
- `counter`: two processes, one on each mount, count in a file under a lock that both want.
- `SQLite`: two processes, one on each mount, insert rows into one database, a transaction each.

All sums and rows are checked.  On the disk both processes use the one folder.

    bench/locks.py --tidefs target/release/tidefs
"""

import argparse
import contextlib
import fcntl
import os
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import about

NUMBER_BYTES = 8


@contextlib.contextmanager
def mounted(tidefs: Path, nodes: int):
    """A file system with two mounts, gone in the end, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="tl", dir="/tmp") as folder:
        mounts = [Path(folder, "a"), Path(folder, "b")]
        mounts[1].mkdir()

        def run(*words: object) -> None:
            about.must(tidefs, "--state", f"{folder}/s", *words)

        run("up", "--nodes", nodes, "--node-memory", "128MiB", "--mount", mounts[0])
        try:
            run("mount", mounts[1])
            yield mounts
        finally:
            run("down")


def take_and_give(path: Path, times: int) -> None:
    with path.open("r+b") as file:
        for _ in range(times):
            fcntl.lockf(file, fcntl.LOCK_EX)
            fcntl.lockf(file, fcntl.LOCK_UN)


def look(path: Path, times: int) -> None:
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with path.open("rb") as file:
        for _ in range(times):
            fcntl.fcntl(file, fcntl.F_GETLK, asked)


def count(path: Path, times: int) -> None:
    file = os.open(path, os.O_RDWR)
    for _ in range(times):
        fcntl.lockf(file, fcntl.LOCK_EX)
        number = int.from_bytes(os.pread(file, NUMBER_BYTES, 0), "big")
        os.pwrite(file, (number + 1).to_bytes(NUMBER_BYTES, "big"), 0)
        fcntl.lockf(file, fcntl.LOCK_UN)
    os.close(file)


def insert(path: Path, times: int) -> None:
    base = sqlite3.connect(path, timeout=60, isolation_level=None)
    for number in range(times):
        base.execute("INSERT INTO rows VALUES (?, ?)", (os.getpid(), number))
    base.close()


WORK = {"lock": take_and_give, "round": look, "counter": count, "SQLite": insert}


def apart(what: str, paths: list[Path], times: int) -> float:
    """Milliseconds that each of `times` took, with a process for each path."""
    begun = time.monotonic()
    words = [sys.executable, __file__, "--work", what, "--times", str(times)]
    workers = [subprocess.Popen([*words, "--path", str(path)]) for path in paths]
    if any([worker.wait() for worker in workers]):
        raise SystemExit(f"{what} has failed")
    return (time.monotonic() - begun) * 1000 / times / len(paths)


def measure(folders: list[Path], options) -> dict[str, float]:
    """Milliseconds of each kind of work, where the first and the last folder are the same one, or are it
    on two mounts."""
    first = folders[0]
    (first / "lock").write_bytes(bytes(NUMBER_BYTES))
    (first / "count").write_bytes(bytes(NUMBER_BYTES))
    base = sqlite3.connect(first / "base")
    base.execute("CREATE TABLE rows (process INTEGER, number INTEGER)")
    base.close()
    found = {
        "round": apart("round", [first / "lock"], options.times * 20),
        "lock": apart("lock", [first / "lock"], options.times * 10),
        "counter": apart("counter", [it / "count" for it in folders], options.times),
        "SQLite": apart("SQLite", [it / "base" for it in folders], options.times // 4),
    }
    number = int.from_bytes((first / "count").read_bytes(), "big")
    assert number == options.times * len(folders), f"counted {number}"
    base = sqlite3.connect(first / "base")
    (rows,) = base.execute("SELECT count(*) FROM rows").fetchone()
    base.close()
    assert rows == options.times // 4 * len(folders), f"{rows} rows"
    for name in ("lock", "count", "base"):
        (first / name).unlink()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tidefs", type=Path)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--times", type=int, default=400, help="counts of each process")
    parser.add_argument("--repeats", type=int, default=3)
    for hidden in ("--work", "--path"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        WORK[options.work](Path(options.path), options.times)
        return 0
    tidefs = options.tidefs.resolve()
    figures: dict[str, list[dict[str, float]]] = {"disk": [], "one mount": [], "two mounts": []}
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory(prefix="tl", dir="/tmp") as folder:
            figures["disk"].append(measure([Path(folder)] * 2, options))
        with mounted(tidefs, options.nodes) as mounts:
            figures["one mount"].append(measure([mounts[0]] * 2, options))
            figures["two mounts"].append(measure(mounts, options))
    middle = {
        where: {what: statistics.median(one[what] for one in ones) for what in WORK}
        for where, ones in figures.items()
    }
    print(f"{'ms each':12}" + "".join(f"{where:>12}" for where in middle) + "   rounds  disk's")
    round_ms = middle["two mounts"]["round"]
    for what in WORK:
        row = "".join(f"{middle[where][what]:12.3f}" for where in middle)
        two = middle["two mounts"][what]
        print(f"{what:12}{row}{two / round_ms:9.1f}{two / middle['disk'][what]:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
