#!/usr/bin/python3
"""A host vanishes with its network: no connection is reset, and nothing answers any more.

It is given up, with its mount and node, and the others go on.  A host whose cable is out for a few seconds stays, with
all that lies on it.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from islands import Island, Sea, ran, until
from joined import MOUNT, PLACE, PORT, Agent, left, reads, status, write

# Short enough for what waits to go on, TCP's own sending again included.
OUT_SECONDS = 4.5
GIVEN_UP_SECONDS_MAX = 120


def cable(sea: Sea, host: Island, state: str) -> None:
    """Of a host, at the bridge."""
    ran("ip", "-n", sea.name, "link", "set", f"{sea.name}-{host.name.removeprefix('host')}", state)


def comes_back(sea: Sea, owner: Island, host: Island) -> None:
    """What both wrote before, and what they write meanwhile, is read by both after."""
    sums = write(owner, "a") | write(host, "b")
    begun = time.monotonic()
    cable(sea, host, "down")
    words = owner.words("sh", "-c", f"for n in 1 2 3 4 5 6 7 8; do echo $n > {MOUNT}/meanwhile$n || exit 1; done")
    writer = subprocess.Popen(words)
    time.sleep(max(0.0, OUT_SECONDS - (time.monotonic() - begun)))
    cable(sea, host, "up")
    if writer.wait(timeout=60) != 0:
        raise AssertionError("a write failed while the cable was out for a moment")
    print(f"vanished: what was written meanwhile was there {time.monotonic() - begun:.1f} s after the cable was pulled")
    for who in (owner, host):
        reads(who, sums)
    seen = status(owner)
    if len(seen["hosts"]) != 1 or len(seen["nodes"]) != 2 or seen["lost_nodes"]:
        raise AssertionError(f"a cable that was out for a moment has cost {seen}")
    owner.sh(f"rm {MOUNT}/*")


def vanishes(sea: Sea, owner: Island, host: Island, within: float) -> None:
    cable(sea, host, "down")
    begun = time.monotonic()

    def is_over() -> bool:
        seen = status(owner)
        return not seen["hosts"] and len(seen["lost_nodes"]) == 1 and len(seen["nodes"]) == 1

    def since() -> float:
        return time.monotonic() - begun

    until("it is given up", is_over, GIVEN_UP_SECONDS_MAX)
    given_up = since()
    # Whoever still reaches its node would write to one that others have replaced.
    if lives := host.pids("server"):
        raise AssertionError(f"it was given up after {given_up:.1f} s, and its node {lives} goes on")
    reads(owner, write(owner, "after"))
    print(f"vanished: a host that vanished was given up after {given_up:.1f} s, and files were written after {since():.1f} s")
    if given_up > within:
        raise AssertionError(f"it was to be given up within {within:.0f} s")
    until("it has ended what it had", lambda: not left(host), GIVEN_UP_SECONDS_MAX)
    print(f"vanished: nothing was left on it {since():.1f} s after its network had gone")


def check(tidefs: Path, within: float) -> None:
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    with Sea(tidefs, Path(version["server"]["path"])) as sea:
        owner, host = sea.island(1), sea.island(2)
        up = ["--nodes", "1..3", "--policy", "static", "--node-memory", "192MiB"]
        owner.call("tidefs", "up", *up, "--listen", f"{owner.address}:{PORT}", "--mount", MOUNT)
        try:
            secret = owner.sh(f"cat {PLACE}/up/join-secret")
            subprocess.run(host.words("sh", "-c", "cat > /home/user/secret"), input=secret, text=True, check=True)
            agent = Agent(sea, host, "--memory", "128MiB", "--mount", MOUNT)
            until("it is in use", agent.is_ready)
            comes_back(sea, owner, host)
            vanishes(sea, owner, host, within)
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
    parser.add_argument("--within", type=float, default=GIVEN_UP_SECONDS_MAX, help="seconds until it is given up")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("vanished: hosts with roots and networks of their own need root")
    check(options.tidefs, options.within)


if __name__ == "__main__":
    main()
