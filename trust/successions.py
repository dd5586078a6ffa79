#!/usr/bin/python3
"""What follows the death of the host that started a file system, and what only looks like it.

Three hosts have roots, processes and networks of their own; the first one starts the file system, the others join.
A filter refuses one host's connections to the first one, which lives: nobody takes the file system over.  Nor does anybody
where it stands still and there is but one other: that one ends what it has, and it ends in order when it goes on.  The host that
took it over leaves in order, or dies as well: the third one has it then.  Where it came up later than the first one, no
byte that is lost reads as zero.  A host whose cable is out while that happens comes back with its locks.  Two that were
cut off from each other both have it, and the earlier one gives way when they see each other again.  Programs elsewhere
check what they read all the while.
"""

import contextlib
import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path

import scenarios
from heirs import Work, begin, decides, free_at, locks, waits_for_lock
from islands import Island, Sea, until
from joined import MOUNT, PLACE, PORT, Agent, dies_at_once, left, puts_away, reads, status, write

GONE_SECONDS_MAX = 30
# Longer than it takes to find that nobody listens, three times; shorter than hosts wait for who is silent.
REFUSED_SECONDS, CUT_SECONDS = 5, 5
# Of the twelve seconds after which such a host is given up, and gives up.
CUT_SECONDS_MAX = 9
# More than any range of inode numbers, at one a nanosecond; less than passes between two losses.
LOSSES_APART_SECONDS = 3
UP_LONGER_SECONDS = 10 * 86400
CUT_OFF = "the node and the mounts of this host were ended"
TAKES_OVER, IS_BACK = "this host takes it over", "the connection is there again"
HAS_TAKEN_OVER = "has taken the file system over"
ELECTED = "more than half of the hosts elect this one"


def says(agent: Agent, words: str) -> None:
    until(f"the agent of {agent.host.name} says {words!r}", lambda: words in agent.said(), 60)


def ends(agents: list[Agent], dead: list[Island]) -> None:
    """The last host that lives ends the file system, and nothing is left on any of those."""
    agents[-1].host.call("tidefs", "down")
    for agent in agents:
        agent.process.wait(timeout=GONE_SECONDS_MAX)
        until(f"nothing is left on {agent.host.name}", lambda: not left(agent.host), GONE_SECONDS_MAX)
    for host in dead:
        puts_away(host)


def refuses(host: Island, owner: Island, does: str) -> None:
    """What the host sends to the owner reaches its own kernel, which resets and refuses, as a filter that rejects does."""
    host.call("ip", "address", does, f"{owner.address}/32", "dev", "lo")


def leaves(agent: Agent) -> None:
    """By a signal; the agent has children that have the same name."""
    of = lambda pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1]
    (pid,) = [pid for pid in agent.host.pids("tidefs") if of(pid) == b"join"]
    os.kill(pid, signal.SIGTERM)
    if (ended := agent.process.wait(timeout=60)) != 0:
        raise AssertionError(f"the agent ended with {ended}: {agent.said()}")


def who_lives_is_not_succeeded(sea: Sea, hosts: list[Island]) -> None:
    owner, second, third = hosts
    agents = begin(sea, owner, [second, third])
    sums = write(third, "before")
    work = Work(second)
    refuses(second, owner, "add")
    time.sleep(REFUSED_SECONDS)
    refuses(second, owner, "del")
    says(agents[0], IS_BACK)
    if TAKES_OVER in agents[0].said():
        raise AssertionError(f"there are two that have the file system: {agents[0].said()}")
    checked = work.ends()
    owner.call("tidefs", "scale", "2")
    for host in hosts:
        reads(host, sums)
        if len(status(host)["hosts"]) != 2 or status(host)["lost_nodes"]:
            raise AssertionError(f"{host.name} sees {status(host)}")
    owner.call("tidefs", "down")
    for host, agent in zip(hosts[1:], agents):
        agent.process.wait(timeout=GONE_SECONDS_MAX)
        until(f"nothing is left on {host.name}", lambda: not left(host), GONE_SECONDS_MAX)
    print(f"successions: who lives was not succeeded, {checked} files were checked meanwhile", flush=True)


