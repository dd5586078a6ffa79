#!/usr/bin/python3
"""More nodes than a job of a real Slurm has hosts come as jobs of their own, and go when they are not wanted.

Three hosts have roots, processes and networks of their own, and a Slurm has all of them.  A job has the first; a writer in
it fills the file system until satellites have the other two, and deletes until both have left and their jobs are over.
One whose time ends leaves with nothing lost, one that somebody else cancels is a node that died; one that stays pending is
given up, and why is told; whatever ends the run, no job is left.
"""

import argparse
import json
import os
import time
from pathlib import Path

import fixture
from islands import Sea, until
from joined import MOUNT, left, puts_away, reads
from provisioned import grows
from slurm_cluster import Slurm

LIMIT_SECONDS = 10
GONE_SECONDS = 60
NODE = "96MiB"
SATELLITES = 2
# The job and the satellites.
SAID = "tail -n 40 /home/user/*.out /var/tmp/tidefs-0/*/hosts/provision.log"
WAITS = f"touch {MOUNT}/begun; until test -e {MOUNT}/go; do sleep 0.1; done; exit 7"
RUN = (
    f"tidefs run --slurm --mount {MOUNT} --node-memory {NODE} --quiet-period 2 --provision-limit {LIMIT_SECONDS}"
    f" --satellites {SATELLITES} --satellite-options '--exclude=host1 --time=20'"
)


class Trial:
    def __init__(self, sea: Sea):
        self.sea = sea
        self.all = [sea.island(number) for number in range(1, SATELLITES + 2)]
        self.owner, *self.others = self.all
        self.slurm = Slurm(sea, self.all)

    def begin(self, before: str = "exec ", after: str = "") -> int:
        script = f'{before}{RUN} -- sh -c "{WAITS}"{after}'
        self.job = self.slurm.submit(script, "-N1", "-n1", "--nodelist=host1", "--mem=500")

        def there() -> bool:
            if self.jobs().get(self.job) is None:
                raise AssertionError(f"it ended: {self.slurm.output(self.job)}")
            return self.owner.run("test", "-e", f"{MOUNT}/begun").returncode == 0

        until("it has begun", there)
        return self.job

    def jobs(self) -> dict[int, str]:
        """Those that Slurm has, with their states."""
        said = self.slurm.call("squeue", "--noheader", "--format=%A %T")
        return {int(job): state for job, state in (line.split() for line in said.splitlines())}

    def satellites(self) -> dict[int, str]:
        return {job: state for job, state in self.jobs().items() if job != self.job}

    def status(self) -> dict:
        return json.loads(self.owner.call("tidefs", "status", "--json"))

    def are_gone(self, but: int = 0) -> None:
        """Satellites, but for so many, and all that they had."""
        until(f"jobs are over: {self.jobs()}", lambda: len(self.satellites()) == but, GONE_SECONDS)
        if not but:
            until("nothing is left", lambda: not any(left(host) for host in self.others), GONE_SECONDS)

    def end(self) -> None:
        self.owner.call("touch", f"{MOUNT}/go")
        ended, said = self.slurm.ended(self.job), self.slurm.output(self.job)
        if ended != "FAILED 7:0" or "not taken" in said:
            raise AssertionError(f"the job is {ended}: {said}")
        until(f"no job is left: {self.jobs()}", lambda: not self.jobs(), 10)
        if remains := {host.name: kept for host in self.all if (kept := left(host))}:
            raise AssertionError(f"it left {remains}")


def comes_and_goes(trial: Trial) -> None:
    trial.begin()
    begun = time.monotonic()
    sums = grows(trial, SATELLITES)
    reads(trial.owner, sums)
    print(f"satellites: {SATELLITES} came while a writer wrote, {time.monotonic() - begun:.1f} s after it began")
    if list(trial.satellites().values()) != ["RUNNING"] * SATELLITES:
        raise AssertionError(f"Slurm has {trial.jobs()}")
    trial.owner.sh(f"rm -f {MOUNT}/[0-9]*")
    until("all nodes but one have left", lambda: len(trial.status()["nodes"]) == 1, GONE_SECONDS)
    trial.are_gone()
    if lost := trial.status()["lost_nodes"]:
        raise AssertionError(f"nodes were lost: {lost}")


def ends_with_some(trial: Trial) -> None:
    """While they are there."""
    reads(trial.owner, grows(trial, 1))
    trial.end()


