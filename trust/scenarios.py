"""Scenarios on hosts that share nothing but a network: which are run, and what the hosts said where one fails."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from islands import Island, Sea
from joined import PLACE

Scenario = Callable[[Sea, list[Island]], None]


def check(tidefs: Path, scenario: Scenario, hosts_of: Callable[[Sea, Scenario], list[Island]]) -> None:
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    with Sea(tidefs, Path(version["server"]["path"])) as sea:
        hosts = hosts_of(sea, scenario)
        try:
            scenario(sea, hosts)
        except BaseException:
            tell(sea, hosts)
            raise


def tell(sea: Sea, hosts: list[Island]) -> None:
    for host in hosts:
        with contextlib.suppress(Exception):
            print(host.name, host.sh(f"cat {PLACE}/up/log"), file=sys.stderr)
    for log in sorted(sea.scratch.glob("join-*.log")):
        print(f"{log.name}:\n{log.read_text()}", file=sys.stderr)


def main(
    name: str, what: str, scenarios: list[Scenario], hosts_of: Callable[[Sea, Scenario], list[Island]]
) -> None:
    """`hosts_of`: those that a scenario has."""
    names = {scenario.__name__: scenario for scenario in scenarios}
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--tidefs", type=Path, required=True)
    parser.add_argument("--only", choices=names, action="append", help="and no other")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit(f"{name}: hosts with roots and networks of their own need root")
    begun = time.monotonic()
    for chosen in options.only or names:
        check(options.tidefs, names[chosen], hosts_of)
    print(f"{name}: in {time.monotonic() - begun:.0f} s")
