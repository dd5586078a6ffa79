#!/usr/bin/python3
"""Hosts that a program of the user's provides come when nodes are wanted, and go when they are not.

Three hosts have roots, processes and networks of their own.  A run begins on the first; its program has the others join
over SSH.  A writer fills the file system until both are there, and deletes until both have left and were removed.
Programs that fail, hang, start nothing or start too much are named, and the writer goes on.  Whatever ends the run,
nothing is left on any host.
"""

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import fixture
from islands import Island, Sea, until
from joined import MOUNT, PORT, left, puts_away, reads, write
from sshd import Shells, put

PROGRAM = "/home/user/provide"
# What the program does instead of providing a host.
MODE = "/home/user/mode"
# Each call of it, with its name.
CALLS = "/home/user/calls"
LIMIT_SECONDS = 20
GONE_SECONDS = 60
# After a failure.
PAUSE_SECONDS = 5
NODE = "96MiB"
# Each host that it lends is a directory until it is taken away.
TEXT = """#!/bin/sh
echo "$1 $2 $(date +%s.%N)" >> /home/user/calls
join() {
    ssh "$1" "umask 77; cat > /home/user/secret; /opt/tidefs join $TIDEFS_JOIN_ADDRESS --secret-file /home/user/secret \
        --memory $TIDEFS_JOIN_MEMORY --provided $2 > /home/user/agent.log 2>&1 < /dev/null & echo \\$! >> /home/user/agents" \
        < "$TIDEFS_JOIN_SECRET_FILE"
}
case "$1 $(cat /home/user/mode)" in
    "add fails") echo "the quota is used up" >&2; exit 3 ;;
    "add hangs") sleep 600 ;;
    "add nothing") exit 0 ;;
    "add two") mkdir /home/user/has-host2 /home/user/has-host3 && echo $2 > /home/user/has-host2/name &&
        echo $2 > /home/user/has-host3/name && join host2 $2 && join host3 $2 ;;
    "add "*)
        for host in host2 host3; do
            mkdir /home/user/has-$host 2> /dev/null && { echo $2 > /home/user/has-$host/name; join $host $2; exit; }
        done
        echo "no host is free" >&2
        exit 4 ;;
    "remove "*)
        for has in $(grep -lx "$2" /home/user/has-*/name); do
            has=${has%/name}
            ssh "${has#/home/user/has-}" 'kill $(cat /home/user/agents) 2> /dev/null; rm -f /home/user/secret /home/user/agents'
            rm -r "$has"
        done ;;
esac
"""
WAITS = f'touch {MOUNT}/begun; until test -e {MOUNT}/go; do sleep 0.1; done; exit 7'


class Trial:
    def __init__(self, sea: Sea):
        self.sea = sea
        self.owner, *self.others = self.all = [sea.island(number) for number in range(1, 4)]
        shells = Shells(self.owner)
        for host in self.others:
            shells.serve(host, sea.scratch / f"sshd-{host.name}.log")
        put(self.owner, PROGRAM, TEXT)
        self.owner.sh(f"chmod +x {PROGRAM}")

    def options(self) -> list[str]:
        growing = ["--nodes", "1..3", "--node-memory", NODE, "--quiet-period", "2"]
        provided = ["--provision-command", PROGRAM, "--provision-limit", str(LIMIT_SECONDS)]
        return [*growing, "--listen", f"{self.owner.address}:{PORT}", "--mount", MOUNT, *provided]

    def begin(self, mode: str = "good") -> subprocess.Popen:
        self.does(mode)
        put(self.owner, CALLS, "")
        self.log = self.sea.scratch / f"run-{time.monotonic_ns()}.log"
        running = self.owner.start(self.log, "tidefs", "run", *self.options(), "--", "sh", "-c", WAITS)

        def there() -> bool:
            if running.poll() is not None:
                raise AssertionError(f"it ended: {self.log.read_text()}")
            return self.owner.run("test", "-e", f"{MOUNT}/begun").returncode == 0

        until("it has begun", there)
        return running

    def does(self, mode: str) -> None:
        put(self.owner, MODE, mode)

    def status(self) -> dict:
        return json.loads(self.owner.call("tidefs", "status", "--json"))

    def calls(self, word: str) -> list[str]:
        """The names that the program was called with."""
        return [name for said, name, _ in self._lines() if said == word]

    def _lines(self) -> list[list[str]]:
        return [line.split() for line in self.owner.sh(f"cat {CALLS}").splitlines()]

    def apart(self) -> list[float]:
        """Seconds from one host that was asked for to the next."""
        times = [float(when) for said, _, when in self._lines() if said == "add"]
        return [after - before for before, after in zip(times, times[1:])]

    def all_are_removed(self) -> None:
        """What was asked for was taken away, and nothing of it is on other hosts."""

        def remains() -> dict[str, str]:
            kept = {host.name: found for host in self.others if (found := left(host))}
            missing = set(self.calls("add")) - set(self.calls("remove"))
            if missing:
                kept["not removed"] = " ".join(missing)
            if held := self.owner.sh("ls -d /home/user/has-* 2> /dev/null; true"):
                kept["still had by the program"] = held
            return kept

        begun = time.monotonic()
        while found := remains():
            if time.monotonic() - begun > GONE_SECONDS:
                raise AssertionError(f"left after {GONE_SECONDS} s: {found}; {self.log.read_text()}")
            time.sleep(0.1)

    def end(self, running: subprocess.Popen) -> None:
        self.owner.call("touch", f"{MOUNT}/go")
        ended = running.wait(timeout=60)
        if ended != 7 or "not taken" in self.log.read_text():
            raise AssertionError(f"it ended with {ended}: {self.log.read_text()}")
        self.all_are_removed()
        if remains := left(self.owner):
            raise AssertionError(f"the run left {remains}")


