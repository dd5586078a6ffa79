#!/usr/bin/python3
"""What a lender's own programs lose while its memory is used, as MemFSS measures it (figures 3 to 6).

The lender's machine is a host of a test bed, confined to one processor: the storage node, the tenant
and all that the network costs the node share it.  The file system's own node, its mount and the
workload have the other one.  The host's link carries 500 MB/s for every 16 processors, as in the paper:
250 Mbit/s for one.  All bytes lie on the lender's node (--own-share 0), and the workload writes, syncs
and reads files of 4 MiB without a pause.

Tenants are the benchmarks of HPCC and, on Spark, a sort and a word count.  In each round they run while
the file system is idle; while the workload runs (busy); and while the same workload, as fast as it was
then, runs on a file system without a lender (beside), which tells what the two processors take from
each other.  The order turns from round to round.

A slowdown is judged by the median of all runs of a mode, that of busy beside that of idle, since parts of
HPCC are so short that the fastest of many would fall between two bursts of what the node receives.  The same of
idle in every other round beside idle in the rest (again) says what is noise.  Medians of the slowdowns within a
round stand beside it, with their range.

    scripts/setup tenants && bench/tenants.py --rounds 15

With --check it fails when the mean slowdown of busy is above 5 % or any one above 10 %.  Needs root.
"""

import argparse
import contextlib
import os
import signal
import statistics
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "trust"))

import about  # noqa: E402
from bed import Bed, sweep  # noqa: E402
from hosts import BURST_BYTES, run  # noqa: E402
from mounted import TIDEFS  # noqa: E402
from network import a_bed  # noqa: E402
from precedence import Precedence  # noqa: E402
from tenant_files import Place, lent, own, workload  # noqa: E402
from tenant_programs import Tenants, blas  # noqa: E402

LENDER_PROCESSOR, WORK_PROCESSOR = 0, 1
RATE = "250mbit"
# Of IP over InfiniBand, which the paper's machines were joined by.
MTU = 65_520
MODES = ("idle", "busy", "beside")
MEAN_MAX, EACH_MAX = 0.05, 0.10
GIB = 1 << 30
# A limit that is far: a tenant that takes a part of what is free in a moment looks to the lender like one
# that is about to take all of it, and has the memory given back.
HOST_MEMORY = 12 * GIB
# What Spark compiles while it runs is not to be measured.
WARM_UP_RUNS = 8


def receive_apart(bed: Bed) -> None:
    """What comes over the link is received on the processor that it is for.  Without that the kernel
    receives it on the sender's, which two machines could not do."""
    host = bed.hosts()[0]
    of_queue = "queues/rx-0/rps_cpus"
    Path("/sys/class/net", host.port, of_queue).write_text(f"{1 << WORK_PROCESSOR:x}")
    there = f"echo {1 << LENDER_PROCESSOR:x} > /sys/class/net/eth0/{of_queue}"
    run("ip", "netns", "exec", host.space, "sh", "-c", there)


def wide(bed: Bed) -> None:
    """Frames of 64 KiB, as large as the paper's network has them, and a queue that holds some.  With
    those of 8 kB that a test bed usually has, what one processor does for a frame is most of its work."""
    host = bed.hosts()[0]
    for where, device in ((("-n", host.space), "eth0"), ((), host.port), ((), bed.bridge)):
        run("ip", *where, "link", "set", device, "mtu", MTU)
    for where, device in ((("-n", host.space), "eth0"), ((), host.port)):
        run("ip", *where, "link", "set", device, "gso_max_size", 64 << 10)
        limits = ("rate", RATE, "burst", BURST_BYTES, "limit", 1 << 20)
        run("tc", *where, "qdisc", "replace", "dev", device, "root", "tbf", *limits)


def places_of(bed: Bed) -> tuple[Place, Place, Place]:
    """Of the lender, of the workload with its file system, and of the tenants.  The lender is in the
    group that the others' are in, where it makes one for its node."""
    precedence = Precedence(bed)
    precedence.make("work", "tenants")
    return (
        Place(precedence, "", LENDER_PROCESSOR),
        Place(precedence, "work", WORK_PROCESSOR),
        Place(precedence, "tenants", LENDER_PROCESSOR),
    )


