#!/usr/bin/python3
"""Hosts that a program provided, and the death of the host that asked for them.

The first host starts a file system and has two more join by a program of the user's; nothing lies on its own node in the
end.  All its processes are killed at once, the program with them.  One of the hosts that were provided takes the file
system over: a program on the other one that checks what it reads goes on, all that was written is there, `status` names
the hosts that somebody has to take away by hand, and the end, asked for there, leaves nothing on either.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from heirs import Work, decides, judge
from islands import Sea, until
from joined import MOUNT, dies_at_once, left, puts_away, reads, status, write
from provisioned import CALLS, Trial
from sshd import put

GONE_SECONDS = 30


def begins(trial: Trial) -> None:
    """Two hosts are provided and have a mount each, and hold everything."""
    trial.does("good")
    put(trial.owner, CALLS, "")
    options = [word for word in trial.options() if word not in ("--quiet-period", "2")]
    trial.owner.call("tidefs", "up", *options, "--policy", "static")
    for nodes in (2, 3):
        # On a busy machine nodes may take too long to answer for anything to be decided.
        until(f"there are {nodes} nodes", lambda: trial.owner.run("tidefs", "scale", nodes).returncode == 0)
    for host in trial.others:
        host.sh(f"mkdir -p {MOUNT} && tidefs mount {MOUNT}")
    until("nothing lies on the first host", lambda: trial.owner.run("tidefs", "drain", "1").returncode == 0)
    held = [node["endpoint"].rpartition(":")[0] for node in status(trial.owner)["nodes"]]
    if sorted(held) != [host.address for host in trial.others]:
        raise AssertionError(f"the nodes are on {held}")


def is_inherited(trial: Trial) -> float:
    """Answers after how many seconds a manager had decided again."""
    begins(trial)
    second, third = trial.others
    sums = write(third, "before")
    work = Work(third)
    names = trial.calls("add")
    dies_at_once(trial.owner)
    died = time.monotonic()
    until("a manager decides again", lambda: decides(second), 60)
    took = time.monotonic() - died
    until("it can be told what to do", lambda: second.run("tidefs", "scale", "2").returncode == 0, 60)
    checked = work.ends()
    for host in trial.others:
        reads(host, sums)
    reads(second, write(third, "after"))
    said = json.dumps(status(second))
    if missing := [name for name in names if name not in said]:
        raise AssertionError(f"nobody is told that {missing} have to be taken away by hand: {said}")
    ends(trial)
    print(f"provided_heirs: a provided host decided {took:.1f} s after the first had died, {checked} files were checked meanwhile")
    return took


def ends(trial: Trial) -> None:
    trial.others[-1].call("tidefs", "down")
    for host in trial.others:
        # Who took a file system over leaves the empty directory of its mount.
        until(f"nothing is left on {host.name}", lambda it=host: not left(it, directory=False), GONE_SECONDS)
    puts_away(trial.owner)


def check(tidefs: Path) -> float:
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    with Sea(tidefs, Path(version["server"]["path"])) as sea:
        trial = Trial(sea)
        try:
            return is_inherited(trial)
        except BaseException:
            for host in trial.all:
                said = host.run("sh", "-c", "cat /var/tmp/tidefs-0/up/log /home/user/agent.log /home/user/calls 2> /dev/null")
                print(f"{host.name}:\n{said.stdout[-6000:]}", file=sys.stderr)
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidefs", type=Path, required=True)
    parser.add_argument("--check", action="store_true", help="fail when a manager took too long to decide")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("provided_heirs: hosts with roots and networks of their own need root")
    took = check(options.tidefs)
    if options.check:
        judge([took])


if __name__ == "__main__":
    main()
