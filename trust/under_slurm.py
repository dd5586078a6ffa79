#!/usr/bin/python3
"""One command in a job of a real Slurm, on hosts that share nothing but the network.

`tidefs run --slurm` has each node of the job join with a node and a mount, within the memory of the job, and leaves
nothing on any of them: at the command's end, when the job is told that its time is over, and when it is cancelled.  A
script that does more than to become the run passes the warning on, or its run outlives the job.
With --long also where a job's time ends, with a warning before and without one.
Where there is no job, or one with too little memory, that is said.
"""

import argparse
import json
import os
import re
import signal
import time
from pathlib import Path

import fixture
from islands import Island, until
from joined import left
from slurm_cluster import Slurm

MOUNT = "/mnt/tide"
NODES = 3
JOB_MEMORY_MIB = 600
GONE_SECONDS = 15
JOB_SECONDS_MAX = 240
RUN = f"exec tidefs run --slurm --mount {MOUNT}"
OF_ALL = ("-N", str(NODES), "-n", str(NODES), f"--mem={JOB_MEMORY_MIB}")
# On the nodes by srun, and by exec; what is there in the end is told.
SHARES = f"""{RUN} -- sh -ec '
srun --overlap sh -c "hostname > {MOUNT}/\\$(hostname)"
tidefs exec --all -- sh -c "ls {MOUNT} | wc -l"
tidefs status --json
exit 5'
"""
# What ends it is what Slurm's warning is made of, and not that signal.
WAITS = f"""trap : USR1; mkdir -p {MOUNT}/kept && echo result > {MOUNT}/kept/file && touch {MOUNT}/begun && while :; do sleep 0.1; done"""

# Of a job that has a minute, Slurm's least. What is copied from the other host takes longer than it has.
WARNED_SECONDS, STAGED_SECONDS = 20, 8
LARGE_FILES, LARGE_BYTES = 20, 8 << 20
SLOW = "tc qdisc add dev eth0 root tbf rate 16mbit burst 32kb latency 100ms"


def nothing_is_left(hosts: list[Island]) -> None:
    def remains() -> dict[str, str]:
        return {host.name: kept for host in hosts if (kept := left(host))}

    until(f"nothing is left: {remains()}", lambda: not remains(), GONE_SECONDS)


