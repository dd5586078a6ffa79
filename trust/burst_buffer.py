#!/usr/bin/python3
"""A line in the script of a job of a real Slurm gives the job a file system.

Slurm's controller has the plug-in of `packaging/slurm`.  An ordinary user's job on two hosts that share nothing but the
network finds in $TIDEFS_MOUNT what was staged in, on both, and what it writes is staged out.  What a line asks for in
vain is told when the job is submitted, and what fails later in the job's output; nothing is left on any host.
"""

import argparse
import subprocess
from pathlib import Path

import fixture
from islands import Island, Sea, until
from slurm_cluster import CONFIGURATION, Slurm
from sshd import put

PLUGIN = Path(__file__).resolve().parent.parent / "packaging/slurm"
FILES = ("burst_buffer.conf", "burst_buffer.lua")
# Slurm gives root no burst buffer.
USER = 65534
HOME = "/home/user"
NODES = 2
GONE_SECONDS = 20
STAGES = f"""#TIDEFS size=100MB policy=static
#TIDEFS stage_in={HOME}/input:input stage_out=out/*.txt:{HOME}/results"""
USES = """set -e
test "$TIDEFS_MOUNT" = /tmp/tidefs-$SLURM_JOB_ID
mkdir $TIDEFS_MOUNT/out
srun --overlap -N2 -n2 sh -c 'cp $TIDEFS_MOUNT/input/$(hostname) $TIDEFS_MOUNT/out/$(hostname).txt'
scontrol show job $SLURM_JOB_ID
scontrol show burst
exit 3
"""


class Trial:
    def __init__(self, sea: Sea):
        self.hosts = [sea.island(number) for number in range(1, NODES + 1)]
        self.head = self.hosts[0]
        beside = {name: (PLUGIN / name).read_text() for name in FILES}
        self.slurm = Slurm(sea, self.hosts, "BurstBufferType=burst_buffer/lua\n", beside)
        for host in self.hosts:
            host.sh(f"mkdir -p {HOME}/input && chown -R {USER} {HOME} && chmod 755 /")
            put(self.head, f"{HOME}/input/{host.name}", f"for {host.name}\n")

    def as_user(self, *words: str, host: Island | None = None) -> subprocess.CompletedProcess:
        user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
        return (host or self.head).run("env", f"SLURM_CONF={CONFIGURATION}", *user, *words)

    def submit(self, directives: str, script: str, shell: str = "#!/bin/sh") -> subprocess.CompletedProcess:
        text = f"{shell}\n#SBATCH --mem=600\n{directives}\nexport SLURM_CONF={CONFIGURATION}\n{script}"
        put(self.head, f"{HOME}/job.sh", text)
        options = (f"-N{NODES}", f"-n{NODES}", f"--chdir={HOME}", f"--output={HOME}/job-%j.out")
        return self.as_user("sbatch", "--parsable", *options, f"{HOME}/job.sh")

    def accepted(self, *of: str) -> int:
        done = self.submit(*of)
        if done.returncode != 0:
            raise AssertionError(f"the job is not accepted: {done.stderr}")
        return int(done.stdout)

    def nothing_is_left(self) -> None:
        def remains() -> dict[str, str]:
            found = {}
            for host in self.hosts:
                processes = host.pids("tidefs") + host.pids("server")
                kept = host.sh(f"ls -d /var/tmp/tidefs-{USER}/* /tmp/tidefs-* 2> /dev/null; grep fuse[.] /proc/mounts; true")
                if processes or kept:
                    found[host.name] = f"{processes or ''}{kept}"
            return found

        until(f"nothing is left: {remains()}", lambda: not remains(), GONE_SECONDS)


def stages(trial: Trial) -> None:
    # With -u, since the line that is put in asks for a variable that is not there yet.
    job = trial.accepted(STAGES, USES, "#!/bin/bash -u")
    ended, said = trial.slurm.ended(job), trial.slurm.output(job)
    if ended != "FAILED 3:0":
        raise AssertionError(f"the job is {ended}: {said}")
    for host in trial.hosts:
        if trial.head.sh(f"cat {HOME}/results/{host.name}.txt") != f"for {host.name}\n":
            raise AssertionError(f"what {host.name} wrote was not staged out: {said}")
    if "BurstBufferState=running" not in said or "BurstBuffer=#TIDEFS size=100MB" not in said:
        raise AssertionError(f"Slurm does not show what the job has: {said}")
    trial.nothing_is_left()