class Clock:
    """The time of a processor that node and lender have used, and that interrupts have; and how often
    something was done there for them."""

    def __init__(self, bed: Bed):
        self.port = Path("/sys/class/net", bed.hosts()[0].port, "statistics")
        pids = run("ip", "netns", "pids", bed.hosts()[0].space).split()
        words = {pid: Path("/proc", pid, "cmdline").read_bytes().split(b"\0") for pid in pids}
        self.lender = next(pid for pid in pids if b"lend" in words[pid])
        self.node = next(pid for pid in pids if b"valkey-server" in words[pid][0])

    def read(self) -> dict[str, float]:
        lines = Path("/proc/stat").read_text().splitlines()
        line = next(it for it in lines if it.startswith(f"cpu{LENDER_PROCESSOR} "))
        counts = [int(it) / os.sysconf("SC_CLK_TCK") for it in line.split()[1:9]]
        seconds = {"node": about.seconds(self.node), "lender": about.seconds(self.lender)}
        # All of the processor's time: of programs, idle, waiting, of interrupts, stolen.
        seconds |= {"interrupts": counts[5] + counts[6], "stolen": counts[7], "all": sum(counts)}
        return seconds | self.counts()

    def schedule(self, policy: str) -> None:
        """Of the node and its lender, which are batch tasks by themselves."""
        for process in (self.node, self.lender):
            run("chrt", "--all-tasks", policy, "--pid", 0, process)

    def counts(self) -> dict[str, int]:
        def of_link(name: str) -> int:
            return sum(int((self.port / f"{way}_{name}").read_text()) for way in ("rx", "tx"))

        rows = Path("/proc/softirqs").read_text().splitlines()
        received = next(row.split() for row in rows if row.strip().startswith("NET_RX:"))
        rows = Path("/proc", self.node, "status").read_text().splitlines()
        switches = sum(int(row.split()[1]) for row in rows if "ctxt_switches" in row)
        found = {"frames": of_link("packets"), "bytes": of_link("bytes"), "switches": switches}
        return found | {"softirqs": int(received[1 + LENDER_PROCESSOR])}


SECONDS = ("node", "lender", "interrupts", "stolen")


