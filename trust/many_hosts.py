#!/usr/bin/python3
"""How long many hosts take to come and to go: those of a list over SSH, and agents that all begin at the same time.

Each host has a root, processes and a network of its own, and all of them share this machine's processors.  Looked at is
what the kernel has of each host, from outside, so that looking costs the hosts next to nothing.  Beside the figures stand
the load that the machine had before and, for those over SSH, what plain logins take: all hosts run `true` by `ssh`.

With --ahead the hosts come before all that runs on this machine besides, and what they use of its processors is
counted.  With --check a figure that is not what it should be is a failure.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from ahead import Ahead
from islands import Island, Sea
from joined import PLACE
from sshd import Shells, put

PORT = 7400
MOUNT = "/mnt/tide"
HOSTS = "/home/user/hosts"
# Of a node; each host has one.
MEMORY = "32MiB"
LOOK_SECONDS = 0.02
# What is waited for, on a machine however busy.
SECONDS_MAX = 180
MOUNTED_SECONDS, CONNECTED_SECONDS, GONE_SECONDS = 5, 30, 5
COMMAND = "touch /home/user/begun; until test -e /home/user/go; do sleep 0.02; done; date +%s.%N > /home/user/ended"


class Outside:
    """What hosts have, as the kernel of this machine sees it."""

    def __init__(self, hosts: list[Island]):
        self.hosts = hosts
        self.spaces = {os.readlink(f"/proc/{host.init}/ns/pid"): host.name for host in hosts}

    def has_mount(self, host: Island) -> bool:
        return f" {MOUNT} fuse." in Path(f"/proc/{host.init}/mounts").read_text()

    def are_mounted(self) -> bool:
        return all(map(self.has_mount, self.hosts))

    def path(self, host: Island, path: str) -> Path:
        """Of a file of a host."""
        return Path(f"/proc/{host.init}/root{path}")

    def remains(self) -> list[str]:
        """Of a file system: mounts, directories and processes, with their hosts' names."""
        found = [f"{host.name}: a mount" for host in self.hosts if self.has_mount(host)]
        for host in self.hosts:
            with contextlib.suppress(FileNotFoundError):
                found += [f"{host.name}: {entry.name}" for entry in self.path(host, PLACE).iterdir()]
        return found or self._programs()

    def _programs(self) -> list[str]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            # It may end meanwhile.
            with contextlib.suppress(OSError):
                host = self.spaces.get(os.readlink(entry / "ns/pid"))
                first = (entry / "cmdline").read_bytes().split(b"\0")[0].decode().partition(" ")[0]
                if host and Path(first).name in ("tidefs", "server"):
                    found.append(f"{host}: process {entry.name}")
        return found


def passes(what: str, there) -> None:
    """Waits until it is so."""
    end = time.monotonic() + SECONDS_MAX
    while not there():
        if time.monotonic() > end:
            raise AssertionError(f"not within {SECONDS_MAX} s: {what}")
        time.sleep(LOOK_SECONDS)


def lives(process: subprocess.Popen, log: Path) -> bool:
    if process.poll() is not None:
        raise AssertionError(f"it ended with {process.returncode}: {log.read_text()}")
    return True


def logs_in(sea: Sea, owner: Island, others: list[Island]) -> float:
    """Seconds that a login on all of them takes."""
    began = time.monotonic()
    each = [owner.start(sea.scratch / f"ssh-{host.name}.log", "ssh", host.name, "true") for host in others]
    if failed := [host.name for host, it in zip(others, each) if it.wait(timeout=SECONDS_MAX) != 0]:
        raise AssertionError(f"no login on {failed}")
    return time.monotonic() - began