def who_stands_still_is_not_succeeded(sea: Sea, hosts: list[Island]) -> None:
    owner, *others = hosts[:2]
    agents = begin(sea, owner, others)
    write(others[-1], "before")
    begun = time.monotonic()
    stopped = owner.pids()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    for agent in agents:
        until(f"the agent of {agent.host.name} gives up", lambda: agent.process.poll() is not None, 60)
        if CUT_OFF not in agent.said() or TAKES_OVER in agent.said():
            raise AssertionError(f"who has not heard of the first host says: {agent.said()}")
        until(f"nothing is left on {agent.host.name}", lambda: not left(agent.host), GONE_SECONDS_MAX)
    took = time.monotonic() - begun
    for pid in stopped:
        # Those that go on may end others.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    until("their nodes are known to be lost", lambda: len(status(owner)["lost_nodes"]) == len(others), 60)
    owner.call("tidefs", "down")
    until(f"nothing is left on {owner.name}", lambda: not left(owner), GONE_SECONDS_MAX)
    print(f"successions: who stood still was not succeeded; the others had ended {took:.1f} s after he did", flush=True)


def who_is_cut_off_gives_way(sea: Sea, hosts: list[Island]) -> None:
    """All that goes between one host and the others is rejected for a while, so that it takes the file system over though
    the first one lives; then they see each other again."""
    owner, second, third = hosts
    agents = begin(sea, owner, [second, third])
    sums = write(third, "before")
    holder = locks(third)
    for other in (owner, third):
        refuses(second, other, "add")
        # What was open before ends as well.
        second.call("ss", "-K", "dst", other.address)
    says(agents[0], TAKES_OVER)
    if not decides(owner):
        raise AssertionError("the first host was not cut off, it has ended")
    begun = time.monotonic()
    for other in (owner, third):
        refuses(second, other, "del")
    says(agents[1], HAS_TAKEN_OVER)
    says(agents[1], IS_BACK)
    until(f"nothing but its log is left on {owner.name}", lambda: left(owner) == "logs-of-the-dead", GONE_SECONDS_MAX)
    took = time.monotonic() - begun
    if HAS_TAKEN_OVER not in owner.sh(f"cat {PLACE}/logs-of-the-dead/*"):
        raise AssertionError("the log of the first host does not say why it has ended")
    until("a manager decides again", lambda: decides(third), 60)
    if second.run("flock", "-n", f"{MOUNT}/lock", "true").returncode != 1:
        raise AssertionError("a lock of a host that changed owners was somebody else's")
    reads(second, sums)
    reads(third, sums | write(third, "after"))
    until("its nodes are those that there were", lambda: settles(third, 2), 60)
    if lost := status(third)["lost_nodes"]:
        raise AssertionError(f"nodes were lost: {lost}")
    if not any("taken over" in note for note in status(third)["notes"]):
        raise AssertionError(f"{third.name} is not told that it was taken over")
    # For longer than one that gives way waits.
    time.sleep(REFUSED_SECONDS)
    reads(second, sums)
    ends(agents, [owner])
    holder.kill()
    holder.wait(timeout=60)
    print(f"successions: who was cut off had given way {took:.1f} s after it was back, and nothing was lost", flush=True)


def dies(owner: Island, heir: Agent, looks: Island) -> None:
    dies_at_once(owner)
    says(heir, TAKES_OVER)
    until("a manager decides again", lambda: decides(looks), 60)


