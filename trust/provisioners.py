#!/usr/bin/python3
"""The same scenarios over each way in which a file system comes by more nodes: this host, a list over SSH, a job of Slurm,
and a program of the user's.

Hosts have roots, processes and networks of their own.  On each kind a node comes when one is asked for and holds part of
what is written; it goes when it is not needed, and nothing is lost; one more comes, and whatever serves it dies, which
the file system outlives; the end leaves nothing anywhere.  What does not come is named.  How long starts took stands in
the run's report, which has it from what the policy goes by.  What each kind is, is in `provisioner_kinds.py`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from islands import Sea, until
from joined import MOUNT, left, puts_away, reads, write
from provisioner_kinds import KINDS, REPORT, Kind

GONE_SECONDS = 30
SETTLED_SECONDS = 90


def status(kind: Kind) -> dict:
    return json.loads(kind.owner.call("tidefs", "status", "--json"))


def scales(kind: Kind, nodes: int) -> None:
    """Has so many nodes: asked again while what was under way before goes on."""

    def are_there() -> bool:
        if kind.owner.run("tidefs", "scale", nodes).returncode != 0:
            return False
        return [node["state"] for node in status(kind)["nodes"]] == ["up"] * nodes

    until(f"{kind.name}: {nodes} nodes are up", are_there, SETTLED_SECONDS)


def comes(kind: Kind) -> dict[str, str]:
    """What is written lies on the node that came as well."""
    scales(kind, 2)
    sums = write(kind.owner, f"{time.monotonic_ns()}-")
    reads(kind.owner, sums)
    if any(node["memory_used_bytes"] < 8 << 20 for node in status(kind)["nodes"]):
        raise AssertionError(f"{kind.name}: not all nodes hold what was written: {status(kind)['nodes']}")
    kind.has_come()
    return sums


def goes(kind: Kind, sums: dict[str, str]) -> None:
    scales(kind, 1)
    until(f"{kind.name}: what came has gone", kind.has_gone, SETTLED_SECONDS)
    reads(kind.owner, sums)
    if lost := status(kind)["lost_nodes"]:
        raise AssertionError(f"{kind.name}: {lost} went, and was lost")


def dies(kind: Kind) -> None:
    kind.owner.sh(f"rm -f {MOUNT}/[0-9]*")
    end = time.monotonic() + SETTLED_SECONDS
    while scales(kind, 2) or not kind.is_elsewhere(status(kind)["nodes"]):
        if time.monotonic() > end:
            raise AssertionError(f"{kind.name}: no node comes to another host any more: {status(kind)['nodes']}")
        scales(kind, 1)
    kind.kill_what_came()
    until(f"{kind.name}: the dead node is given up", lambda: status(kind)["lost_nodes"], SETTLED_SECONDS)
    scales(kind, 1)
    reads(kind.owner, write(kind.owner, f"{time.monotonic_ns()}-"))


def ends(kind: Kind) -> None:
    kind.end()
    for host in kind.dead:
        puts_away(host)
    nothing_is_left(kind)
    report = json.loads(kind.owner.sh(f"cat {REPORT}/report.json"))
    grown = [it for it in report["reconfigurations"] if it["kind"] == "commission" and it["outcome"] == "completed"]
    starts = [phase["seconds"] for it in grown for phase in it["phases"] if phase["name"] == "starting nodes"]
    if len(starts) < 2 or not all(starts):
        raise AssertionError(f"{kind.name}: the report has no measured starts: {report['reconfigurations']}")
    told = ", ".join(f"{took:.1f} s" for took in starts)
    print(f"provisioners: {kind.name}: nodes came, went and died, and left nothing; starts took {told}", flush=True)


def nothing_is_left(kind: Kind) -> None:
    def remains() -> dict[str, str]:
        return {host.name: kept for host in kind.hosts if (kept := left(host))}

    end = time.monotonic() + GONE_SECONDS
    while (found := remains()) or (found := kind.keeps()):
        if time.monotonic() > end:
            raise AssertionError(f"{kind.name} leaves {found}")
        time.sleep(0.1)


def does_not_come(kind: Kind) -> None:
    said = kind.asks_in_vain()
    if kind.reason not in said:
        raise AssertionError(f"{kind.name}: what does not come is not named with {kind.reason!r}: {said}")
    nothing_is_left(kind)


def check(tidefs: Path, kinds: list[type[Kind]]) -> None:
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    for each in kinds:
        with Sea(tidefs, Path(version["server"]["path"])) as sea:
            try:
                kind = each(sea)
                kind.begin()
                goes(kind, comes(kind))
                dies(kind)
                ends(kind)
                does_not_come(kind)
            except BaseException:
                for log in sorted(sea.scratch.glob("*.log")):
                    if said := log.read_text():
                        print(f"{log.name}:\n{said[-3000:]}", file=sys.stderr)
                raise


def main() -> None:
    names = {kind.name: kind for kind in KINDS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", type=Path, required=True)
    parser.add_argument("--only", choices=names, action="append", help="and no other kind")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("provisioners: hosts with roots and networks of their own need root")
    begun = time.monotonic()
    chosen = options.only or list(names)
    check(options.tidefs, [names[name] for name in chosen])
    print(f"provisioners: the same over {', '.join(chosen)}, in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