def parts(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Of the processor's time; of what is counted, so many a second."""
    gone = {it: after[it] - before[it] for it in after}
    return {it: gone[it] / gone["all"] for it in gone if it != "all"}


class Found:
    """Of each round and mode: the programs' times, what they had of the processor themselves, and its
    parts; and what the workload moved."""

    def __init__(self, modes: tuple[str, ...]):
        self.rounds, self.own, self.used = [], [], []
        self.moved = {mode: [] for mode in modes[1:]}


def measured(tidefs: Path, options: argparse.Namespace) -> Found:
    modes = modes_of(options)
    found = Found(modes)
    moved = found.moved
    with contextlib.ExitStack() as stack:
        bed = stack.enter_context(a_bed("n", tidefs, [RATE], memory=HOST_MEMORY))
        wide(bed)
        receive_apart(bed)
        places = places_of(bed)
        mounts = {
            "busy": stack.enter_context(lent(bed, tidefs, options.lent, *places[:2])),
            "beside": stack.enter_context(own(bed, tidefs, places[1])),
        }
        mounts["preempting"] = mounts["busy"]
        clock = Clock(bed)
        tenants = stack.enter_context(Tenants(bed, places[2], options))
        for _ in range(WARM_UP_RUNS):
            tenants.on_spark()
        for number in range(options.rounds):
            # Beside comes after busy, whose speed it takes over.
            order = modes if number % 2 == 0 else (*modes[1:], modes[0])
            took, had, shares = {}, {}, {}
            for mode in order:
                with contextlib.ExitStack() as meanwhile:
                    if mode != "idle":
                        most = moved["busy"][-1] if mode == "beside" else 0
                        load = workload(mounts[mode], places[1], most, moved[mode])
                        meanwhile.enter_context(load)
                    clock.schedule("--other" if mode == "preempting" else "--batch")
                    before = clock.read()
                    took[mode], had[mode] = tenants.some()
                    shares[mode] = parts(before, clock.read())
            found.rounds.append(took)
            found.own.append(had)
            found.used.append(shares)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return found


def modes_of(options: argparse.Namespace) -> tuple[str, ...]:
    return ("idle", "busy", "preempting", "beside") if options.preempting else MODES


def typical(rounds: list[dict]) -> dict[str, dict[str, float]]:
    """Of each tenant and mode: how much longer the median of its runs is than that of idle; and `again`, how
    far the medians of idle in two halves of the rounds are from each other."""

    def middle(some: list[dict], mode: str, tenant: str) -> float:
        return statistics.median(run for took in some for run in took[mode][tenant])

    def of(tenant: str) -> dict[str, float]:
        halves = [middle(half, "idle", tenant) for half in (rounds[::2], rounds[1::2]) if half]
        idle = middle(rounds, "idle", tenant)
        slowdowns = {mode: middle(rounds, mode, tenant) / idle - 1 for mode in rounds[0] if mode != "idle"}
        return slowdowns | {"again": max(halves) / min(halves) - 1}

    return {tenant: of(tenant) for tenant in rounds[0]["idle"]}


def within_rounds(rounds: list[dict]) -> dict[str, dict[str, list[float]]]:
    """Of each tenant and mode: the median, least and largest slowdown against idle in the same round."""

    def slowdowns(tenant: str, mode: str) -> list[float]:
        pairs = ([statistics.median(took[it][tenant]) for it in (mode, "idle")] for took in rounds)
        found = sorted(busy / idle - 1 for busy, idle in pairs)
        return [statistics.median(found), found[0], found[-1]]

    tenants, modes = rounds[0]["idle"], [mode for mode in rounds[0] if mode != "idle"]
    return {it: {mode: slowdowns(it, mode) for mode in modes} for it in tenants}


def owned(rounds: list[dict]) -> dict[str, dict[str, tuple[float, float]]]:
    """Of each program and mode, medians: by how much more of a processor it used itself than in *idle* of
    the same round, which is what caches and noise cost it; and the part of its time in which it had none."""

    def of(program: str, mode: str) -> tuple[float, float]:
        more = [own[mode][program][1] / own["idle"][program][1] - 1 for own in rounds]
        without = [1 - own[mode][program][1] / own[mode][program][0] for own in rounds]
        return statistics.median(more), statistics.median(without)

    return {it: {mode: of(it, mode) for mode in rounds[0]} for it in rounds[0]["idle"]}


def mean(found: dict, mode: str) -> float:
    return statistics.mean(each[mode] for each in found.values())


def show(judged: dict, found: dict, had: dict, used: dict, moved: dict[str, float]) -> None:
    def line(name: str, each: list[str]) -> None:
        print(f"{name:30}" + "".join(f"{it:>26}" for it in each))

    shown = list(next(iter(judged.values())))
    line("slowdown of the median run", shown)
    for tenant, each in judged.items():
        line(tenant, [f"{each[mode]:+.1%}" for mode in shown])
    line("mean", [f"{mean(judged, mode):+.1%}" for mode in shown])
    modes = list(next(iter(found.values())))
    line("within a round: median, range", modes)
    for tenant, each in found.items():
        line(tenant, [f"{m:+.1%} ({a:+.1%} to {b:+.1%})" for m, a, b in each.values()])
    for program, each in had.items():
        line(f"{program}: own time", [f"{each[mode][0]:+.1%}" for mode in modes])
        line(f"{program}: without processor", [f"{each[mode][1]:.1%}" for mode in modes])
    line("the workload moved, MiB/s", [f"{moved[mode]:.1f}" for mode in modes])
    for what in SECONDS:
        line(f"of the processor, {what}", [f"{used[mode][what]:.1%}" for mode in modes])
    for what in ("frames", "bytes", "softirqs", "switches"):
        line(f"{what} a second", [f"{used[mode][what]:,.0f}" for mode in modes])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=3, help="runs in a turn")
    parser.add_argument("--hpl-size", type=int, default=1_000, help="rows of HPCC's matrix")
    parser.add_argument("--records", type=int, default=200_000, help="that Spark sorts")
    parser.add_argument("--lent", default="512MiB")
    preempting = "busy also with node and lender scheduled like other programs, not as batch tasks"
    parser.add_argument("--preempting", action="store_true", help=preempting)
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    if os.geteuid() != 0:
        raise SystemExit("a test bed needs root: network name spaces, tc and cgroups")
    # What was started is ended also when this is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    sweep()
    tidefs = options.tidefs.resolve()
    where = about.look(tidefs) | {"blas": blas()}
    measures = measured(tidefs, options)
    judged, found = typical(measures.rounds), within_rounds(measures.rounds)
    had = owned(measures.own)
    modes = modes_of(options)
    moved = {mode: statistics.median(rates) for mode, rates in measures.moved.items()}
    used = measures.used
    middle = {
        mode: {it: statistics.median(one[mode][it] for one in used) for it in used[0][mode]}
        for mode in modes
    }
    show(judged, found, had, middle, moved)
    report = {"rounds": measures.rounds, "typical": judged, "within_rounds": found, "own": measures.own}
    report |= {"workload_mib_per_second": moved, "processor_parts": used, "rate": RATE}
    report |= {"options": {it: str(value) for it, value in vars(options).items()}}
    missed = [it for it, each in judged.items() if each["busy"] > EACH_MAX]
    if mean(judged, "busy") > MEAN_MAX:
        missed.append("mean")
    print(f"{options.rounds} rounds")
    about.keep(options.results, "tenants", where, report | {"missed": missed})
    for tenant in missed:
        print(f"missed: {tenant}", file=sys.stderr)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
