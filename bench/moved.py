#!/usr/bin/python3
"""What moves when nodes come, counted in three ways.

Four files of whole stripes lie on one node, and it becomes five, without writers and while four write
in place, a piece and an fsync at a time.  Each line says, in MiB,

    moved       what `tidefs scale` says it moved, and over the least that any plan moves;
    payload     the files' bytes that are on other nodes in the end: four fifths of them;
    received    what the nodes' servers received, less what the programs wrote meanwhile.

Moved counts memory as servers take it, so it is above the payload where a stripe takes more than its
bytes.  Received is above both by orders and answers, and by pieces that were written while their stripe
moved: those go over a second time, or are sent on to the node that the stripe has gone to.

    bench/moved.py --pieces 1024,256
    bench/moved.py --server /usr/bin/redis-server

With --check it fails where moved is above 1.05 of the least.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "trust"))

import about  # noqa: E402
from mounted import TIDEFS, Mounted  # noqa: E402
from served import counted  # noqa: E402
from shown import shown_to  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
FILES, FILE_MIB = 4, 40
NODES = 5
GOAL = 1.05
UP = ("--nodes", f"1..{NODES}", "--node-memory", "512MiB", "--policy", "static")
# Before nodes come, so that writers are at work.
PAUSE_SECONDS = 1


def received(state: Path) -> int:
    """Bytes that all nodes together have received since they started."""
    record = json.loads((state / "up" / "cluster.json").read_text())
    secret = (state / "up" / "secret").read_text()
    return sum(
        counted(node["socket"], shown_to(secret, node["id"]), "total_net_input_bytes")
        for node in record["nodes"]
    )


class Writers:
    """Threads that have a file each, and write in it from when they are entered until they are left."""

    def __init__(self, mount: Path, piece: int, go_on: bool):
        self.piece, self.go_on, self.written = piece, go_on, [0] * FILES
        self.stop, self.ready = threading.Event(), threading.Semaphore(0)
        self.failures: list[BaseException] = []
        paths = [mount / f"file-{number}" for number in range(FILES)]
        work = [threading.Thread(target=self.work, args=it) for it in enumerate(paths)]
        self.threads = work

    def __enter__(self) -> "Writers":
        for thread in self.threads:
            thread.start()
        for _ in self.threads:
            self.ready.acquire()
        return self

    def __exit__(self, *_) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def work(self, number: int, path: Path) -> None:
        try:
            self.write(number, path)
        except OSError as error:
            self.failures.append(error)
        finally:
            self.ready.release()

    def write(self, number: int, path: Path) -> None:
        chance, block = random.Random(number), os.urandom(self.piece)
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        try:
            pieces = FILE_MIB * MIB // self.piece
            for at in range(pieces):
                assert os.pwrite(file, block, at * self.piece) == self.piece
            os.fsync(file)
            self.ready.release()
            while self.go_on and not self.stop.is_set():
                os.pwrite(file, block, chance.randrange(pieces) * self.piece)
                os.fsync(file)
                self.written[number] += self.piece
        finally:
            os.close(file)


def measure(options, piece: int, go_on: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="tidefs-moved-", dir="/tmp") as scratch:
        with Mounted(options.tidefs, Path(scratch), *UP, server=options.server) as system:
            with Writers(system.mounts[0], piece, go_on) as writers:
                time.sleep(PAUSE_SECONDS)
                before, wrote = received(Path(system.state)), sum(writers.written)
                change = json.loads(system.call("scale", str(NODES), "--json"))
                arrived = received(Path(system.state)) - before
                arrived -= sum(writers.written) - wrote
            assert not writers.failures, f"a writer failed: {writers.failures[0]}"
            store = json.loads(system.call("status", "--json"))["store"]
    payload = FILES * FILE_MIB * (NODES - 1) / NODES
    moved, least = change["bytes_moved"], change["bytes_minimum"]
    how = f"pieces of {piece // KIB} KiB" if go_on else "no writers"
    print(
        f"{store}, {how}: moved {moved / MIB:.1f} (x {moved / least:.3f} of the least), "
        f"payload {payload:.1f}, received {arrived / MIB:.1f} (x {arrived / MIB / payload:.2f})",
        flush=True,
    )
    received_over = arrived / MIB / payload
    return {"store": store, "how": how, "moved": moved / least, "received": received_over}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, default=TIDEFS, help="the program to measure")
    parser.add_argument("--server", help="the server program that nodes run")
    parser.add_argument("--pieces", default="1024,256", help="sizes of what is written, in KiB")
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args()
    options.tidefs = options.tidefs.resolve()
    pieces = [int(word) * KIB for word in options.pieces.split(",")]
    where = about.look(options.tidefs)
    rows = [measure(options, pieces[0], False)]
    rows += [measure(options, piece, True) for piece in pieces]
    # It may be another one than usual.
    where["server"] = rows[0]["store"]
    most = max(row["moved"] for row in rows)
    missed = [f"{most:.3f} of the least was moved, above {GOAL}"] if most > GOAL else []
    about.keep(options.results, "moved", where, {"rows": rows, "missed": missed})
    if options.check and missed:
        print(f"FAILED: more than {GOAL} of the least was moved", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
