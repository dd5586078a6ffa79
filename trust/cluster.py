#!/usr/bin/python3
"""A Montage mosaic on four hosts that share nothing but the network, as one command over SSH, compared with the disk.

Each host has a root, processes, a network and an `sshd` of its own.  The workflow runs on the first, and each of its
programs on one of the four, by `tidefs exec`, in the mount that is at the same path on all.  Meanwhile the file system
grows by the nodes of other hosts and shrinks again, one change after the other.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.append(str(PROJECT / "workflows"))

from islands import Island, Sea
from over_ssh import GONE_SECONDS, until
from joined import left
from run import make_input
from scenario import SCENARIOS, compare_mosaics
from sshd import Shells, put

HOSTS = 4
LIST = "/home/user/hosts"
MOUNT = "/mnt/tide"
PROGRAMS = (
    *("mAdd", "mBackground", "mBgModel", "mConcatFit", "mDiff", "mFitplane"),
    *("mImgtbl", "mMakeHdr", "mOverlaps", "mProjectPP", "mShrink", "mViewer"),
)
# On the host that the number of the process falls on.
ELSEWHERE = """#!/bin/sh
case $(($$ % {hosts})) in
0) exec /usr/bin/{program} "$@" ;;
*) exec tidefs exec --host host$(($$ % {hosts} + 1)) -- /usr/bin/{program} "$@" ;;
esac
"""
# Of nodes, one after the other, for as long as the workflow runs; two hold all of it.
COUNTS = (4, 2, 3, 2)
BETWEEN_SECONDS = 1.0
CHANGES_MIN = 2
WORKFLOW_SECONDS_MAX = 600


def carried(host: Island, folder: Path, name: str) -> None:
    """A copy of a folder of this machine on a host."""
    packed = subprocess.run(["tar", "-C", folder, "-cf", "-", "."], capture_output=True, check=True)
    unpack = host.words("sh", "-c", f"mkdir -p /home/user/{name} && tar -C /home/user/{name} -xf -")
    subprocess.run(unpack, input=packed.stdout, check=True, timeout=120)


def fetched(host: Island, name: str, folder: Path) -> None:
    packed = subprocess.run(host.words("tar", "-C", f"/home/user/{name}", "-cf", "-", "."), capture_output=True, check=True)
    subprocess.run(["tar", "-C", folder, "-xf", "-"], input=packed.stdout, check=True)


def hosts_of(sea: Sea) -> list[Island]:
    hosts = [sea.island(number) for number in range(1, HOSTS + 1)]
    shells = Shells(hosts[0])
    for host in hosts[1:]:
        shells.serve(host, sea.scratch / f"sshd-{host.name}.log")
    put(hosts[0], LIST, "".join(f"{host.name}\n" for host in hosts))
    for program in PROGRAMS:
        put(hosts[0], f"/home/user/{program}", ELSEWHERE.format(program=program, hosts=HOSTS))
        hosts[0].call("chmod", "+x", f"/home/user/{program}")
    return hosts


def on_the_hosts(sea: Sea, memory: str, results: Path) -> dict:
    """Runs the workflow; what the report says of it."""
    head, *others = hosts_of(sea)
    scenario = SCENARIOS["montage", "small"]
    carried(head, PROJECT / "workflows", "workflows")
    carried(head, make_input(scenario), "input")
    options = ["--hosts", LIST, "--nodes", f"2..{HOSTS}", "--policy", "static", "--node-memory", memory, "--mount", MOUNT]
    program = ["/home/user/workflows/montage/montage.py", "--delete-dead", "--input", "/home/user/input"]
    words = ["env", "PATH=/home/user:/opt:/usr/bin:/bin", "tidefs", "run", *options, "--report", "/home/user/report", "--"]
    words += ["/usr/bin/python3", *program, "--output", "/home/user/results", "--jobs", str(HOSTS)]
    log = sea.scratch / "run.log"
    running = head.start(log, *words)
    changes = threading.Thread(target=changes_nodes, args=(head, running), daemon=True)
    changes.start()
    on_each = set()
    end = time.monotonic() + WORKFLOW_SECONDS_MAX
    while running.poll() is None and time.monotonic() < end:
        on_each |= {host.name for host in others if any(host.pids(program) for program in PROGRAMS)}
        time.sleep(0.05)
    print(log.read_text(), flush=True)
    if running.wait(timeout=1) != 0:
        raise AssertionError(f"the workflow ended with {running.returncode}")
    if on_each != {host.name for host in others}:
        raise AssertionError(f"programs were seen on {sorted(on_each)} alone")
    until("nothing is left", lambda: not any(left(host) for host in [head, *others]), GONE_SECONDS)
    fetched(head, "results", results)
    return json.loads(head.sh("cat /home/user/report/report.json"))


def changes_nodes(head: Island, running: subprocess.Popen) -> None:
    """Some are refused while the file system starts or ends; the report says which came to something."""
    for count in itertools.cycle(COUNTS):
        if running.poll() is not None:
            return
        head.run("tidefs", "scale", count)
        time.sleep(BETWEEN_SECONDS)


def changed(report: dict) -> tuple[int, int]:
    """How often the file system grew and shrank."""
    done = [it for it in report["reconfigurations"] if it["outcome"] == "completed"]
    for each in done:
        print(f"cluster: {each['kind']} from {each['nodes_before']} to {each['nodes_after']} nodes after "
              f"{each['started_at']:.1f} s, {each['bytes_moved']} bytes moved in {each['seconds']:.1f} s")
    kinds = [it["kind"] for it in done]
    return kinds.count("commission"), kinds.count("decommission")


def check(tidefs: Path, memory: str) -> None:
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    with tempfile.TemporaryDirectory(prefix="tc") as scratch, Sea(tidefs, Path(version["server"]["path"])) as sea:
        on_hosts, on_disk = Path(scratch, "hosts"), Path(scratch, "disk")
        on_hosts.mkdir()
        report = on_the_hosts(sea, memory, on_hosts)
        program = [PROJECT / "workflows/montage/montage.py", "--input", make_input(SCENARIOS["montage", "small"])]
        subprocess.run(["/usr/bin/python3", *program, "--output", on_disk, "--work", Path(scratch, "work")], check=True)
        print(compare_mosaics(on_hosts, on_disk).splitlines()[0])
        grown, shrunk = changed(report)
        if min(grown, shrunk) < CHANGES_MIN:
            raise AssertionError(f"the file system grew {grown} times and shrank {shrunk} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidefs", type=Path, required=True)
    parser.add_argument("--node-memory", default="96MiB")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("cluster: hosts with roots and networks of their own need root")
    begun = time.monotonic()
    check(options.tidefs, options.node_memory)
    print(f"cluster: one mosaic on {HOSTS} hosts, as on the disk, in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
