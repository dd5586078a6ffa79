#!/usr/bin/python3
"""A host that shares no directory with anybody joins a file system by its address and a secret.

Two hosts have roots, processes and networks of their own.  The second one joins with a node and a mount: what one
writes the other reads, and part of it lies on the second one's node.  It leaves with nothing lost; its agent is
killed, and the first one goes on without it.  Who may not join is told why, and leaves nothing behind.
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from islands import Island, Sea, until

PORT = 7400
MOUNT = "/mnt/tide"
FILES, FILE_BYTES = 24, 2 << 20
# All that a host keeps of a file system while it has one.
PLACE = "/var/tmp/tidefs-0"
STEP_SECONDS_MAX = 60


def status(host: Island) -> dict:
    return json.loads(host.call("tidefs", "status", "--json"))


def write(host: Island, prefix: str) -> dict[str, str]:
    """Files through the mount of a host; their sums by name."""
    sums = {}
    for number in range(FILES):
        name, content = f"{prefix}{number}", os.urandom(FILE_BYTES)
        sums[name] = hashlib.sha256(content).hexdigest()
        words = host.words("sh", "-c", f"cat > {MOUNT}/{name}")
        subprocess.run(words, input=content, check=True, timeout=STEP_SECONDS_MAX)
    return sums


def reads(host: Island, sums: dict[str, str], mount: str = MOUNT) -> None:
    said = host.sh(f"cd {mount} && sha256sum -- {' '.join(sums)}")
    read = {name: digest for digest, name in (line.split() for line in said.splitlines())}
    if read != sums:
        wrong = [name for name in sums if read.get(name) != sums[name]]
        raise AssertionError(f"{host.name} reads something else: {wrong}")


class Agent:
    """`tidefs join` on a host."""

    def __init__(self, sea: Sea, host: Island, *options: str, secret: str = "/home/user/secret", port: int = PORT):
        self.host, self.log = host, sea.scratch / f"join-{time.monotonic_ns()}.log"
        words = ["tidefs", "join", f"10.77.0.1:{port}", "--secret-file", secret, *options]
        self.process = host.start(self.log, *words)

    def said(self) -> str:
        return self.log.read_text()

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the agent ended: {self.said()}")
        return "belongs to the file system" in self.said() and "the node is in use" in self.said()

    def kill(self) -> None:
        """The agent alone, with no word to anybody; nsenter waits for it."""
        (agent,) = self.host.pids("tidefs")
        os.kill(agent, signal.SIGKILL)
        self.process.wait(timeout=STEP_SECONDS_MAX)

    def leave(self) -> None:
        (agent,) = self.host.pids("tidefs")
        os.kill(agent, signal.SIGTERM)
        ended = self.process.wait(timeout=STEP_SECONDS_MAX)
        if ended != 0:
            raise AssertionError(f"the agent ended with {ended}: {self.said()}")


def left(host: Island, directory: bool = True) -> str:
    """What a host has of a file system; with the directory that was made for a mount."""
    processes = host.pids("tidefs") + host.pids("server")
    made = f"find {MOUNT} -maxdepth 0 -empty 2> /dev/null" if directory else "true"
    kept = host.sh(f"ls -A {PLACE} 2> /dev/null; grep fuse[.] /proc/mounts || {made}; true")
    return f"{processes or ''}{kept}".strip()


def dies_at_once(host: Island) -> None:
    """All its processes; its kernel lives."""
    for pid in host.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def puts_away(host: Island) -> None:
    """The next command, where a file system has died; its log is kept on purpose."""
    host.call("tidefs", "list")
    host.sh(f"rm -rf {PLACE}/logs-of-the-dead")
    if remains := left(host):
        raise AssertionError(f"the next command leaves {remains} on {host.name}")


def is_refused(sea: Sea, host: Island, words: str, *options: str, **how) -> None:
    agent = Agent(sea, host, *options, **how)
    ended = agent.process.wait(timeout=STEP_SECONDS_MAX)
    if ended not in (1, 2) or words not in agent.said():
        raise AssertionError(f"it ended with {ended}, not because {words!r}: {agent.said()}")
    if remains := left(host):
        raise AssertionError(f"who was refused ({words}) left {remains}")


def is_told(sea: Sea, owner: Island, host: Island) -> None:
    """Those who may not join."""
    host.sh("printf %064d 7 > /home/user/wrong; mkdir -p /home/user/full && touch /home/user/full/file")
    lend = owner.sh(f"cat {PLACE}/up/lend-secret")
    subprocess.run(host.words("sh", "-c", "cat > /home/user/lend"), input=lend, text=True, check=True)
    for secret in ("/home/user/wrong", "/home/user/lend"):
        is_refused(sea, host, "the secret is not this file system's", secret=secret)
    is_refused(sea, host, "no file system can be joined at 10.77.0.1:7499: Connection refused", port=7499)
    is_refused(sea, host, "cannot read the secret in /home/user/none", secret="/home/user/none")
    is_refused(sea, host, "too little", "--memory", "9MiB")
    is_refused(sea, host, "not empty", "--mount", "/home/user/full")


def shares(sea: Sea, owner: Island, host: Island) -> dict[str, str]:
    """What one writes the other reads, and it lies on both; then the host leaves."""
    agent = Agent(sea, host, "--memory", "128MiB", "--mount", MOUNT)
    until("it is in use", agent.is_ready)
    seen = status(owner)
    if [it["address"] for it in seen["hosts"]] != [host.address] or seen["hosts"][0]["mounts"] != 1:
        raise AssertionError(f"the hosts are {seen['hosts']}")
    sums = write(owner, "a")
    reads(host, sums)
    more = write(host, "b")
    reads(owner, more)
    sums |= more
    nodes = {node["endpoint"].rpartition(":")[0]: node for node in status(host)["nodes"]}
    if (held := nodes[host.address]["memory_used_bytes"]) < len(sums) * FILE_BYTES // 4:
        raise AssertionError(f"the node of {host.name} holds {held} bytes")
    host.sh("mkdir /home/user/second && tidefs mount /home/user/second")
    reads(host, sums, "/home/user/second")
    host.call("tidefs", "fsck")
    host.call("tidefs", "umount", "/home/user/second")
    agent.leave()
    if remains := left(host):
        raise AssertionError(f"{host.name} has left and keeps {remains}")
    until("it has gone", lambda: len(status(owner)["nodes"]) == 1 and not status(owner)["hosts"], 10)
    reads(owner, sums)
    return sums


def dies(sea: Sea, owner: Island, host: Island) -> None:
    """Its node is dealt with as one that died, and its mount is let in no more."""
    agent = Agent(sea, host, "--memory", "128MiB", "--mount", MOUNT)
    until("it is in use", agent.is_ready)
    begun = time.monotonic()
    agent.kill()

    def is_over() -> bool:
        seen = status(owner)
        return not seen["hosts"] and len(seen["lost_nodes"]) == 1 and len(seen["nodes"]) == 1

    until("it is given up", is_over, 40)
    print(f"joined: an agent that was killed was given up after {time.monotonic() - begun:.1f} s")
    reads(owner, write(owner, "after"))
    host.call("tidefs", "list")
    if remains := left(host):
        raise AssertionError(f"the next command leaves {remains} of a killed agent")


def check(tidefs: Path) -> None:
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    with Sea(tidefs, Path(version["server"]["path"])) as sea:
        owner, host = sea.island(1), sea.island(2)
        up = ["--nodes", "1..3", "--policy", "static", "--node-memory", "192MiB"]
        owner.call("tidefs", "up", *up, "--listen", f"{owner.address}:{PORT}", "--mount", MOUNT)
        try:
            secret = owner.sh(f"cat {PLACE}/up/join-secret")
            subprocess.run(host.words("sh", "-c", "cat > /home/user/secret"), input=secret, text=True, check=True)
            is_told(sea, owner, host)
            shares(sea, owner, host)
            owner.sh(f"rm {MOUNT}/*")
            dies(sea, owner, host)
            owner.call("tidefs", "down")
        except BaseException:
            with contextlib.suppress(Exception):
                print(owner.sh(f"cat {PLACE}/up/log"), file=sys.stderr)
            for log in sea.scratch.glob("*.log"):
                print(f"{log.name}:\n{log.read_text()}", file=sys.stderr)
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidefs", type=Path, required=True)
    if os.geteuid() != 0:
        sys.exit("joined: hosts with roots and networks of their own need root")
    begun = time.monotonic()
    check(parser.parse_args().tidefs)
    print(f"joined: a host came, shared, left and died, and nothing of others was lost, in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