def is_counted(trial: Trial) -> None:
    """Where the job says the pool as well."""
    job = trial.accepted("#TIDEFS pool=tidefs capacity=100MB", "scontrol show burst; df -B1 --output=size $TIDEFS_MOUNT", "#!/bin/bash -e")
    ended, said = trial.slurm.ended(job), trial.slurm.output(job)
    if ended != "COMPLETED 0:0" or "Pool=tidefs Size=100MB State=allocated" not in said:
        raise AssertionError(f"the job is {ended}: {said}")
    trial.nothing_is_left()


def is_refused(trial: Trial) -> None:
    for directive, words in (
        ("#TIDEFS size=lots", "#TIDEFS size=lots: give a size such as 64GB"),
        ("#TIDEFS size=0GB", "#TIDEFS size=0GB: give a size"),
        ("#TIDEFS size=9999999TB", "#TIDEFS size=9999999TB: that is more than there is"),
        ("#TIDEFS size=1GB colour=red", "#TIDEFS colour: there is no such key"),
        ("#TIDEFS size=1GB policy", "#TIDEFS policy: it has no value"),
        ("#TIDEFS size=1GB size=2GB", "#TIDEFS size: it is there twice"),
        ("#TIDEFS policy=static", "#TIDEFS size: it is missing"),
        ("#TIDEFS size=1GB stage_in=/data", "#TIDEFS stage_in=/data: give SOURCE:DESTINATION"),
        ("#TIDEFS size=1GB stage_out=a:$(id)", "#TIDEFS stage_out=a:$(id): leave quotes, backslashes and $ out"),
        ("#TIDEFS size=1GB policy=a;b", "#TIDEFS policy=a;b: give letters"),
    ):
        done = trial.submit(directive, "true")
        if done.returncode != 1 or words not in done.stderr:
            raise AssertionError(f"{directive} is answered by {done}")
    done = trial.submit("#TIDEFS size=1GB", "print(1)", "#!/usr/bin/env python3")
    if done.returncode != 1 or "the script begins with no shell" not in done.stderr:
        raise AssertionError(f"a script of Python is answered by {done}")


def is_told(trial: Trial) -> None:
    """What is not there to be staged in."""
    job = trial.accepted(f"#TIDEFS size=100MB stage_in={HOME}/none:none", f"touch {HOME}/ran")
    ended, said = trial.slurm.ended(job), trial.slurm.output(job)
    if not ended.startswith("FAILED") or f"{HOME}/none" not in said or trial.head.run("test", "-e", f"{HOME}/ran").returncode == 0:
        raise AssertionError(f"the job is {ended}: {said}")
    trial.nothing_is_left()


def is_cancelled(trial: Trial) -> None:
    job = trial.accepted("#TIDEFS size=100MB", f"touch {HOME}/begun; while :; do sleep 0.1; done")
    until("it has begun", lambda: trial.head.run("test", "-e", f"{HOME}/begun").returncode == 0)
    trial.as_user("scancel", str(job))
    if not (ended := trial.slurm.ended(job)).startswith("CANCELLED"):
        raise AssertionError(f"a job that was cancelled is {ended}")
    for host in trial.hosts:
        # What was killed left its place, which the next command finds.
        trial.as_user("tidefs", "list", host=host)
    trial.nothing_is_left()


def asks_for_none(trial: Trial) -> None:
    job = trial.accepted("# TIDEFS is not asked for", 'test -z "$TIDEFS_MOUNT"')
    if (ended := trial.slurm.ended(job)) != "COMPLETED 0:0":
        raise AssertionError(f"a job without a directive is {ended}: {trial.slurm.output(job)}")


def check(options: argparse.Namespace) -> None:
    with fixture.network(options.tidefs) as sea:
        trial = Trial(sea)
        with fixture.shown_on_failure([trial.head], f"tail -n 30 /run/slurm/*.log {HOME}/*.out"):
            for part in (is_refused, stages, is_told):
                part(trial)
            for part in (asks_for_none, is_counted, is_cancelled) if options.long else ():
                part(trial)


if __name__ == "__main__":
    long = "jobs that Slurm counts, that ask for none and are cancelled as well"
    fixture.main(__doc__, check, "jobs had a file system by a line in their script,", fixture.long(long))
