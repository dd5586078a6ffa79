#!/usr/bin/python3
"""A Montage mosaic on hosts that share nothing but the network, as one command, compared with the disk.

Each host has a root, processes, a network and a home of its own.  The workflow runs on the first, over SSH or in a job of
a real Slurm, and each of its programs on one of the hosts, in the mount that is at the same path on all.  Meanwhile the
file system grows by the nodes of other hosts and shrinks again, one change after the other.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.append(str(PROJECT / "workflows"))

import fixture
from islands import Island, Sea, until
from joined import left
from over_ssh import GONE_SECONDS
from run import make_input
from scenario import Scenario, compare_mosaics, montage
from slurm_cluster import Slurm
from sshd import Shells, put

LIST = "/home/user/hosts"
MOUNT = "/mnt/tide"
PROGRAMS = (
    *("mAdd", "mBackground", "mBgModel", "mConcatFit", "mDiff", "mFitplane"),
    *("mImgtbl", "mMakeHdr", "mOverlaps", "mProjectPP", "mShrink", "mViewer"),
)
# On a host that is drawn; what ran somewhere is written there.
ANYWHERE = """#!/bin/sh
host=host$(($(od -An -N2 -tu2 /dev/urandom) % {hosts} + 1))
[ $host = host1 ] && there= || there="{reaches}"
exec $there sh -c 'touch /home/user/has-run && exec /usr/bin/{program} "$@"' {program} "$@"
"""
# The workflow ends when nodes have come and gone as often as is asked for; a loaded machine takes its time for that.
LAST_PROGRAM = "mViewer"
CHANGED = "/home/user/changed"
CHANGES_SECONDS_MAX = 120
WAITS = f"""#!/bin/sh
looks={CHANGES_SECONDS_MAX}
until [ -e {CHANGED} ] || [ $((looks -= 1)) -lt 0 ]; do sleep 1; done
"""
TILE_SIDE = 256
# One after the other, for as long as the workflow runs.
BETWEEN_SECONDS = 1.0
WORKFLOW_SECONDS_MAX = 600
PACE_SECONDS = 0.5


class OverSsh:
    """The command is given to a shell of the first host, and finds the others in a list."""

    OPTIONS = ("--hosts", LIST)
    REACHES = "tidefs exec --host $host --"

    def __init__(self, sea: Sea, hosts: list[Island]):
        self.head, self.log = hosts[0], sea.scratch / "run.log"
        shells = Shells(self.head)
        for host in hosts[1:]:
            shells.serve(host, sea.scratch / f"sshd-{host.name}.log")
        put(self.head, LIST, "".join(f"{host.name}\n" for host in hosts))

    def begin(self, script: str) -> None:
        self.running = self.head.start(self.log, "sh", "-c", script)

    def ended(self) -> str | None:
        status = self.running.poll()
        return None if status is None else f"exit status {status}"

    def said(self) -> str:
        return self.log.read_text()

    WELL = "exit status 0"


class InAJob:
    """The command is in the script of a job, which has all hosts."""

    OPTIONS = ("--slurm",)
    REACHES = "srun --overlap --quiet --input=none -N1 -n1 -w $host"
    WELL = "COMPLETED 0:0"

    def __init__(self, sea: Sea, hosts: list[Island]):
        self.slurm, self.count = Slurm(sea, hosts), len(hosts)

    def begin(self, script: str) -> None:
        of_all = ("-N", str(self.count), "-n", str(self.count), "--mem=1000")
        self.job = self.slurm.submit(script, *of_all)

    def ended(self) -> str | None:
        return self.slurm.state_at_end(self.job)

    def said(self) -> str:
        return self.slurm.output(self.job)


WAYS = {"ssh": OverSsh, "slurm": InAJob}


def carried(host: Island, folder: Path, name: str) -> None:
    """A copy of a folder of this machine on a host."""
    packed = subprocess.run(["tar", "-C", folder, "-cf", "-", "."], capture_output=True, check=True)
    unpack = host.words("sh", "-c", f"mkdir -p /home/user/{name} && tar -C /home/user/{name} -xf -")
    subprocess.run(unpack, input=packed.stdout, check=True, timeout=120)


def fetched(host: Island, name: str, folder: Path) -> None:
    packed = subprocess.run(host.words("tar", "-C", f"/home/user/{name}", "-cf", "-", "."), capture_output=True, check=True)
    subprocess.run(["tar", "-C", folder, "-xf", "-"], input=packed.stdout, check=True)


def script_of(way: OverSsh | InAJob, hosts: int, memory: str) -> str:
    options = [*way.OPTIONS, "--nodes", f"1..{hosts}", "--policy", "static", "--node-memory", memory, "--mount", MOUNT]
    program = ["/home/user/workflows/montage/montage.py", "--delete-dead", "--input", "/home/user/input"]
    words = ["exec", "env", "PATH=/home/user:/opt:/usr/bin:/bin", "tidefs", "run", *options, "--report", "/home/user/report"]
    words += ["--", "/usr/bin/python3", *program, "--output", "/home/user/results", "--jobs", str(hosts)]
    return " ".join(words)


def on_the_hosts(sea: Sea, options: argparse.Namespace, scenario: Scenario, results: Path) -> dict:
    """Runs the workflow; what the report says of it."""
    head, *others = hosts = [sea.island(number) for number in range(1, options.hosts + 1)]
    way = WAYS[options.over](sea, hosts)
    for program in PROGRAMS:
        script = ANYWHERE.format(program=program, reaches=way.REACHES, hosts=len(hosts))
        put(head, f"/home/user/{program}", WAITS + script if program == LAST_PROGRAM else script)
        head.call("chmod", "+x", f"/home/user/{program}")
    carried(head, PROJECT / "workflows", "workflows")
    carried(head, make_input(scenario), "input")
    way.begin(script_of(way, len(hosts), options.node_memory))
    over = threading.Event()
    changes = threading.Thread(target=changes_nodes, args=(head, len(hosts), options.changes, over), daemon=True)
    changes.start()
    end = time.monotonic() + WORKFLOW_SECONDS_MAX
    while not (ended := way.ended()) and time.monotonic() < end:
        time.sleep(PACE_SECONDS)
    over.set()
    print(way.said(), flush=True)
    if ended != way.WELL:
        raise AssertionError(f"the workflow is {ended or 'not over'}")
    changes.join()
    if idle := [host.name for host in hosts if host.run("test", "-e", "/home/user/has-run").returncode]:
        raise AssertionError(f"no program ran on {idle}")
    remains = lambda: {host.name: kept for host in hosts if (kept := left(host))}
    until("nothing is left", lambda: not remains(), GONE_SECONDS)
    fetched(head, "results", results)
    return json.loads(head.sh("cat /home/user/report/report.json"))


def changes_nodes(head: Island, most: int, wanted: int, over: threading.Event) -> None:
    """Some are refused while the file system starts or ends; the report says which came to something."""
    grown = shrunk = 0
    for count in itertools.cycle((most, most - 1, most, most - 2)):
        if over.wait(BETWEEN_SECONDS):
            return
        done = head.run("tidefs", "scale", "--json", count)
        if done.returncode == 0:
            change = json.loads(done.stdout)
            grown += change["nodes_after"] > change["nodes_before"]
            shrunk += change["nodes_after"] < change["nodes_before"]
        if min(grown, shrunk) >= wanted:
            head.run("touch", CHANGED)


def changed(report: dict) -> tuple[int, int]:
    """How often the file system grew and shrank."""
    done = [it for it in report["reconfigurations"] if it["outcome"] == "completed"]
    for each in done:
        print(f"cluster: {each['kind']} from {each['nodes_before']} to {each['nodes_after']} nodes after "
              f"{each['started_at']:.1f} s, {each['bytes_moved']} bytes moved in {each['seconds']:.1f} s")
    kinds = [it["kind"] for it in done]
    return kinds.count("commission"), kinds.count("decommission")


def check(options: argparse.Namespace) -> None:
    scenario = montage(options.tiles, TILE_SIDE, f"1..{options.hosts}", options.node_memory, disk_bytes=100_000_000)
    with tempfile.TemporaryDirectory(prefix="tc") as scratch, fixture.network(options.tidefs) as sea:
        on_hosts, on_disk = Path(scratch, "hosts"), Path(scratch, "disk")
        on_hosts.mkdir()
        report = on_the_hosts(sea, options, scenario, on_hosts)
        program = [PROJECT / "workflows/montage/montage.py", "--input", make_input(scenario)]
        subprocess.run(["/usr/bin/python3", *program, "--output", on_disk, "--work", Path(scratch, "work")], check=True)
        print(compare_mosaics(on_hosts, on_disk).splitlines()[0])
        grown, shrunk = changed(report)
        if min(grown, shrunk) < options.changes:
            raise AssertionError(f"the file system grew {grown} times and shrank {shrunk} times")


if __name__ == "__main__":
    fixture.main(
        __doc__,
        check,
        "one mosaic, as on the disk,",
        ("--over", {"choices": WAYS, "required": True, "help": "how the hosts are reached"}),
        ("--hosts", {"type": int, "default": 4}),
        ("--tiles", {"type": int, "default": 6, "help": "so many by so many"}),
        ("--changes", {"type": int, "default": 2, "help": "how often nodes come and go at least"}),
        ("--node-memory", {"default": "128MiB"}),
    )