def shares(slurm: Slurm) -> None:
    began = time.monotonic()
    job = slurm.submit(SHARES, *OF_ALL)
    ended, said = slurm.ended(job), slurm.output(job)
    if ended != "FAILED 5:0":
        raise AssertionError(f"the job is {ended}: {said}")
    for host in slurm.hosts[1:]:
        if f"{host.name}: {NODES}" not in said.splitlines():
            raise AssertionError(f"{host.name} does not see what all have written: {said}")
    seen, _ = json.JSONDecoder().raw_decode(said[said.index("{\n") :])
    capacities = [node["memory_capacity_bytes"] >> 20 for node in seen["nodes"]]
    # Half of what the job has, without the head-room.
    if capacities != [JOB_MEMORY_MIB // 2 - 8] * NODES or len(seen["hosts"]) != NODES - 1:
        raise AssertionError(f"in the job there is {seen}")
    nothing_is_left(slurm.hosts)
    print(f"under_slurm: a job of {NODES} nodes came and went in {time.monotonic() - began:.1f} s")


def begins(slurm: Slurm, *options: str) -> int:
    job = slurm.submit(f"{RUN} {' '.join(options)} -- sh -c '{WAITS}'", *OF_ALL)
    until("it has begun", lambda: slurm.head.run("test", "-e", f"{MOUNT}/begun").returncode == 0)
    return job


def is_warned(slurm: Slurm) -> None:
    """As with `--signal=B:USR1@120`: the command ends, and what was to be kept is copied."""
    job = begins(slurm, "--stage-out kept:/home/user/out", "--stage-out-deadline 60")
    slurm.call("scancel", "--batch", "--signal=USR1", str(job))
    ended = slurm.ended(job, 30)
    if "FAILED" not in ended or slurm.head.sh("cat /home/user/out/file") != "result\n":
        raise AssertionError(f"a job that was warned is {ended}: {slurm.output(job)}")
    nothing_is_left(slurm.hosts)


def is_passed_on(slurm: Slurm) -> None:
    """A script that has more to do than to become the run: it hears the warning, and has the run hear it."""
    run = RUN.removeprefix("exec ") + " --stage-out kept:/home/user/passed-on"
    passes_on = "trap 'kill -USR1 $run; wait $run' USR1\nwait $run\necho ended > /home/user/more"
    job = slurm.submit(f"{run} -- sh -c '{WAITS}' & run=$!\n{passes_on}", *OF_ALL)
    until("it has begun", lambda: slurm.head.run("test", "-e", f"{MOUNT}/begun").returncode == 0)
    slurm.call("scancel", "--batch", "--signal=USR1", str(job))
    ended = slurm.ended(job, 30)
    if slurm.head.sh("cat /home/user/passed-on/file /home/user/more") != "result\nended\n":
        raise AssertionError(f"a script that passes the warning on is {ended}: {slurm.output(job)}")
    nothing_is_left(slurm.hosts)


def outlives_its_job(slurm: Slurm) -> None:
    """What docs/ADMINISTRATORS.md says of a script without `exec`, where Slurm finds processes by their parents."""
    job = slurm.submit(f"{RUN.removeprefix('exec ')} -- sh -c '{WAITS}'\n:", *OF_ALL)
    until("it has begun", lambda: slurm.head.run("test", "-e", f"{MOUNT}/begun").returncode == 0)
    slurm.call("scancel", "--batch", "--signal=USR1", str(job))
    if (ended := slurm.ended(job, 30)) != "FAILED 0:10":
        raise AssertionError(f"a script that was warned is {ended}: {slurm.output(job)}")
    nothing_is_left(slurm.hosts[1:])
    runs = [pid for pid in slurm.head.pids("tidefs") if b"\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    if len(runs) != 1:
        raise AssertionError(f"the run of a job that has ended is {runs}: the pages say that it goes on")
    os.kill(runs[0], signal.SIGTERM)
    nothing_is_left(slurm.hosts)


def is_cancelled(slurm: Slurm) -> None:
    job = begins(slurm)
    slurm.call("scancel", str(job))
    if not (ended := slurm.ended(job)).startswith("CANCELLED"):
        raise AssertionError(f"a job that was cancelled is {ended}")
    for host in slurm.hosts:
        # What was killed left its place, which the next command finds.
        host.call("tidefs", "list")
    nothing_is_left(slurm.hosts)


def is_refused(slurm: Slurm) -> None:
    refused = slurm.head.run("tidefs", "run", "--slurm", "--", "true")
    if refused.returncode != 2 or "this is no job of Slurm" not in refused.stderr:
        raise AssertionError(f"without a job: {refused}")
    for options, memory, words in (("", 60, "half is for the file system"), ("--node-memory 1GiB", 600, "1 GiB are asked for")):
        job = slurm.submit(f"{RUN} {options} -- touch /home/user/ran", "-N", "2", f"--mem={memory}")
        ended, said = slurm.ended(job), slurm.output(job)
        if ended != "FAILED 2:0" or words not in said:
            raise AssertionError(f"a job of {memory} MiB is {ended}: {said}")
    nothing_is_left(slurm.hosts)


def meets_its_time(slurm: Slurm) -> None:
    """Slurm's warning comes before the end of a job: what fits into the rest is copied, what does not is named. Meanwhile
    another job has only the moment between the end of its time and its being killed."""
    first, second, third = slurm.hosts
    second.sh(SLOW)
    writes = f"mkdir {MOUNT}/large; for n in $(seq {LARGE_FILES}); do head -c {LARGE_BYTES} /dev/zero > {MOUNT}/large/$n; done"
    options = f"--stage-out kept:/home/user/met --stage-out large:/home/user/large --stage-out-deadline {STAGED_SECONDS}"
    warned = (f"--signal=B:USR1@{WARNED_SECONDS}", "-N2", "-n2", f"--nodelist={first.name},{second.name}")
    met = slurm.submit(f"{RUN} {options} -- sh -c '{writes}; {WAITS}'", "--time=1", "--mem=600", *warned)
    script = f"{RUN} --stage-out kept:/home/user/late -- sh -c '{WAITS}'"
    late = slurm.submit(script, "--time=1", "--mem=600", f"--nodelist={third.name}")
    ended, said = slurm.ended(met, JOB_SECONDS_MAX), slurm.output(met)
    if not ended.startswith("FAILED") or first.sh("cat /home/user/met/file") != "result\n":
        raise AssertionError(f"a job that was warned before the end of its time is {ended}: {said}")
    whole = first.sh(f"find /home/user/large -type f -size {LARGE_BYTES}c -printf '%f\\n'").split()
    named = re.findall(rf"before {MOUNT}/large/(\d+) was copied", said)
    if not named or sorted(whole + named, key=int) != [str(n + 1) for n in range(LARGE_FILES)]:
        raise AssertionError(f"of {LARGE_FILES} files {whole} are there and {named} are named: {said}")
    nothing_is_left(slurm.hosts[:2])
    if not (ended := slurm.ended(late, JOB_SECONDS_MAX)).startswith("TIMEOUT"):
        raise AssertionError(f"a job without a warning is {ended}: {slurm.output(late)}")
    if third.sh("cat /home/user/late/file") != "result\n":
        raise AssertionError(f"a job without a warning copied nothing: {slurm.output(late)}")
    # What was killed left its place, which the next command finds.
    third.call("tidefs", "list")
    nothing_is_left([third])
    print(f"under_slurm: of {LARGE_FILES} files {len(whole)} were copied before the end of a job's time, the others were named")


def check(options: argparse.Namespace) -> None:
    with fixture.network(options.tidefs) as sea:
        hosts = [sea.island(number) for number in range(1, NODES + 1)]
        with fixture.shown_on_failure(hosts, "tail -n 30 /run/slurm/*.log /home/user/*.out"):
            slurm = Slurm(sea, hosts)
            parts = [is_refused, shares, is_warned, is_passed_on, outlives_its_job, is_cancelled]
            for part in (*parts, *([meets_its_time] if options.long else [])):
                part(slurm)


if __name__ == "__main__":
    fixture.main(__doc__, check, "jobs had a file system on all their nodes, and left nothing,", fixture.long("jobs whose time ends as well"))
