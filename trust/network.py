#!/usr/bin/python3
"""Several hosts on one machine: a file system whose nodes are reached over links.

  * the links are as they were made: bandwidth, latency, loss;
  * programs on each host write and read what programs on the others wrote, while the bandwidth of
    a node's link falls: the file system spreads its data anew by itself, no call fails and every
    byte is right;
  * names that all hosts make in one directory are served by all nodes alike;
  * what a killed owner of a test bed leaves is found and removed.

Exit status 0 when all held, 1 when something did not.  Needs root; `TIDEFS_TEST_WITHOUT=network`
leaves it out.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from bed import Bed, beds, names_of, sweep
from hosts import Failure
from mounted import TIDEFS, is_left_out
from shown import shown_to

MIB = 1 << 20
# A loaded machine may be slow; only a test that fails waits for as long.
SECONDS_MAX = 120


def wait_for(what: str, is_so, seconds: float = SECONDS_MAX):
    """Asks until there is an answer, which is then given."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := is_so():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)


@contextlib.contextmanager
def a_bed(name: str, tidefs: Path, rates: list[str], **options):
    """Taken down whatever happens."""
    bed = Bed(f"{name}{os.getpid() % 10_000}")
    bed.up(rates, owner=os.getpid(), **options)
    try:
        yield bed
    except BaseException:
        log = bed.state / "up" / "log"
        print(log.read_text() if log.exists() else "no log", file=sys.stderr)
        raise
    finally:
        bed.down(tidefs)


def on(host, *words: object, **options) -> subprocess.Popen:
    words = [str(word) for word in (host.enter, *words)]
    return subprocess.Popen(words, env=host.bed.environment(), **options)


# What answers on a host: everything that comes is sent back.
ECHO = """
import socket, sys
listening = socket.create_server((sys.argv[1], 9_000))
print("ready", flush=True)
while True:
    line, _ = listening.accept()
    with line:
        while data := line.recv(1 << 16):
            line.sendall(data)
"""


def round_trip(address: str, payload: bytes) -> float:
    with socket.create_connection((address, 9_000), timeout=SECONDS_MAX) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.monotonic()
        sender = threading.Thread(target=line.sendall, args=(payload,))
        sender.start()
        back = bytearray()
        while len(back) < len(payload) and (data := line.recv(1 << 16)):
            back += data
        sender.join()
        assert back == payload, "a link changed bytes"
        return time.monotonic() - begun


def links(tidefs: Path) -> None:
    """Bytes take at least the time that the link's bandwidth and latency give them.  That they do
    not take much more is for a bench to say."""
    with a_bed("l", tidefs, ["8mbit", "none"]) as bed:
        # Out and back at the same time; the burst passes at once.
        assert echoes(bed, MIB) >= 0.8, "1 MiB takes a second at 8 Mbit/s"
    with a_bed("l", tidefs, ["none"], latency_ms=40.0, loss=0.05) as bed:
        assert echoes(bed, 100) >= 0.04
        # One frame in twenty is lost, each way: TCP sends it again.
        assert echoes(bed, 4 * MIB) >= 0.04