def who_took_over_leaves(sea: Sea, hosts: list[Island]) -> None:
    """It has started nothing that others need; what lies on its node goes to the third host first."""
    owner, second, third = hosts
    agents = begin(sea, owner, [second, third])
    work = Work(third)
    dies(owner, agents[0], third)
    # There is no memory for another node but the host's that took over, and that one offers it as all do.
    third.run("tidefs", "scale", "3")
    sums = write(third, "before")
    begun = time.monotonic()
    leaves(agents[0])
    says(agents[1], TAKES_OVER)
    until("a manager decides again", lambda: decides(third), 60)
    took = time.monotonic() - begun
    until("its node has gone", lambda: len(status(third)["nodes"]) == 1, 60)
    reads(third, sums)
    if lost := status(third)["lost_nodes"][1:]:
        raise AssertionError(f"besides the first host's own, nodes were lost: {lost}")
    if remains := left(second):
        raise AssertionError(f"{second.name} has left and keeps {remains}")
    checked = work.ends()
    ends([agents[1]], [owner])
    print(
        f"successions: who had taken over left, and the next decided {took:.1f} s after that was asked for; "
        f"{checked} files were checked meanwhile",
        flush=True,
    )


def who_took_over_dies(sea: Sea, hosts: list[Island]) -> None:
    owner, second, third = hosts
    agents = begin(sea, owner, [second, third])
    sums = write(third, "before")
    work = Work(third)
    dies(owner, agents[0], third)
    (number,) = [it["number"] for it in status(third)["nodes"] if it["endpoint"].startswith(f"{second.address}:")]
    third.call("tidefs", "drain", str(number))
    holder = locks(second)
    begun, died = time.monotonic(), time.time()
    dies_at_once(second)
    waiter = waits_for_lock(third)
    says(agents[1], TAKES_OVER)
    until("a manager decides again", lambda: decides(third), 60)
    took = time.monotonic() - begun
    unlocked = free_at(waiter) - died
    holder.wait(timeout=60)
    until("one node is up", lambda: [node["state"] for node in status(third)["nodes"]] == ["up"], 60)
    checked = work.ends()
    reads(third, sums | write(third, "after"))
    ends([agents[1]], [owner, second])
    print(
        f"successions: who had taken over died, the next decided after {took:.1f} s, locks were free after "
        f"{unlocked:.1f} s, {checked} files were checked meanwhile",
        flush=True,
    )


def who_comes_late_keeps_its_locks(sea: Sea, hosts: list[Island]) -> None:
    owner, second, third = hosts
    agents = begin(sea, owner, [second, third])
    sums = write(third, "before")
    holder = locks(third)
    third.call("ip", "link", "set", "eth0", "down")
    cut = time.monotonic()
    dies_at_once(owner)
    says(agents[0], TAKES_OVER)
    # On a busy machine the others take their time.
    time.sleep(max(0, min(CUT_SECONDS, cut + CUT_SECONDS_MAX - time.monotonic())))
    third.call("ip", "link", "set", "eth0", "up")
    says(agents[1], IS_BACK)
    until("a manager decides again", lambda: decides(second), 60)
    if second.run("flock", "-n", f"{MOUNT}/lock", "true").returncode != 1:
        raise AssertionError("a lock of the host that came late was somebody else's")
    reads(second, sums)
    reads(third, sums | write(third, "after"))
    ends(agents, [owner])
    holder.kill()
    holder.wait(timeout=60)
    print("successions: who came late kept its locks and files", flush=True)


def settles(host: Island, nodes: int) -> bool:
    said = host.run("tidefs", "scale", str(nodes))
    return said.returncode == 0 and [node["state"] for node in status(host)["nodes"]] == ["up"] * nodes


def newest_number(host: Island) -> int:
    """Of an inode that a mount makes which has just begun."""
    at = "/home/user/fresh"
    host.sh(f"mkdir -p {at} && tidefs mount {at}")
    number = int(host.sh(f"touch {at}/newest && stat -c %i {at}/newest && rm {at}/newest"))
    host.call("tidefs", "umount", at)
    return number


def oldest(pids: list[int]) -> int:
    return min(pids, key=lambda pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]))


