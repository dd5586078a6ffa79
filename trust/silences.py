#!/usr/bin/python3
"""The host that has a file system falls silent: nobody is told that it has ended, and it may go on.

Hosts have roots, processes and networks of their own.  The cable of the first one is pulled for good, or its processes
stand still and go on later: more than half of the others elect one of them, which has the file system from then on, and
the first one gives way when it hears of that.  A cable that is out for a short time changes nothing.  Where the first
host and one more are cut off from three, the three go on, and the two decide nothing.  Who heard the first host
longer than the others keeps its locks.  A host that has entered and vanished before anything ran there is not waited
for.  Programs elsewhere check what they read all the while.
"""

import contextlib
import os
import signal
import subprocess
import time

import scenarios
from heirs import Work, begin, decides, locks
from islands import Island, Sea, ran, until
from joined import MOUNT, PLACE, PORT, left, reads, status, write
from successions import CUT_OFF, ELECTED, GONE_SECONDS_MAX, HAS_TAKEN_OVER, IS_BACK, TAKES_OVER, ends, says

# Shorter than the lease of whoever has the file system, or of those that vote.
SHORT_SECONDS = 8
# So long before the last one hears him the others elect somebody.
LONGER_SECONDS = 7
# Several words of each host.
VOTE_SECONDS = 4
SLOW_SERVER = '#!/bin/sh\\ncase "$*" in *version*) exec /opt/server "$@";; esac\\nsleep 1000\\n'
IS_ALONE = "more than half of the hosts"


def cable(host: Island, state: str) -> None:
    host.call("ip", "link", "set", "eth0", state)


def works(others: list[Island]) -> tuple[dict, Work]:
    """Files of one host, and a program on another."""
    sums = write(others[-1], "before")
    # Each mount has heard of nodes that have gone, and asks none of them while the first host is silent.
    for host in others:
        reads(host, sums)
    return sums, Work(others[0])


def elected(agents: list) -> None:
    """Exactly one of them was."""
    until("one of the hosts is elected", lambda: any(ELECTED in agent.said() for agent in agents), 60)
    took = [agent.host.name for agent in agents if TAKES_OVER in agent.said()]
    if len(took) != 1:
        raise AssertionError(f"{took} have taken the file system over")


def goes_on(agents: list, begun: float, sums: dict, work: Work) -> str:
    """A manager decides, nothing is lost that lay elsewhere, nodes go and come."""
    looks = agents[-1].host
    elected(agents)
    until("a manager decides again", lambda: decides(looks), 60)
    took = time.monotonic() - begun
    says_silent(looks)
    reads(looks, sums)
    more = sums | write(looks, "after")
    count = len(agents)
    for nodes in (count - 1, count):
        until(f"there are {nodes} nodes", lambda: has(looks, nodes), 90)
    for agent in agents:
        reads(agent.host, more)
    return f"a manager decided {took:.1f} s after that, and {work.ends()} files were checked meanwhile"


def says_silent(looks: Island) -> None:
    if not any("taken over from a host that fell silent" in note for note in status(looks)["notes"]):
        raise AssertionError(f"{looks.name} is told {status(looks)['notes']}")


def has(host: Island, count: int) -> bool:
    said = host.run("tidefs", "scale", str(count))
    return said.returncode == 0 and [node["state"] for node in status(host)["nodes"]] == ["up"] * count


def is_alone(owner: Island) -> None:
    until(f"{owner.name} says that it is alone", lambda: any(IS_ALONE in it for it in status(owner)["notes"]), 60)


def has_given_way(owner: Island) -> None:
    until(f"nothing but its log is left on {owner.name}", lambda: left(owner) == "logs-of-the-dead", 60)
    if HAS_TAKEN_OVER not in owner.sh(f"cat {PLACE}/logs-of-the-dead/*"):
        raise AssertionError("the log of the first host does not say why it has ended")


def whose_cable_is_out_is_succeeded(sea: Sea, hosts: list[Island]) -> None:
    owner, *others = hosts[:3]
    agents = begin(sea, owner, others)
    sums, work = works(others)
    begun = time.monotonic()
    cable(owner, "down")
    said = goes_on(agents, begun, sums, work)
    is_alone(owner)
    ends(agents, [])
    owner.call("tidefs", "down")
    until(f"nothing is left on {owner.name}", lambda: not left(owner), GONE_SECONDS_MAX)
    print(f"silences: the first host's cable was pulled: {said}", flush=True)


def who_stands_still_is_succeeded(sea: Sea, hosts: list[Island]) -> None:
    owner, *others = hosts[:4]
    agents = begin(sea, owner, others)
    sums, work = works(others)
    begun = time.monotonic()
    stopped = owner.pids()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    said = goes_on(agents, begun, sums, work)
    for pid in stopped:
        # Those that go on may end others.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    has_given_way(owner)
    reads(others[-1], sums)
    ends(agents, [owner])
    print(f"silences: the first host stood still: {said}; it gave way when it went on", flush=True)


def who_is_soon_back_is_not_succeeded(sea: Sea, hosts: list[Island]) -> None:
    owner, *others = hosts[:4]
    agents = begin(sea, owner, others)
    sums, work = works(others)
    cable(owner, "down")
    time.sleep(SHORT_SECONDS)
    cable(owner, "up")
    until("a manager decides", lambda: decides(owner), 60)
    until("all hosts are there", lambda: len(status(owner)["hosts"]) == len(others), 60)
    until("nodes go", lambda: has(owner, 2), 60)
    checked = work.ends()
    for host in hosts[:4]:
        reads(host, sums)
    if took := [agent.host.name for agent in agents if TAKES_OVER in agent.said()]:
        raise AssertionError(f"{took} have taken the file system over")
    if lost := status(owner)["lost_nodes"]:
        raise AssertionError(f"nodes were lost: {lost}")
    ends(agents, [])
    until(f"nothing is left on {owner.name}", lambda: not left(owner), GONE_SECONDS_MAX)
    print(f"silences: who was back after {SHORT_SECONDS} s was not succeeded, {checked} files were checked", flush=True)