def echoes(bed: Bed, size: int) -> float:
    host = bed.hosts()[0]
    words = ["/usr/bin/python3", "-c", ECHO, host.address]
    with on(host, *words, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"ready\n"
            return round_trip(host.address, random.Random(1).randbytes(size))
        finally:
            server.kill()


# A program on a host: writes files of its own and reads those of all others, again and again, until
# its input ends.  A line of a file is its name and the sum of what was written.
WORKER = """
import hashlib, json, os, random, select, sys
from pathlib import Path
mount, me = Path(sys.argv[1]), int(sys.argv[2])
source, made, read = random.Random(me), 0, 0
while not select.select([sys.stdin], [], [], 0)[0]:
    name = f"{me}-{made % 4}"
    data = source.randbytes(source.choice([100, 70_000, 1_500_000]))
    with (mount / (name + ".new")).open("wb") as file:
        file.write(hashlib.sha256(data).digest() + data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(mount / (name + ".new"), mount / name)
    made += 1
    other = source.choice([it for it in os.listdir(mount) if "new" not in it])
    try:
        found = (mount / other).read_bytes()
    except FileNotFoundError:
        continue
    assert hashlib.sha256(found[32:]).digest() == found[:32], f"{other} is not what was written"
    read += 1
print(json.dumps([made, read]))
"""


def settled(bed: Bed, tidefs: Path, is_so) -> dict:
    """The status when nothing is under way and something is so."""

    def look() -> dict | None:
        status = bed.status(tidefs)
        nodes = status["nodes"]
        known = all(node["share"] and node["bandwidth_bytes_per_second"] for node in nodes)
        return status if known and not status["reconfiguration"] and is_so(nodes) else None

    return wait_for("the nodes' shares follow their bandwidths", look)


def follows(nodes: list[dict]) -> bool:
    """Each node holds the part of the partitions that its part of all bandwidth is, to a third:
    what is measured while others use the link and the machine is not exact."""
    rates = [node["bandwidth_bytes_per_second"] for node in nodes]
    parts = [rate / sum(rates) for rate in rates]
    held = [node["partitions"] / 16_384 for node in nodes]
    return all(abs(one - part) <= part / 3 for one, part in zip(held, parts))


def falling(tidefs: Path) -> None:
    """The bandwidth of a node falls to a quarter while programs work on all hosts."""
    with a_bed("f", tidefs, ["32mbit", "32mbit", "128mbit"]) as bed:
        options = ["--node-memory", "128MiB", "--bandwidth-window", "5"]
        bed.start(tidefs, *options)
        before = settled(bed, tidefs, follows)["nodes"]
        assert before[2]["partitions"] > 1.5 * before[0]["partitions"], before
        assert before[2]["share"]["reason"].startswith("bandwidth: "), before[2]["share"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        workers = [
            on(host, "/usr/bin/python3", "-c", WORKER, host.mount, host.number, **pipes)
            for host in bed.hosts()
        ]
        try:
            bed.host("h3").shape("16mbit")
            after = settled(
                bed, tidefs, lambda nodes: nodes[2]["partitions"] < before[2]["partitions"] / 1.5
            )
            done = [worker.communicate(b"x", timeout=SECONDS_MAX)[0] for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
        assert all(worker.returncode == 0 for worker in workers), "a call failed; see above"
        counts = [json.loads(line) for line in done]
        assert all(made > 0 and read > 0 for made, read in counts), counts
        verify(bed)
        held = [[node["partitions"] for node in nodes] for nodes in (before, after["nodes"])]
        print(f"  partitions {held[0]}, then {held[1]}; files written and read {counts}")


def verify(bed: Bed) -> None:
    """From the machine itself: every file is whole."""
    files = [path for path in bed.mount.iterdir() if not path.name.endswith(".new")]
    assert len(files) >= 4, files
    for file in files:
        found = file.read_bytes()
        assert hashlib.sha256(found[32:]).digest() == found[:32], f"{file} is not what was written"


# Makes files in one directory.
MAKER = """
import os, sys
os.chdir(sys.argv[1])
for number in range(int(sys.argv[3])):
    os.close(os.open(f"{sys.argv[2]}-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
"""


# What metadata is read and changed by, also from within the servers' functions.
OPERATIONS = ("fcall", "hget", "hmget", "hset", "hdel", "hscan")


def served(bed: Bed) -> dict[str, int]:
    """How many operations on metadata each node has served."""
    secret = (bed.state / "up" / "secret").read_text()
    nodes = json.loads((bed.state / "up" / "cluster.json").read_text())["nodes"]
    return {node["id"]: calls(node["socket"], shown_to(secret, node["id"])) for node in nodes}


def calls(path: str, secret: str) -> int:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(SECONDS_MAX)
        line.connect(path)
        line.sendall(f"AUTH tidefs {secret}\r\nINFO commandstats\r\n".encode())
        replies = line.makefile("rb")
        assert replies.readline() == b"+OK\r\n"
        text = replies.read(int(replies.readline()[1:])).decode()
    rows = [row.removeprefix("cmdstat_") for row in text.splitlines()]
    counts = [row.split("calls=")[1] for row in rows if row.partition(":")[0] in OPERATIONS]
    return sum(int(count.partition(",")[0]) for count in counts)


def spread_of_metadata(tidefs: Path, hosts: int, files: int) -> tuple[float, list[int]]:
    """How much more than the mean the busiest node serves while all hosts make files in one
    directory; and what each serves."""
    with a_bed("m", tidefs, ["none"] * hosts) as bed:
        bed.start(tidefs, "--node-memory", "64MiB", "--placement", "memory")
        folder = bed.mount / "all"
        folder.mkdir()
        before = served(bed)
        makers = [
            on(host, "/usr/bin/python3", "-c", MAKER, host.mount / "all", host.name, files // hosts)
            for host in bed.hosts()
        ]
        ends = [maker.wait(timeout=SECONDS_MAX) for maker in makers]
        assert ends == [0] * hosts, ends
        after = served(bed)
        assert len(os.listdir(folder)) == files // hosts * hosts
    counts = [after[node] - before[node] for node in after]
    return max(counts) * len(counts) / sum(counts), counts


def metadata(tidefs: Path) -> None:
    """FusionFS: metadata is spread over all nodes, also of one directory."""
    over, counts = spread_of_metadata(tidefs, 8, 4_000)
    assert over <= 1.5, f"the busiest node serves {over:.2f} times the mean: {counts}"
    print(f"  the busiest of 8 nodes serves {over:.2f} times the mean of metadata operations")


def leftovers(tidefs: Path) -> None:
    """The owner of a test bed is killed; whoever makes one next removes what it left."""
    name = f"k{os.getpid() % 10_000}"
    program = (
        f"import sys, time; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import os, pathlib, bed\n"
        f"it = bed.Bed({name!r})\n"
        "it.up(['100mbit'] * 2, owner=os.getpid(), latency_ms=1.0)\n"
        f"it.start(pathlib.Path({str(tidefs)!r}), '--node-memory', '64MiB')\n"
        "print('ready', flush=True); time.sleep(600)\n"
    )
    owner = subprocess.Popen(["/usr/bin/python3", "-c", program], stdout=subprocess.PIPE)
    try:
        assert owner.stdout.readline() == b"ready\n", "the test bed was not made"
        found = {it.name for it in beds()}
        assert name in found, found
        sweep()
        assert name in {it.name for it in beds()}, "one that is in use was removed"
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        sweep()
    bed = Bed(name)
    left = [it for it in names_of("link") + names_of("netns") if it.startswith(bed.bridge)]
    mounts = Path("/proc/mounts").read_text().splitlines()
    mounts = [line for line in mounts if f"{bed.folder}/" in line]
    assert (left, mounts, bed.folder.exists()) == ([], [], False)
    bed.down()


TESTS = {"links": links, "leftovers": leftovers, "metadata": metadata, "falling": falling}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--only", choices=TESTS, action="append", help="may be given again")
    options = parser.parse_args()
    if is_left_out("network"):
        return
    if os.geteuid() != 0:
        raise Failure("a test bed needs root; or leave it out: TIDEFS_TEST_WITHOUT=network")
    sweep()
    failures = []
    for name in options.only or TESTS:
        begun = time.monotonic()
        try:
            TESTS[name](options.tidefs.resolve())
        except (AssertionError, Failure, subprocess.TimeoutExpired, OSError) as error:
            failures.append(f"{name}: {error!r}")
        print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