def write_anew(host: Island, prefix: str) -> dict[str, str]:
    """Through a mount that has just begun, so with the newest numbers of inodes; their sums by name."""
    at, sums = "/home/user/writes", {}
    host.sh(f"mkdir -p {at} && tidefs mount {at}")
    for number in range(24):
        name, content = f"{prefix}{number}", os.urandom(2 << 20)
        sums[name] = hashlib.sha256(content).hexdigest()
        subprocess.run(host.words("sh", "-c", f"cat > {at}/{name}"), input=content, check=True, timeout=60)
    host.call("tidefs", "umount", at)
    return sums


def loses_superblock(looks: Island, victims: list[Island]) -> dict[str, str]:
    """The oldest node of one of these hosts after the other is killed, until the counters of inode numbers are made anew.
    What counts them stays where it is when a node comes.  Answers with files that were there when that was lost."""
    for turn, victim in enumerate(victims):
        sums, before = write_anew(looks, f"turn{turn}-"), newest_number(looks)
        given_up = lambda: sum(lost["given_up"] for lost in status(looks)["lost_nodes"])
        dead = given_up()
        os.kill(oldest(victim.pids("server")), signal.SIGKILL)
        until("others hold what it held", lambda: given_up() > dead, 60)
        until("another node is there", lambda: settles(looks, 2), 90)
        if abs(newest_number(looks) - before) > LOSSES_APART_SECONDS * 10**9:
            return sums
    raise AssertionError("the superblock was not lost")


def who_came_up_later_counts_on(sea: Sea, hosts: list[Island]) -> None:
    """Both lose the superblock, and between that files are made of which some bytes are lost with the second one."""
    owner, second, third = hosts
    up = ["--nodes", "2..4", "--policy", "static", "--node-memory", "128MiB"]
    owner.call("tidefs", "up", *up, "--listen", f"{owner.address}:{PORT}", "--mount", MOUNT)
    loses_superblock(owner, [owner] * 4)
    owner.sh(f"rm -rf {MOUNT}/*")
    secret = owner.sh(f"cat {PLACE}/up/join-secret")
    agents = []
    for host in (second, third):
        subprocess.run(host.words("sh", "-c", "cat > /home/user/secret"), input=secret, text=True, check=True)
        agents.append(Agent(sea, host, "--memory", "192MiB", "--mount", MOUNT))
        until("its node is in use", agents[-1].is_ready)
    for node in status(owner)["nodes"]:
        if node["endpoint"].startswith(f"{owner.address}:"):
            owner.call("tidefs", "drain", str(node["number"]))
    dies(owner, agents[0], third)
    until("two nodes are up", lambda: settles(third, 2), 60)
    sums = loses_superblock(third, [second, third, second, third])
    read = {name: second.run("sha256sum", f"{MOUNT}/{name}") for name in sums}
    there = [name for name in sums if read[name].returncode == 0]
    if wrong := [name for name in there if read[name].stdout.split()[0] != sums[name]]:
        raise AssertionError(f"of {len(sums)} files {len(wrong)} read something else: {wrong}")
    if len(there) == len(sums):
        raise AssertionError("nothing was lost")
    ends([agents[1]], [owner])
    agents[0].process.wait(timeout=GONE_SECONDS_MAX)
    print(
        f"successions: who had come up {UP_LONGER_SECONDS} s later counted on: of {len(sums)} files {len(there)} were whole "
        "and the others said that they were not",
        flush=True,
    )


SCENARIOS = [who_lives_is_not_succeeded, who_took_over_leaves, who_took_over_dies, who_comes_late_keeps_its_locks]
SCENARIOS += [who_came_up_later_counts_on, who_is_cut_off_gives_way, who_stands_still_is_not_succeeded]


def hosts_of(sea: Sea, scenario: scenarios.Scenario) -> list[Island]:
    longer = UP_LONGER_SECONDS if scenario is who_came_up_later_counts_on else 0
    return [sea.island(1, longer), sea.island(2), sea.island(3)]


if __name__ == "__main__":
    scenarios.main("successions", __doc__, SCENARIOS, hosts_of)