def is_cut_short(trial: Trial) -> None:
    """The time of one ends: what lay there is elsewhere. Somebody else cancels another one: it is a node that died."""
    trial.begin()
    sums = grows(trial, SATELLITES)
    # There has to be room where it goes.
    keep = sorted(sums)[: len(sums) // 3]
    trial.owner.sh(f"cd {MOUNT} && rm -f {' '.join(set(sums) - set(keep))}")
    sums = {name: sums[name] for name in keep}
    ends = max(trial.satellites())
    trial.slurm.call("scancel", "--batch", "--signal=USR1", str(ends))
    until("its job is over", lambda: ends not in trial.jobs(), GONE_SECONDS)
    reads(trial.owner, sums)
    seen = trial.status()
    if seen["lost_nodes"]:
        raise AssertionError(f"something was lost: {seen}")
    ours = trial.satellites()
    if not ours:
        raise AssertionError(f"all satellites have left by themselves: {seen}")
    trial.slurm.call("scancel", str(max(ours)))
    until("its job is over", lambda: max(ours) not in trial.jobs(), GONE_SECONDS)
    until("its node is given up", lambda: len(trial.status()["lost_nodes"]) == 1, GONE_SECONDS)
    trial.end()


def is_pending(trial: Trial) -> None:
    """Where there is no room for it: it is said why, it is given up, and it is asked for again."""
    trial.begin()
    fills = ("-N2", "-n2", "--nodelist=host2,host3", "--exclusive")
    blocks = trial.slurm.submit("sleep 600", *fills)
    until("others have the hosts", lambda: trial.jobs().get(blocks) == "RUNNING")
    log = trial.sea.scratch / "writes.log"
    writer = trial.owner.start(log, "sh", "-c", f"head -c 150000000 /dev/zero > {MOUNT}/zero")

    def why() -> list[str]:
        return [host["why"] or "" for host in trial.status()["provided_hosts"]]

    until(f"it is said that it is pending: {why()}", lambda: any("is pending: " in it for it in why()), 20)
    pause = until("it is given up", lambda: trial.status()["provision_pause"], 40)
    if f"within {LIMIT_SECONDS} s (job " not in pause["why"] or "is pending: " not in pause["why"]:
        raise AssertionError(f"what stayed pending is told as {pause}")
    until("its job is over", lambda: set(trial.jobs()) == {trial.job, blocks}, 20)
    if writer.poll() is not None:
        raise AssertionError(f"the writer did not wait: {log.read_text()}")
    trial.slurm.call("scancel", str(blocks))
    if (ended := writer.wait(timeout=120)) != 0:
        raise AssertionError(f"the writer ended with {ended}: {log.read_text()}")
    trial.end()


def is_killed(trial: Trial) -> None:
    """The run alone, with one satellite there and one pending; its job goes on."""
    trial.begin(before="", after="\nsleep 600")
    grows(trial, 1)
    fills = trial.owner.start(trial.sea.scratch / "fills.log", "sh", "-c", f"head -c 200000000 /dev/zero > {MOUNT}/zero")
    until("another one is asked for", lambda: len(trial.satellites()) == 2)
    (starter,) = [pid for pid in trial.owner.pids("tidefs") if b"\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(starter, 9)
    begun = time.monotonic()
    trial.are_gone()
    print(f"satellites: a killed run left no job after {time.monotonic() - begun:.1f} s")
    fills.wait(timeout=60)

    def remains() -> list[int]:
        return trial.owner.pids("tidefs") + trial.owner.pids("server")

    until(f"what the run began has ended: {remains()}", lambda: not remains(), GONE_SECONDS)
    puts_away(trial.owner)
    trial.slurm.call("scancel", str(trial.job))
    trial.slurm.ended(trial.job)


def is_refused(trial: Trial) -> None:
    for words, says in (
        (["--satellites", "2"], "--slurm"),
        (["--slurm", "--satellite-options", "-A me"], "--satellites"),
        (["--slurm", "--satellites", "2", "--provision-command", "/bin/true"], "cannot be used with"),
        (["--slurm", "--satellites", "2"], "this is no job of Slurm"),
    ):
        done = trial.owner.run("tidefs", "run", *words, "--", "true")
        if done.returncode != 2 or says not in done.stderr:
            raise AssertionError(f"{words} is answered by {done}")


def check(options: argparse.Namespace) -> None:
    with fixture.network(options.tidefs) as sea:
        trial = Trial(sea)
        with fixture.shown_on_failure([trial.owner], SAID):
            is_refused(trial)
            comes_and_goes(trial)
            ends_with_some(trial)
            for part in (is_cut_short, is_pending, is_killed) if options.long else ():
                part(trial)


if __name__ == "__main__":
    long = "satellites that are cancelled, pending and left behind as well"
    fixture.main(__doc__, check, "hosts came and went as jobs,", fixture.long(long))
