#!/usr/bin/python3
"""What encryption between hosts costs, and what eight hosts cost beside one.

Hosts have roots, processes and networks of their own on this machine (trust/islands.py), and share its processors, so
what counts is processor time: of all agents, mounts, managers and servers, and not of the programs that work.

- *encrypted* beside *trusted*: one node, and a program on another host, so all that it does crosses the network. It writes
  and reads a file, and makes files of which each is stored before the next (`fsync`), which is rounds of metadata: the
  file that is in the middle counts, since whoever else wants a processor makes some take many times as long.
- eight hosts with a node and a mount each: on all of them at once a program makes files in a directory of its own, and
  then writes a file; beside it the same on one of the eight, and on one host that is all there is.

Ratios are taken within a round, of which each has file systems of its own, and their median counts; the least and the
most stand beside it. With --ahead all of it comes before what else runs on the machine, so that times mean something.
"""

import argparse
import contextlib
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "trust"))

import about  # noqa: E402
from ahead import Ahead  # noqa: E402
from islands import Island, Sea  # noqa: E402
from joined import MOUNT, PLACE, PORT, Agent, until  # noqa: E402
from served import processor_ns  # noqa: E402
from sshd import put  # noqa: E402

HOSTS = 8
MIB = 1 << 20
# What is put off is done by then.
SETTLES_SECONDS = 0.5
# What takes longer hangs.
ANSWER_SECONDS_MAX = 300
ENDS_SECONDS_MAX = 60
# On a host: does what a line asks for in its directory, and says how many seconds it took.
PROGRAM = """
import os, sys, time
at, block = sys.argv[1], os.urandom(1 << 20)
os.makedirs(at, exist_ok=True)
print("ready", flush=True)
for line in sys.stdin:
    what, count = line.split()
    began = time.monotonic()
    if what == "create":
        for number in range(int(count)):
            os.close(os.open(f"{at}/file{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    elif what == "stored":
        took = []
        for number in range(int(count)):
            start = time.monotonic()
            file = os.open(f"{at}/stored{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            os.fsync(file)
            os.close(file)
            took.append(time.monotonic() - start)
        print(sorted(took)[len(took) // 2] * len(took), flush=True)
        continue
    elif what == "write":
        file = os.open(f"{at}/file", os.O_CREAT | os.O_WRONLY)
        for _ in range(int(count)):
            assert os.write(file, block) == len(block)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    elif what == "read":
        file = os.open(f"{at}/file", os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(int(count)):
            data = b""
            while len(data) < len(block):
                data += os.read(file, len(block) - len(data)) or sys.exit("the file is short")
            assert data == block, "something else is read than was written"
        os.close(file)
    print(time.monotonic() - began, flush=True)
"""
ENCRYPTION_GOALS = {"write": 0.5, "read": 0.5, "stored": 1.3}
COMPANY_GOAL = 1.1


class Programs:
    """One on each of some hosts, which do the same at the same time."""

    def __init__(self, hosts: list[Island]):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        words, self.hosts = ["/usr/bin/python3", "-c", PROGRAM], hosts
        self.each = [subprocess.Popen(host.words(*words, f"{MOUNT}/{host.name}"), **pipes) for host in hosts]
        for it in self.each:
            if self.says(it, "begin") != "ready\n":
                raise SystemExit("a program of the bench does not begin")

    def says(self, program: subprocess.Popen, what: str) -> str:
        """Its next line, of which it writes one for each that it is given."""
        if not select.select([program.stdout], [], [], ANSWER_SECONDS_MAX)[0]:
            raise SystemExit(f"a program of the bench had not ended to {what} after {ANSWER_SECONDS_MAX} s")
        return program.stdout.readline()

    def do(self, what: str, count: int, serving: list[int]) -> dict[str, float]:
        """Seconds of the slowest, and processor seconds of who serves, for each of `count`."""
        before = used(serving)
        for it in self.each:
            it.stdin.write(f"{what} {count}\n")
        said = [self.says(it, what) for it in self.each]
        if not all(said):
            raise SystemExit(f"a program of the bench failed to {what}")
        time.sleep(SETTLES_SECONDS)
        done = count * len(self.each)
        return {"seconds": max(map(float, said)) / count, "processor_seconds": (used(serving) - before) / done}

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """After a failure they are killed: a file system in use does not end, nor does who waits for one that hangs."""
        for pid in [pid for host in self.hosts if failure for pid in host.pids("python3")]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for it in self.each:
            it.stdin.close()
            it.wait(timeout=ENDS_SECONDS_MAX)


def used(serving: list[int]) -> float:
    """Processor seconds until now."""
    return sum(map(processor_ns, serving)) / 1e9


@contextlib.contextmanager
def file_system(sea: Sea, hosts: list[Island], network: str, memory: str, nodes: int):
    """On these hosts: nodes on the first ones, and mounts on all; answers who serves."""
    owner, *others = hosts
    up = ["--nodes", f"1..{nodes}" if nodes > 1 else "1", "--policy", "static", "--node-memory", memory]
    listen = ["--listen", f"{owner.address}:{PORT}", "--network", network]
    owner.call("tidefs", "up", *up, *listen, "--mount", MOUNT)
    agents = []
    try:
        secret = owner.sh(f"cat {PLACE}/up/join-secret")
        for number, host in enumerate(others, start=2):
            put(host, "/home/user/secret", secret)
            offers = ["--memory", memory] if number <= nodes else ["--mount-only"]
            agents.append(Agent(sea, host, *offers, "--mount", MOUNT))
        for agent in agents:
            until("it has joined", lambda it=agent: "belongs to the file system" in it.said())
        if nodes > 1:
            owner.call("tidefs", "scale", nodes)
        yield [pid for host in hosts for program in ("tidefs", "server") for pid in host.pids(program)]
    finally:
        owner.call("tidefs", "down")
        for agent in agents:
            agent.process.wait(timeout=60)