def grows(trial: Trial, hosts: int) -> dict[str, str]:
    """Writes until so many hosts are there; what was written."""
    sums: dict[str, str] = {}
    for number in range(2 * hosts):
        sums |= write(trial.owner, f"{time.monotonic_ns()}-{number}-")
        there = [it for it in trial.status()["provided_hosts"] if it["state"] == "there" and it["node"]]
        if len(there) == hosts:
            return sums
    raise AssertionError(f"what was written does not have {hosts} hosts come: {trial.status()}")


def shrinks(trial: Trial) -> None:
    """Deletes all, and waits until no host is there any more."""
    trial.owner.sh(f"rm -f {MOUNT}/[0-9]*")
    seen: dict = {}

    def alone() -> bool:
        seen.update(trial.status())
        return not seen["provided_hosts"] and len(seen["nodes"]) == 1

    until("all have left", alone, 60)
    trial.all_are_removed()


def comes_and_goes(trial: Trial) -> None:
    running = trial.begin()
    sums = grows(trial, 2)
    reads(trial.owner, sums)
    if len(set(trial.calls("add"))) != 2:
        raise AssertionError(f"the program was called for {trial.calls('add')}")
    shrinks(trial)
    reads(trial.owner, (again := grows(trial, 1)))
    if sums.keys() & again.keys():
        raise AssertionError("the same names twice")
    trial.end(running)


