#!/usr/bin/python3
"""Several hosts on one machine: network name spaces that a bridge joins.

Each host has an address of its own, a bandwidth in each direction (tbf), a memory cgroup, a storage
node and a mount.  What is said for a host holds for its link: `up` is what it sends, `down` what it
receives.  The machine itself stands on the bridge too, unshaped: there the manager runs.

    testbed.py up --nodes 8 --rate 100mbit --tidefs target/release/tidefs
    testbed.py exec h3 -- sh -c 'echo hello > /tmp/tt-bed/h3/greeting'
    testbed.py shape h3 10mbit
    testbed.py status
    testbed.py down

This kernel has no netem, so latency and loss come from a relay in user space (`relay.py`): frames
wait in it, or are left out.  TCP does with that what it does on any such link: it sends again, and
slows down.  Needs root.  `down` removes whatever is there by name, also what a killed `up` left.
"""

import argparse
import os
import re
import sys
from pathlib import Path

from bed import Bed, beds, sweep
from hosts import Failure


def size(text: str) -> int:
    found = re.fullmatch(r"(\d+)(KiB|MiB|GiB)", text)
    if not found:
        raise argparse.ArgumentTypeError("give a size, such as 512MiB")
    return int(found[1]) << {"KiB": 10, "MiB": 20, "GiB": 30}[found[2]]


def milliseconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?ms", text):
        raise argparse.ArgumentTypeError("give milliseconds, such as 2ms")
    return float(text.removesuffix("ms"))


def part(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError("give a part of all frames, such as 0.01")
    return value


def show(bed: Bed) -> None:
    print(f"{bed.name}: {bed.network}, folder {bed.folder}, hosts listed in {bed.hosts_file}")
    for host in bed.hosts():
        (up, down), (used, limit) = host.rates(), host.memory.read()
        memory = f"{used >> 20} of {limit >> 20} MiB"
        print(f"  {host.name:4} {host.address:15} up {up:10} down {down:10} {memory}  {host.mount}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", default="bed", help="several may be there")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make one")
    up.add_argument("--nodes", type=int, default=4, help="hosts")
    up.add_argument("--rate", default="100mbit", help="of each host, or one for each, with commas")
    up.add_argument("--memory", type=size, default=size("512MiB"), help="of each host's cgroup")
    up.add_argument("--node-memory", default="256MiB", help="that each node offers")
    up.add_argument("--latency", type=milliseconds, default=0.0, help="of each link, such as 2ms")
    up.add_argument("--loss", type=part, default=0.0, help="part of the frames that get lost")
    up.add_argument("--tidefs", type=Path, help="without it there are hosts and nothing on them")
    up.add_argument("options", nargs="*", help="more options of `tidefs up`, after --")
    down = commands.add_parser("down", help="remove it, and what is left of it")
    down.add_argument("--all", action="store_true", help="all test beds")
    commands.add_parser("status", help="show hosts, rates and memory")
    execute = commands.add_parser("exec", help="become a program on a host")
    execute.add_argument("host")
    execute.add_argument("words", nargs="+", metavar="COMMAND")
    shape = commands.add_parser("shape", help="change the bandwidth of a host")
    shape.add_argument("host")
    shape.add_argument("rate", help="10mbit, or 10mbit/20mbit for what it sends/receives, or none")
    return parser.parse_args()


def make(bed: Bed, options: argparse.Namespace) -> None:
    rates = options.rate.split(",")
    rates = rates * options.nodes if len(rates) == 1 else rates
    if len(rates) != options.nodes:
        raise Failure(f"{len(rates)} rates are given for {options.nodes} hosts")
    bed.up(rates, options.memory, options.latency, options.loss)
    if options.tidefs:
        try:
            bed.start(
                options.tidefs.resolve(), "--node-memory", options.node_memory, *options.options
            )
        except BaseException:
            bed.down(options.tidefs)
            raise
    show(bed)


def main() -> None:
    options = parsed()
    if os.geteuid() != 0:
        raise Failure("a test bed needs root: network name spaces, tc and cgroups")
    bed = Bed(options.name)
    sweep()
    match options.command:
        case "up":
            make(bed, options)
        case "down":
            for one in beds() if options.all else [bed]:
                one.down()
        case "status":
            for one in [bed] if bed.folder.exists() else beds():
                show(one)
        case "shape":
            bed.host(options.host).shape(options.rate)
        case "exec":
            host = bed.host(options.host)
            os.execvpe(host.enter, [str(host.enter), *options.words], bed.environment())


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"testbed: {failure}", file=sys.stderr)
        sys.exit(1)
