#!/usr/bin/python3
"""The host that started a file system dies with all its processes, and another one takes the file system over.

Three hosts have roots, processes and networks of their own.  The first one starts the file system; the others join with
a node and a mount.  At a random instant, sometimes while nodes come or go, every process of the first one is killed at
once.  A program of another host that checks whatever it reads goes on, all that lay elsewhere is there, and a third host
sees who has the file system, changes the number of nodes, and ends it.  The seed is printed; it repeats the instants.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from islands import Island, Sea, until
from joined import MOUNT, PLACE, PORT, Agent, dies_at_once, left, puts_away, reads, status, write

DECIDES_SECONDS_MAX = 10
# A mount that only falls silent keeps its locks for twelve.
UNLOCKED_SECONDS_MAX = 10
GONE_SECONDS_MAX = 30
# Writes, replaces and reads until it is told to stop; says how often it did.
WORK = """
import os, sys
at, stop = sys.argv[1:]
done = 0
while not os.path.exists(stop):
    name, content = f"{at}/work{done % 8}", os.urandom(200_000)
    with open(name + ".new", "wb") as file:
        file.write(content)
    os.rename(name + ".new", name)
    with open(name, "rb") as file:
        if file.read() != content:
            sys.exit(f"{name} has something else")
    done += 1
print(done)
"""
STOP = "/home/user/stop"


class Work:
    """The program that checks what it reads, on a host."""

    def __init__(self, host: Island):
        self.host = host
        host.sh(f"rm -f {STOP}")
        words = host.words("python3", "-c", WORK, MOUNT, STOP)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ends(self) -> int:
        """How often it wrote and read; it must not have failed."""
        self.host.sh(f"touch {STOP}")
        said, errors = self.process.communicate(timeout=120)
        if self.process.returncode != 0:
            raise AssertionError(f"the program on {self.host.name} failed: {errors}")
        return int(said)

    def leave(self) -> None:
        """Whatever became of it: some of what it had may have been lost."""
        self.host.sh(f"touch {STOP}")
        self.process.communicate(timeout=120)


def decides(host: Island) -> bool:
    """There is a manager again, which has decided something or goes on with what was under way."""
    said = host.run("tidefs", "status", "--json")
    seen = json.loads(said.stdout) if said.returncode == 0 else {}
    return any(seen.get(of) for of in ("last_decision", "reconfiguration", "recovery"))


def has_settled(host: Island, dead: Island) -> bool:
    """What was under way has ended, the nodes that died are dealt with, and what is asked for is done."""
    if host.run("tidefs", "scale", "2").returncode != 0:
        return False
    nodes = status(host)["nodes"]
    are_up = len(nodes) == 2 and all(node["state"] == "up" for node in nodes)
    return are_up and not any(node["endpoint"].startswith(f"{dead.address}:") for node in nodes)


def begin(sea: Sea, owner: Island, others: list[Island]) -> list[Agent]:
    """Nothing that is needed lies on the first host in the end."""
    up = ["--nodes", "1..4", "--policy", "static", "--node-memory", "128MiB"]
    owner.call("tidefs", "up", *up, "--listen", f"{owner.address}:{PORT}", "--mount", MOUNT)
    secret = owner.sh(f"cat {PLACE}/up/join-secret")
    agents = []
    for host in others:
        subprocess.run(host.words("sh", "-c", "cat > /home/user/secret"), input=secret, text=True, check=True)
        agents.append(Agent(sea, host, "--memory", "192MiB", "--mount", MOUNT))
        until("its node is in use", agents[-1].is_ready)
    # On a busy machine nodes may take too long to answer for anything to be decided.
    until("nothing lies on the first host", lambda: owner.run("tidefs", "drain", "1").returncode == 0)
    return agents


def locks(host: Island) -> subprocess.Popen:
    """A program that holds a lock until it dies."""
    held = f"touch {MOUNT}/lock && exec flock {MOUNT}/lock sh -c 'echo held; sleep 1000'"
    process = subprocess.Popen(host.words("sh", "-c", held), stdout=subprocess.PIPE, text=True)
    if process.stdout.readline().strip() != "held":
        raise AssertionError("no lock is held")
    return process


def once(sea: Sea, hosts: list[Island], chance: random.Random) -> float:
    """Answers after how many seconds a manager had decided again."""
    owner, second, third = hosts
    agents = begin(sea, owner, [second, third])
    sums = write(third, "before")
    holder, work = locks(owner), Work(second)
    time.sleep(chance.uniform(0.2, 1.5))
    # To 1: a host's node is being emptied. To 3: one is being added on the host that dies, and what went there is lost.
    asked = chance.choice([None, None, "1", "1", "3"])
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    changing = asked and subprocess.Popen(owner.words("tidefs", "scale", asked), **quiet)
    if changing:
        time.sleep(chance.uniform(0, 1.0))
    dies_at_once(owner)
    begun, died = time.monotonic(), time.time()
    # It says when it has the lock.
    waits = third.words("flock", "-w", "60", f"{MOUNT}/lock", "date", "+%s.%N")
    waiter = None if asked == "3" else subprocess.Popen(waits, stdout=subprocess.PIPE, text=True)
    until("a manager decides again", lambda: decides(third), 60)
    took = time.monotonic() - begun
    until("what was under way has ended", lambda: has_settled(third, owner), 60)
    settled = time.monotonic() - begun
    for process in (holder, changing):
        process and process.wait(timeout=60)
    checked = ""
    if waiter:
        unlocked = float(waiter.communicate(timeout=60)[0] or "inf") - died
        if unlocked > UNLOCKED_SECONDS_MAX:
            raise AssertionError(f"a lock of the host that died was free after {unlocked:.1f} s")
        for nodes in ("1", "2"):
            third.call("tidefs", "scale", nodes)
        reads(third, sums)
        reads(second, sums | write(third, "after"))
        checked = f", its locks were free after {unlocked:.1f} s, {work.ends()} files were checked meanwhile"
    else:
        work.leave()
    ends(hosts, agents)
    print(
        f"heirs: while asked for {asked or 'nothing'}, a manager decided {took:.1f} s after the host had died "
        f"and had settled after {settled:.1f} s{checked}",
        flush=True,
    )
    return took


def ends(hosts: list[Island], agents: list[Agent]) -> None:
    """From a host that is nobody's heir; then a command where the host died puts the rest away."""
    owner, *others = hosts
    begun = time.monotonic()
    if f"{PLACE}/up" not in others[-1].call("tidefs", "list"):
        raise AssertionError(f"{others[-1].name} lists no file system")
    others[-1].call("tidefs", "down")
    for host, agent in zip(others, agents):
        agent.process.wait(timeout=GONE_SECONDS_MAX)
        until(f"nothing is left on {host.name}", lambda: not left(host), GONE_SECONDS_MAX)
    print(f"heirs: nothing was left {time.monotonic() - begun:.1f} s after the end was asked for")
    puts_away(owner)