def the_larger_side_goes_on(sea: Sea, hosts: list[Island]) -> None:
    owner, one, *others = hosts
    agents = begin(sea, owner, [*others, one], most=5)
    apart = agents.pop()
    # What only lies on the smaller side would be lost.
    (number,) = [it["number"] for it in status(owner)["nodes"] if it["endpoint"].startswith(f"{one.address}:")]
    until("nothing lies on the smaller side", lambda: owner.run("tidefs", "drain", str(number)).returncode == 0)
    sums, work = works(others)
    ran("ip", "-n", sea.name, "link", "add", "smaller", "type", "bridge")
    ran("ip", "-n", sea.name, "link", "set", "smaller", "up")
    between = lambda bridge: [
        ran("ip", "-n", sea.name, "link", "set", f"{sea.name}-{host.address.rpartition('.')[2]}", "master", bridge)
        for host in (owner, one)
    ]
    begun = time.monotonic()
    between("smaller")
    said = goes_on(agents, begun, sums, work)
    is_alone(owner)
    until(f"{one.name} has ended", lambda: apart.process.poll() is not None, 90)
    if CUT_OFF not in apart.said() or TAKES_OVER in apart.said():
        raise AssertionError(f"{one.name} says: {apart.said()}")
    between("sea")
    has_given_way(owner)
    reads(others[-1], sums)
    ends(agents, [owner])
    if remains := left(one):
        raise AssertionError(f"{one.name} keeps {remains}")
    print(f"silences: two hosts were cut off from three: {said}; the two decided nothing", flush=True)


def who_heard_the_first_host_longer_keeps_its_locks(sea: Sea, hosts: list[Island]) -> None:
    """It hears whom the others have elected only when it has heard nobody for as long as they had."""
    owner, *others = hosts
    agents = begin(sea, owner, others, most=5)
    last = others[-1]
    sums, holder = write(last, "before"), locks(last)
    begun = time.monotonic()
    for host in others[:-1]:
        owner.call("ip", "route", "add", "blackhole", host.address)
    time.sleep(LONGER_SECONDS)
    cable(owner, "down")
    elected(agents)
    says(agents[-1], IS_BACK)
    until("a manager decides again", lambda: decides(last), 60)
    took = time.monotonic() - begun
    # A mount that ends is shut out within a second or two.
    time.sleep(SHORT_SECONDS)
    if others[1].run("flock", "-n", f"{MOUNT}/lock", "true").returncode != 1:
        raise AssertionError("a lock of the host that came last was somebody else's")
    for host in others:
        reads(host, sums)
    ends(agents, [])
    owner.call("tidefs", "down")
    holder.kill()
    holder.wait(timeout=60)
    said = f"a manager decided {took:.1f} s after the first silence"
    print(f"silences: who heard the first host longer kept its locks, {said}", flush=True)


def who_has_only_entered_is_not_waited_for(sea: Sea, hosts: list[Island]) -> None:
    """A host enters, and loses its power before its node has started; nobody needs its vote."""
    owner, *others = hosts[:3]
    newcomer = hosts[3]
    agents = begin(sea, owner, others)
    sums, work = works(others)
    secret = owner.sh(f"cat {PLACE}/up/join-secret")
    subprocess.run(newcomer.words("sh", "-c", "cat > /home/user/secret"), input=secret, text=True, check=True)
    # A server that says what it is and never starts.
    newcomer.sh(f"printf '{SLOW_SERVER}' > /home/user/server && chmod 755 /home/user/server")
    join = ["join", f"{owner.address}:{PORT}", "--secret-file", "/home/user/secret", "--memory", "128MiB"]
    log = sea.scratch / "join-newcomer.log"
    entered = newcomer.start(log, "env", "TIDEFS_SERVER=/home/user/server", "tidefs", *join)
    until("it has entered", lambda: len(status(owner)["hosts"]) == 3, 60)
    cable(newcomer, "down")
    # For as long as it takes to have all vote.
    time.sleep(VOTE_SECONDS)
    if len(status(owner)["hosts"]) != 3:
        raise AssertionError("the newcomer is not awaited any more")
    begun = time.monotonic()
    cable(owner, "down")
    said = goes_on(agents, begun, sums, work)
    ends(agents, [])
    owner.call("tidefs", "down")
    newcomer.kill()
    entered.wait(timeout=60)
    print(f"silences: a host had entered and vanished before the first one fell silent: {said}", flush=True)


SCENARIOS = [whose_cable_is_out_is_succeeded, who_stands_still_is_succeeded]
SCENARIOS += [who_is_soon_back_is_not_succeeded, the_larger_side_goes_on]
SCENARIOS += [who_heard_the_first_host_longer_keeps_its_locks, who_has_only_entered_is_not_waited_for]


def hosts_of(sea: Sea, _: scenarios.Scenario) -> list[Island]:
    return [sea.island(number) for number in (1, 2, 3, 4, 5)]


if __name__ == "__main__":
    scenarios.main("silences", __doc__, SCENARIOS, hosts_of)
