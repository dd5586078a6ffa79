#!/usr/bin/python3
"""Network-aware placement beside network-agnostic placement, on hosts with uneven links.

Network-aware MemEFS (section 4.3.2) has 1,000 tasks write 100 MB each on 32 virtual machines whose
bandwidths follow those of eight clouds, A to H (Ballani et al.; 1st, 25th, 50th, 75th and 99th
percentiles, in Mbit/s).  Here eight hosts are network name spaces of one machine
(trust/testbed.py): host k has the bandwidth at (k - 1/2)/8 of the distribution, in each direction,
and each cloud is scaled so that its hosts have the same bandwidth in all.  Tasks write files of the
same size to the host's own mount, and a host takes the next task when it is done with one, as a
scheduler does.  Then files are read on other hosts than those that wrote them, and
compared.

In each round both placements run one after the other, on servers of their own; the order is turned
from round to round.  The ratio is that of the agnostic time to the aware one, in the same round:
above 1 means that following the bandwidth is faster.  The median counts.  Stripes fall on nodes at
random, so two runs with the same shares differ: by a tenth with 64 tasks.

    bench/network.py --tidefs target/release/tidefs --clouds A,E --rounds 3

A task that fails ends the bench.  Needs root.  With --check it fails when a goal is missed: at least 1.5 on the most uneven cloud, and
never less than 0.97 on B, C and E.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "trust"))

import about  # noqa: E402
from bed import Bed, sweep  # noqa: E402
from network import on, settled, spread_of_metadata  # noqa: E402

HOSTS = 8
PERCENTILES = (1, 25, 50, 75, 99)
CLOUDS = {
    "A": (60.3, 150.0, 263.8, 384.5, 653.4),
    "B": (308.6, 503.4, 646.6, 789.7, 991.4),
    "C": (555.2, 841.4, 901.7, 934.5, 946.6),
    "D": (112.1, 137.9, 170.7, 200.0, 298.3),
    "E": (774.1, 824.1, 851.7, 855.2, 858.6),
    "F": (269.0, 729.3, 777.6, 820.7, 925.9),
    "G": (334.5, 529.3, 537.9, 600.0, 624.1),
    "H": (136.2, 425.9, 525.9, 660.3, 998.3),
}
# Those that the paper calls stable.
EVEN = ("B", "C", "E")
MOST_UNEVEN = "A"
GOAL_UNEVEN, GOAL_EVEN = 1.5, 0.97
# The nodes' shares are as they are to be.
SETTLED_SECONDS_MAX = 120
PHASE_SECONDS_MAX = 600
MIB = 1 << 20

# On a host: does a task for each line, and says when it is done.
WORKER = """
import hashlib, os, sys
mount, size = sys.argv[1], int(sys.argv[2])
block = hashlib.shake_256(b"tidefs").digest(1 << 20)
print("ready", flush=True)
for line in sys.stdin:
    what, name = line.split()
    if what == "write":
        file = os.open(f"{mount}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        for _ in range(size >> 20):
            assert os.write(file, block) == len(block)
        os.fsync(file)
    else:
        file = os.open(f"{mount}/{name}", os.O_RDONLY)
        for _ in range(size >> 20):
            data = b""
            while len(data) < len(block):
                data += os.read(file, len(block) - len(data)) or sys.exit(f"{name} is short")
            assert data == block, f"{name} is not what was written"
    os.close(file)
    print("done", flush=True)
"""


def bandwidths(cloud: str, mbits_of_all: float) -> list[float]:
    """Of each host, in Mbit/s: linear between the percentiles, and scaled."""
    rates = []
    for host in range(HOSTS):
        at = 100 * (host + 0.5) / HOSTS
        upper = next(number for number, percent in enumerate(PERCENTILES) if percent >= at)
        low, high = PERCENTILES[upper - 1], PERCENTILES[upper]
        part = (at - low) / (high - low)
        first, last = CLOUDS[cloud][upper - 1], CLOUDS[cloud][upper]
        rates.append(first + part * (last - first))
    return [rate * mbits_of_all / sum(rates) for rate in rates]


class Workers:
    """Programs on each host, until the end; program k is on host k mod 8."""

    def __init__(self, bed: Bed, size: int, at_once: int):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        words = ["/usr/bin/python3", "-c", WORKER]
        hosts = bed.hosts() * at_once
        self.each = [on(host, *words, host.mount, size, **pipes) for host in hosts]
        for worker in self.each:
            assert worker.stdout.readline() == "ready\n"

    def run(self, tasks: list[list[str]]) -> tuple[float, dict[str, int]]:
        """Hosts take tasks as they get done with others; each has a list that it prefers, and takes
        from the longest other one when that is empty.  Answers with the seconds, and who did what.
        """
        lock, did, errors = threading.Lock(), {}, []

        def take(host: int) -> str | None:
            with lock:
                mine = tasks[host] or max(tasks, key=len)
                return mine.pop(0) if mine else None

        def work(number: int) -> None:
            worker, host = self.each[number], number % HOSTS
            while task := take(host):
                worker.stdin.write(task + "\n")
                if worker.stdout.readline() != "done\n":
                    errors.append(task)
                    return
                did[task] = host

        threads = [threading.Thread(target=work, args=(at,)) for at in range(len(self.each))]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PHASE_SECONDS_MAX)
        took = time.monotonic() - begun
        assert not errors and not any(thread.is_alive() for thread in threads), errors
        return took, did

    def end(self) -> None:
        for worker in self.each:
            worker.kill()
            worker.wait()


def is_settled(nodes: list[dict], placement: str) -> bool:
    """Whether the nodes hold what they are planned to hold, within a twentieth."""
    follows = "bandwidth: " if placement == "bandwidth" else "memory: "
    if not all(node["share"]["reason"].startswith(follows) for node in nodes):
        return False
    planned = [node["share"]["percent"] / 100 for node in nodes]
    held = [node["partitions"] / 16_384 for node in nodes]
    return all(abs(one - part) < part / 20 for one, part in zip(held, planned))


def once(bed: Bed, tidefs: Path, placement: str, options) -> dict:
    up = ("--node-memory", options.node_memory, "--placement", placement, "--network", "trusted")
    bed.start(tidefs, *up)
    try:
        status = settled(bed, tidefs, lambda nodes: is_settled(nodes, placement))
        held = {node["endpoint"]: node["partitions"] for node in status["nodes"]}
        workers = Workers(bed, options.file_mib * MIB, options.at_once)
        try:
            count = options.files
            tasks = [f"write f{number}" for number in range(count)]
            write, did = workers.run([tasks] + [[] for _ in range(HOSTS - 1)])
            # Each file is read two hosts further on than where it was written.
            lists = [[] for _ in range(HOSTS)]
            for task, host in did.items():
                lists[(host + 2) % HOSTS].append(task.replace("write", "read"))
            read, _ = workers.run(lists)
        finally:
            workers.end()
    finally:
        bed.tidefs(tidefs, "down")
    return {"write": write, "read": read, "partitions": held}


def measure(cloud: str, tidefs: Path, options) -> dict:
    rates = bandwidths(cloud, options.mbits)
    bed = Bed(f"n{cloud.lower()}{os.getpid() % 1_000}")
    rounds = []
    bed.up([f"{rate * 1000:.0f}kbit" for rate in rates], owner=os.getpid())
    try:
        for number in range(options.rounds):
            order = ["memory", "bandwidth"] if number % 2 == 0 else ["bandwidth", "memory"]
            rounds.append({it: once(bed, tidefs, it, options) for it in order})
    finally:
        bed.down(tidefs)
    ratio = {
        phase: [it["memory"][phase] / it["bandwidth"][phase] for it in rounds]
        for phase in ("write", "read")
    }
    return {"cloud": cloud, "mbits": [round(rate, 2) for rate in rates], "rounds": rounds} | {
        f"{phase}_ratio": statistics.median(ratios) for phase, ratios in ratio.items()
    }


HEAD = "cloud  slowest/mean  agnostic     aware  write ratio  read ratio"


def line(result: dict) -> str:
    def middle(placement: str) -> float:
        return statistics.median(it[placement]["write"] for it in result["rounds"])

    uneven = min(result["mbits"]) * HOSTS / sum(result["mbits"])
    return (
        f"{result['cloud']:5}  {uneven:12.2f}  {middle('memory'):6.1f} s  "
        f"{middle('bandwidth'):6.1f} s  {result['write_ratio']:11.2f}  {result['read_ratio']:10.2f}"
    )


def problems(results: list[dict]) -> list[str]:
    found = []
    for result in results:
        cloud, ratio = result["cloud"], result["write_ratio"]
        goal = GOAL_UNEVEN if cloud == MOST_UNEVEN else GOAL_EVEN if cloud in EVEN else 0
        if ratio < goal:
            found.append(f"cloud {cloud}: {ratio:.2f} is below {goal}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=PROJECT / "target/release/tidefs")
    parser.add_argument("--clouds", default=",".join(CLOUDS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=128, help="tasks")
    parser.add_argument("--file-mib", type=int, default=2, help="that each writes")
    parser.add_argument("--at-once", type=int, default=1, help="tasks that a host does at a time")
    parser.add_argument("--mbits", type=float, default=320, help="of all hosts together, each way")
    parser.add_argument("--node-memory", default="128MiB")
    parser.add_argument("--metadata", type=int, default=8_000, help="files in one directory, or 0")
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    options = parser.parse_args()
    tidefs = options.tidefs.resolve()
    sweep()
    where, results = about.look(tidefs), []
    print(HEAD, flush=True)
    for cloud in options.clouds.split(","):
        results.append(measure(cloud, tidefs, options))
        print(line(results[-1]), flush=True)
    report = {"clouds": results, "options": vars(options) | {"tidefs": "", "results": ""}}
    failures = problems(results)
    if options.metadata:
        over, counts = spread_of_metadata(tidefs, HOSTS, options.metadata)
        report["metadata"] = {"over_mean": over, "operations": counts}
        print(f"metadata of one directory: the busiest node serves {over:.2f} times the mean")
        failures += [f"metadata: {over:.2f} is above 1.5"] if over > 1.5 else []
    print(f"medians of {options.rounds} rounds")
    about.keep(options.results, "network", where, report | {"missed": failures})
    for failure in failures:
        print(f"missed: {failure}", file=sys.stderr)
    sys.exit(1 if failures and options.check else 0)


if __name__ == "__main__":
    main()