def over_ssh(sea: Sea, count: int) -> dict[str, float]:
    """From the command to all mounts, to its beginning with a node on each host, and from its end to nothing left."""
    hosts = [sea.island(number) for number in range(1, count + 1)]
    owner, *others = hosts
    shells = Shells(owner)
    for host in others:
        shells.serve(host, sea.scratch / f"sshd-{host.name}.log")
    put(owner, HOSTS, "".join(f"{host.name} memory={MEMORY}\n" for host in hosts))
    outside, log = Outside(hosts), sea.scratch / "run.log"
    begun = outside.path(owner, "/home/user/begun")
    figures = {"logins_seconds": logs_in(sea, owner, others)}
    began = time.monotonic()
    running = owner.start(log, "tidefs", "run", "--hosts", HOSTS, "--mount", MOUNT, "--", "sh", "-c", COMMAND)
    passes("all have a mount", lambda: lives(running, log) and outside.are_mounted())
    figures["mounted_seconds"] = time.monotonic() - began
    passes("the command has begun", lambda: lives(running, log) and begun.exists())
    figures["begun_seconds"] = time.monotonic() - began
    nodes = json.loads(owner.call("tidefs", "status", "--json"))["nodes"]
    if len(nodes) != count:
        raise AssertionError(f"there are {len(nodes)} nodes on {count} hosts")
    owner.call("touch", "/home/user/go")
    if (status := running.wait(timeout=SECONDS_MAX)) != 0:
        raise AssertionError(f"it ended with {status}: {log.read_text()}")
    passes("nothing is left", lambda: not outside.remains())
    figures["gone_seconds"] = time.time() - float(owner.sh("cat /home/user/ended"))
    return figures


def at_once(sea: Sea, count: int) -> dict[str, float]:
    """From when the first agent begins until all belong to the file system, with a node and a mount each."""
    owner, *hosts = [sea.island(number) for number in range(1, count + 2)]
    up = ["--nodes", "1", "--policy", "static", "--node-memory", MEMORY, "--listen", f"{owner.address}:{PORT}"]
    owner.call("tidefs", "up", *up)
    secret = owner.sh(f"cat {PLACE}/up/join-secret")
    for host in hosts:
        put(host, "/home/user/secret", secret)
    outside = Outside(hosts)
    join = ["tidefs", "join", f"{owner.address}:{PORT}", "--secret-file", "/home/user/secret", "--memory", MEMORY]
    logs = [sea.scratch / f"join-{host.name}.log" for host in hosts]
    began = time.monotonic()
    agents = [host.start(log, *join, "--mount", MOUNT) for host, log in zip(hosts, logs)]
    passes("all have a mount", lambda: all(map(lives, agents, logs)) and outside.are_mounted())

    def belong() -> bool:
        seen = json.loads(owner.call("tidefs", "status", "--json"))["hosts"]
        return len(seen) == count and all(host["mounts"] == 1 for host in seen)

    passes("all belong to it", belong)
    connected = time.monotonic() - began
    began = time.monotonic()
    owner.call("tidefs", "down")
    for agent in agents:
        agent.wait(timeout=SECONDS_MAX)
    passes("nothing is left", lambda: not Outside([owner, *hosts]).remains())
    return {"connected_seconds": connected, "gone_seconds": time.monotonic() - began}


def measure(tidefs: Path, what, count: int, ahead: Ahead | None) -> dict[str, float]:
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    load = os.getloadavg()[0]
    used = ahead.processor_seconds() if ahead else 0
    with Sea(tidefs, Path(version["server"]["path"])) as sea:
        try:
            figures = what(sea, count)
        except BaseException:
            for log in sorted(sea.scratch.glob("*.log")):
                if said := log.read_text():
                    print(f"{log.name}:\n{said[-2000:]}", file=sys.stderr)
            raise
    figures |= {"processor_seconds_with_making_hosts": ahead.processor_seconds() - used} if ahead else {}
    print(f"many_hosts: {what.__name__}, {count}, at a load of {load:.1f}: ", end="")
    print(", ".join(f"{name.replace('_', ' ')} {value:.1f}" for name, value in figures.items()), flush=True)
    return figures


def judge(over: dict[str, float], once: dict[str, float]) -> None:
    goals = [(over, "mounted_seconds", MOUNTED_SECONDS), (over, "gone_seconds", GONE_SECONDS)]
    goals += [(once, "connected_seconds", CONNECTED_SECONDS), (once, "gone_seconds", GONE_SECONDS)]
    missed = [f"{name} is {found[name]:.1f}, not {most}" for found, name, most in goals if found[name] > most]
    if missed:
        raise AssertionError("; ".join(missed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", type=Path, required=True)
    parser.add_argument("--hosts", type=int, default=16, help="of a list, over SSH, the first one included")
    parser.add_argument("--agents", type=int, default=64, help="that begin at the same time")
    parser.add_argument("--ahead", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("many_hosts: hosts with roots and networks of their own need root")
    with Ahead() if options.ahead else contextlib.nullcontext() as ahead:
        over = measure(options.tidefs, over_ssh, options.hosts, ahead)
        once = measure(options.tidefs, at_once, options.agents, ahead)
    if options.check:
        judge(over, once)


if __name__ == "__main__":
    main()
