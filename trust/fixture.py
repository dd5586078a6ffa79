"""What scripts that try something on islands have in common: their options, the network between the hosts, and what is
shown of all hosts where something fails."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from islands import Island, Sea

LOG_CHARACTERS_MAX = 3000


@contextlib.contextmanager
def network(tidefs: Path) -> Iterator[Sea]:
    """Between hosts that have this binary and its server; their logs are shown where something fails."""
    version = json.loads(subprocess.run([tidefs, "--version", "--json"], capture_output=True, check=True).stdout)
    with Sea(tidefs, Path(version["server"]["path"])) as sea:
        try:
            yield sea
        except BaseException:
            # Before the hosts go, which may fail as well.
            traceback.print_exc()
            for log in sorted(sea.scratch.glob("*.log")):
                print(f"{log.name}:\n{log.read_text()[-LOG_CHARACTERS_MAX:]}", file=sys.stderr)
            raise


@contextlib.contextmanager
def shown_on_failure(hosts: list[Island], script: str) -> Iterator[None]:
    """What a script says on each of them, where something fails."""
    try:
        yield
    except BaseException:
        for host in hosts:
            print(f"{host.name}:\n{host.run('sh', '-c', script).stdout}", file=sys.stderr)
        raise


def long(what: str) -> tuple[str, dict]:
    """An option that has more tried."""
    return "--long", {"action": "store_true", "help": what}


def main(text: str, check: Callable[[argparse.Namespace], None], outcome: str, *options: tuple[str, dict]) -> None:
    """Of a script that has a description, does something and says what came of it; `options` besides --tidefs."""
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--tidefs", type=Path, required=True)
    for word, settings in options:
        parser.add_argument(word, **settings)
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit(f"{name}: hosts with roots and networks of their own need root")
    begun = time.monotonic()
    check(given)
    print(f"{name}: {outcome} in {time.monotonic() - begun:.0f} s")