def is_killed(trial: Trial) -> None:
    """With one host there and another one on its way."""
    running = trial.begin()
    grows(trial, 1)
    runner = runners(trial.owner)[0]
    if os.path.samefile(f"/proc/{runner}/fd/2", trial.log):
        raise AssertionError("whoever reads what the run says has to wait for the program as well")
    trial.does("hangs")
    fills = trial.owner.start(trial.sea.scratch / "fills.log", "sh", "-c", f"head -c 200000000 /dev/zero > {MOUNT}/zero")
    until("another one is asked for", lambda: len(trial.calls("add")) == 2)
    (starter,) = [pid for pid in trial.owner.pids("tidefs") if b"\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(starter, signal.SIGKILL)
    running.wait(timeout=60)
    began = time.monotonic()
    trial.all_are_removed()
    fills.wait(timeout=60)
    print(f"provisioned: a killed run left nothing on others after {time.monotonic() - began:.1f} s")
    until("what ran the program has ended", lambda: not runners(trial.owner))
    puts_away(trial.owner)
    if hangs := hanging(trial.owner):
        raise AssertionError(f"a program that hung still runs: {hangs}")


def runners(host: Island) -> list[int]:
    """Processes that run the program."""
    found = []
    for pid in host.pids("tidefs"):
        with contextlib.suppress(FileNotFoundError):
            if b"provision-runner" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def hanging(host: Island) -> list[int]:
    return [pid for pid in host.pids("sleep") if b"600" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]


def is_named(trial: Trial, mode: str, words: str) -> None:
    """A program that provides nothing for a while: it is said, and the writer waits until it does."""
    running = trial.begin(mode)
    log = trial.sea.scratch / f"writes-{mode}.log"
    content = os.urandom(1 << 20)
    put(trial.owner, "/home/user/part", "")
    subprocess.run(trial.owner.words("sh", "-c", "cat > /home/user/part"), input=content, check=True, timeout=60)
    whole = " ".join(["/home/user/part"] * 120)
    writer = trial.owner.start(log, "sh", "-c", f"cat {whole} > {MOUNT}/whole")
    pause = until(f"{mode}: it is said", lambda: trial.status()["provision_pause"], 60)
    if words not in pause["why"]:
        raise AssertionError(f"{mode} is told as {pause}")
    first = trial.calls("add")[0]
    until(f"{mode}: it is taken away", lambda: first in trial.calls("remove"))
    if writer.poll() is not None:
        raise AssertionError(f"{mode}: the writer did not wait: {log.read_text()}")
    trial.does("good")
    if (ended := writer.wait(timeout=120)) != 0:
        raise AssertionError(f"{mode}: the writer ended with {ended}: {log.read_text()}")
    if not trial.owner.run("sh", "-c", f"cat {whole} | cmp - {MOUNT}/whole").returncode == 0:
        raise AssertionError(f"{mode}: something else is read than was written")
    if min(trial.apart()) < PAUSE_SECONDS:
        raise AssertionError(f"{mode}: it was asked again at once, after {trial.apart()} s")
    if words not in trial.log.read_text():
        raise AssertionError(f"{mode}: the log does not say {words!r}: {trial.log.read_text()}")
    trial.end(running)


def is_too_much(trial: Trial) -> None:
    """A program that starts two hosts where one is asked for: the other one is as any that joins."""
    running = trial.begin("two")
    reads(trial.owner, grows(trial, 1))
    until("both are in use", lambda: len(trial.status()["nodes"]) == 3 and len(trial.status()["hosts"]) == 2, 60)
    if len(trial.calls("add")) != 1:
        raise AssertionError(f"it was asked for {trial.calls('add')}")
    trial.end(running)


def is_refused(trial: Trial) -> None:
    options = trial.options()
    at = options.index("--provision-command") + 1
    wrong = [
        ({at: "/home/user/nowhere"}, "there is no /home/user/nowhere"),
        ({at: "/etc/passwd"}, "may not be executed; allow it: chmod +x /etc/passwd"),
        ({options.index("1..3"): "2"}, "--provision-command has no effect with 2 nodes"),
    ]
    cases = [([change.get(place, word) for place, word in enumerate(options)], words) for change, words in wrong]
    listen = options.index("--listen")
    cases.append((options[:listen] + options[listen + 2 :], "such as --listen"))
    for words, says in cases:
        done = trial.owner.run("tidefs", "run", *words, "--", "true")
        if done.returncode != 2 or says not in done.stderr:
            raise AssertionError(f"{shlex.join(words)} is answered by {done}")
    found = trial.owner.run("tidefs", "doctor", "--provision-command", "/etc/passwd")
    if "provision command may not" not in " ".join(found.stdout.split()).replace("/etc/passwd ", ""):
        raise AssertionError(f"doctor says {found.stdout}")
    if remains := left(trial.owner):
        raise AssertionError(f"who was refused left {remains}")


def check(options: argparse.Namespace) -> None:
    with fixture.network(options.tidefs) as sea:
        trial = Trial(sea)
        with fixture.shown_on_failure([trial.owner], f"cat {CALLS}; cat /var/tmp/tidefs-0/*/hosts/provision.log"):
            is_refused(trial)
            comes_and_goes(trial)
            is_killed(trial)
            if options.long:
                is_named(trial, "fails", "exit status 3: the quota is used up")
                is_named(trial, "hangs", f"did not come within {LIMIT_SECONDS} s")
                is_named(trial, "nothing", f"did not come within {LIMIT_SECONDS} s")
                is_too_much(trial)


if __name__ == "__main__":
    long = "programs that do not do what they should as well"
    fixture.main(__doc__, check, "hosts came when they were wanted and went again,", fixture.long(long))