def crossing(sea: Sea, hosts: list[Island], network: str, options) -> dict[str, dict[str, float]]:
    with file_system(sea, hosts[:2], network, "512MiB", 1) as serving:
        with Programs(hosts[1:2]) as programs:
            counts = {"stored": options.stored, "write": options.mebibytes, "read": options.mebibytes}
            found = {what: programs.do(what, count, serving) for what, count in counts.items()}
            again = [found["read"], *(programs.do("read", options.mebibytes, serving) for _ in range(2))]
            found["read"] = {unit: statistics.median(it[unit] for it in again) for unit in again[0]}
    return found


def company(sea: Sea, hosts: list[Island], working: int, options) -> dict[str, dict[str, float]]:
    """So many of the hosts work."""
    with file_system(sea, hosts, "encrypted", "160MiB", len(hosts)) as serving:
        with Programs(hosts[:working]) as programs:
            counts = {"create": options.files, "write": options.mebibytes // HOSTS}
            found = {what: programs.do(what, count, serving) for what, count in counts.items()}
    return found


def round_of(sea: Sea, hosts: list[Island], number: int, options) -> dict[str, dict]:
    """Each in turn, the first one another one in each round."""
    tries = [
        ("trusted", lambda: crossing(sea, hosts, "trusted", options)),
        ("encrypted", lambda: crossing(sea, hosts, "encrypted", options)),
        ("one host", lambda: company(sea, hosts[:1], 1, options)),
        ("one of eight", lambda: company(sea, hosts, 1, options)),
        ("eight of eight", lambda: company(sea, hosts, HOSTS, options)),
    ]
    order = tries[number % len(tries) :] + tries[: number % len(tries)]
    return {name: attempt() for name, attempt in order}


def ratios(rounds: list[dict]) -> list[tuple[str, list[float], float | None]]:
    """Of each figure: what it is, its ratio in each round, and the goal. Rates of bytes are to be above it, times below."""
    def each(what: str, unit: str, one: str, other: str) -> list[float]:
        return [it[one][what][unit] / it[other][what][unit] for it in rounds]

    found = []
    for what in ("write", "read"):
        name = f"{what}: bytes a processor second, encrypted over trusted"
        found.append((name, each(what, "processor_seconds", "trusted", "encrypted"), ENCRYPTION_GOALS[what]))
        found.append((f"{what}: bytes a second, encrypted over trusted", each(what, "seconds", "trusted", "encrypted"), None))
    name = "a file that is made and stored: seconds, encrypted over trusted"
    found.append((name, each("stored", "seconds", "encrypted", "trusted"), ENCRYPTION_GOALS["stored"]))
    for what, of in (("create", "a file made"), ("write", "a MiB written")):
        eight = each(what, "processor_seconds", "eight of eight", "one of eight")
        found.append((f"{of}: processor seconds, eight of eight hosts over one of eight", eight, COMPANY_GOAL))
        alone = each(what, "processor_seconds", "eight of eight", "one host")
        found.append((f"{of}: processor seconds, eight of eight hosts over one alone", alone, None))
    return found


def is_missed(name: str, found: list[float], goal: float | None) -> bool:
    middle = statistics.median(found)
    return goal is not None and (middle < goal if "bytes a" in name else middle > goal)


def show(rounds: list[dict]) -> list[str]:
    for name in rounds[0]:
        for what in rounds[0][name]:
            of = {unit: statistics.median(it[name][what][unit] for it in rounds) for unit in ("seconds", "processor_seconds")}
            print(f"{name:15} {what:7} {of['seconds'] * 1e3:9.3f} ms, {of['processor_seconds'] * 1e3:9.3f} ms of a processor, each")
    missed = []
    for name, found, goal in ratios(rounds):
        aim = "" if goal is None else f", to be {'at least' if 'bytes a' in name else 'at most'} {goal}"
        print(f"{name}: {statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f}){aim}")
        missed += [name] if is_missed(name, found, goal) else []
    return missed


def measure(options) -> list[dict]:
    said = subprocess.run([options.tidefs, "--version", "--json"], capture_output=True, check=True).stdout
    with Sea(options.tidefs, Path(json.loads(said)["server"]["path"])) as sea:
        hosts = [sea.island(number) for number in range(1, HOSTS + 1)]
        rounds = []
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            rounds.append(round_of(sea, hosts, number, options))
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", type=Path, default=PROJECT / "target/release/tidefs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mebibytes", type=int, default=256, help="of the file that crosses the network")
    parser.add_argument("--stored", type=int, default=4000, help="files of which each is stored before the next")
    parser.add_argument("--files", type=int, default=2000, help="that a program of one host makes")
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--ahead", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("between_hosts: hosts with roots and networks of their own need root")
    options.tidefs = options.tidefs.resolve()
    told = about.look(options.tidefs)
    with Ahead() if options.ahead else contextlib.nullcontext():
        rounds = measure(options)
    missed = show(rounds)
    about.keep(options.results, "between_hosts", told, {"rounds": rounds, "missed": missed})
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
