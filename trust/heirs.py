#!/usr/bin/python3
"""The host that started a file system dies with all its processes, and another one takes the file system over.

Three hosts have roots, processes and networks of their own.  The first one starts the file system; the others join with
a node and a mount.  At a random instant, sometimes while nodes come or go, every process of the first one is killed at
once.  A program of another host that checks whatever it reads goes on, all that lay elsewhere is there, and a third host
sees who has the file system, changes the number of nodes, and ends it.  The seed is printed; it repeats the instants.

With --pieces, each death adds a line to a file: the program that it tried, how long it took, and whether it failed.  A
run that was cut off, or of which pieces failed, goes on with those that have not passed with the same program; once all
have passed, the next run tries all of them again.  --sum says what such a file has.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from deaths import Deaths, sums, tells
from islands import Island, Sea, until
from joined import MOUNT, PLACE, PORT, Agent, dies_at_once, left, puts_away, reads, status, write

DECIDES_SECONDS_MAX = 10
# Ends a hang. One that only falls silent keeps its locks for twelve seconds; how long it took is printed.
UNLOCKED_SECONDS_MAX = 60
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


def begin(sea: Sea, owner: Island, others: list[Island], most: int = 4) -> list[Agent]:
    """Nothing that is needed lies on the first host in the end."""
    up = ["--nodes", f"1..{most}", "--policy", "static", "--node-memory", "128MiB"]
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


def waits_for_lock(host: Island) -> subprocess.Popen:
    """A program that says when it has the lock."""
    words = ("flock", "-w", str(UNLOCKED_SECONDS_MAX), f"{MOUNT}/lock", "date", "+%s.%N")
    return subprocess.Popen(host.words(*words), stdout=subprocess.PIPE, text=True)


def free_at(waiter: subprocess.Popen) -> float:
    """When it had the lock, in seconds as a clock on the wall counts them."""
    said = waiter.communicate(timeout=UNLOCKED_SECONDS_MAX + 30)[0]
    if not said:
        raise AssertionError(f"a lock of the host that died was not free after {UNLOCKED_SECONDS_MAX} s")
    return float(said)


def shows_where_files_are(owner: Island, other: Island) -> None:
    """Whoever looks on another host is told on which one the files with secrets are."""
    here, there = status(owner)["joining"], status(other)["joining"]
    if here["host"] or there != here | {"host": owner.name}:
        raise AssertionError(f"{owner.name} shows {here}, and {other.name} {there}")


def tells_of_heir(heir: Agent, looks: Island) -> None:
    """Another host shows where more hosts join by now and how the heir came to the file system, and has all that it said."""
    seen = status(looks)
    joining, notes = seen["joining"], seen["notes"]
    if not joining["address"].startswith(f"{heir.host.address}:") or joining["join_secret_file"] or joining["host"]:
        raise AssertionError(f"more hosts join at {joining}")
    if not any("taken over from a host that ended" in note for note in notes):
        raise AssertionError(f"{looks.name} is told {notes}")
    said = [line for line in heir.said().splitlines() if line.startswith("tidefs: ")]
    told = lambda: looks.call("tidefs", "logs", heir.host.name).splitlines()
    until("its log is told whole", lambda: not set(said) - set(told()), 10)


def once(sea: Sea, hosts: list[Island], chance: random.Random) -> tuple[str | None, float]:
    """Answers with what the first host was asked for, and after how many seconds a manager had decided again."""
    owner, second, third = hosts
    agents = begin(sea, owner, [second, third])
    shows_where_files_are(owner, third)
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
    waiter = None if asked == "3" else waits_for_lock(third)
    until("a manager decides again", lambda: decides(third), 60)
    took = time.monotonic() - begun
    until("what was under way has ended", lambda: has_settled(third, owner), 60)
    settled = time.monotonic() - begun
    tells_of_heir(agents[0], third)
    for process in (holder, changing):
        process and process.wait(timeout=60)
    checked = ""
    if waiter:
        unlocked = free_at(waiter) - died
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
    return asked, took


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


def version_of(tidefs: Path) -> dict:
    return json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)


def check(tidefs: Path, times: int, seed: int, hears: Callable) -> None:
    """`hears` of each death what was asked for and how long it took, also of those before one that fails."""
    version = version_of(tidefs)
    chance = random.Random(seed)
    with Sea(tidefs, Path(version["server"]["path"])) as sea:
        hosts = [sea.island(number) for number in (1, 2, 3)]
        try:
            for _ in range(times):
                hears(*once(sea, hosts, chance))
        except BaseException:
            for host in hosts:
                with contextlib.suppress(Exception):
                    print(host.name, host.sh(f"cat {PLACE}/up/log"), file=sys.stderr)
            for log in sorted(sea.scratch.glob("join-*.log"))[-2:]:
                print(f"{log.name}:\n{log.read_text()}", file=sys.stderr)
            raise


def too_slow(took: float) -> str | None:
    if took <= DECIDES_SECONDS_MAX:
        return None
    return f"a manager was to decide within {DECIDES_SECONDS_MAX} s, and took {took:.1f} s"


def judge(took: list[float]) -> None:
    if failure := too_slow(max(took)):
        raise AssertionError(failure)


def program_of(tidefs: Path) -> str:
    """What tells this program from one that was built of other sources; a build may not know its commit."""
    version = version_of(tidefs)
    digest = hashlib.sha256(tidefs.read_bytes()).hexdigest()[:16]
    return f"{version['version']} {version['commit'] or 'no commit'} {digest}"


def piece(options: argparse.Namespace, seed: int, deaths: Deaths) -> None:
    """One that fails is no reason to leave others out."""
    print(f"heirs: --times {options.times} --seed {seed}", flush=True)
    numbers = itertools.count(1)
    hears = lambda asked, took: deaths.add(seed, next(numbers), asked, took, too_slow(took))
    try:
        check(options.tidefs, options.times, seed, hears)
    except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"heirs: --seed {seed} failed: {error}", file=sys.stderr, flush=True)
        deaths.add(seed, next(numbers), None, None, str(error) or type(error).__name__)


def in_pieces(options: argparse.Namespace) -> int:
    """Tries the pieces that have not passed, each with a seed of its own.  Answers with the exit status."""
    deaths = Deaths(options.results, program_of(options.tidefs), options.times)
    seeds = range(options.seed, options.seed + options.pieces)
    found = deaths.pieces()
    left = [seed for seed in seeds if not deaths.has_passed(found.get(seed, []))]
    if not left:
        deaths.begin_anew()
    for seed in left or seeds:
        piece(options, seed, deaths)
    found = deaths.pieces()
    failed = tells([line for seed in seeds for line in found[seed]])
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--pieces", type=int, default=0, help="so many with seeds from --seed on, but for those that --results has")
    parser.add_argument("--results", type=Path, help="a file to which each death adds a line")
    parser.add_argument("--sum", type=Path, help="say what such a file has, and do nothing else")
    parser.add_argument("--check", action="store_true", help="fail when a manager took too long to decide; pieces always do")
    options = parser.parse_args()
    if options.sum:
        return 1 if sums(options.sum) else 0
    if not options.tidefs:
        parser.error("--tidefs is needed")
    if os.geteuid() != 0:
        sys.exit("heirs: hosts with roots and networks of their own need root")
    if bool(options.pieces) != bool(options.results):
        parser.error("--pieces and --results need each other")
    if options.pieces:
        return in_pieces(options)
    print(f"heirs: --times {options.times} --seed {options.seed}")
    took = []
    check(options.tidefs, options.times, options.seed, lambda _, seconds: took.append(seconds))
    print(f"heirs: {len(took)} times, a manager decided after {max(took):.1f} s at most")
    if options.check:
        judge(took)
    return 0


if __name__ == "__main__":
    sys.exit(main())