def check(tidefs: Path, times: int, seed: int, results: Path | None) -> None:
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    chance = random.Random(seed)
    with Sea(tidefs, Path(version["server"]["path"])) as sea:
        hosts = [sea.island(number) for number in (1, 2, 3)]
        try:
            took = []
            for _ in range(times):
                took.append(once(sea, hosts, chance))
                if results:
                    with results.open("a") as file:
                        file.write(f"{seed} {took[-1]:.1f}\n")
        except BaseException:
            for host in hosts:
                with contextlib.suppress(Exception):
                    print(host.name, host.sh(f"cat {PLACE}/up/log"), file=sys.stderr)
            for log in sorted(sea.scratch.glob("join-*.log"))[-2:]:
                print(f"{log.name}:\n{log.read_text()}", file=sys.stderr)
            raise
    worst = max(took)
    print(f"heirs: {times} times, a manager decided after {worst:.1f} s at most")
    if worst > DECIDES_SECONDS_MAX:
        raise AssertionError(f"a manager was to decide within {DECIDES_SECONDS_MAX} s")


def deaths(results: Path) -> list[tuple[int, float]]:
    """The seed of each, and the seconds until a manager decided."""
    lines = results.read_text().splitlines() if results.exists() else []
    return [(int(seed), float(took)) for seed, took in map(str.split, lines)]


def in_pieces(options: argparse.Namespace) -> list[int]:
    """Runs those that the results do not have yet, each with a seed of its own; one that fails is no reason to leave the
    others out. Answers with the seeds that failed."""
    failed = []
    for seed in range(options.seed, options.seed + options.pieces):
        if sum(each == seed for each, _ in deaths(options.results)) >= options.times:
            continue
        print(f"heirs: --times {options.times} --seed {seed}", flush=True)
        try:
            check(options.tidefs, options.times, seed, options.results)
        except (AssertionError, subprocess.SubprocessError) as error:
            failed.append(seed)
            print(f"heirs: --seed {seed} failed: {error}", file=sys.stderr, flush=True)
    return failed


def sums(results: Path) -> None:
    took = sorted(seconds for _, seconds in deaths(results))
    if took:
        middle = took[len(took) // 2]
        print(f"heirs: {len(took)} deaths in {results}: a manager decided after {middle:.1f} s in the middle, {took[-1]:.1f} s at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidefs", type=Path, required=True)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--pieces", type=int, default=0, help="so many with seeds from --seed on, but for those that --results has")
    parser.add_argument("--results", type=Path, help="a file to which each death adds a line, and whose lines are summed")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("heirs: hosts with roots and networks of their own need root")
    if options.pieces and not options.results:
        parser.error("--pieces needs --results")
    failed = []
    if options.pieces:
        failed = in_pieces(options)
    else:
        print(f"heirs: --times {options.times} --seed {options.seed}")
        check(options.tidefs, options.times, options.seed, options.results)
    if options.results:
        sums(options.results)
    if failed:
        sys.exit(f"heirs: these seeds failed: {failed}")


if __name__ == "__main__":
    main()
