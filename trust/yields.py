#!/usr/bin/python3
"""A tenant that wants all of its memory at once, again and again, while some of it is lent.

A control group is the tenant's machine.  In it a lender lends memory, the file system fills it, and a
program allocates all of the group's memory but a reserve, evenly over a second (--over).  Each time
the lent node must have left, or hold no more than its budget, within the deadline; the kernel must kill
nothing; no byte may be lost; and when the program has ended the memory must be lent again.

A try that fails is counted, and the next one begins with everything new.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lenders import Lender, TooLate, at_rest, until, victims
from mounted import TIDEFS, Mounted, is_left_out

MIB = 1 << 20
# After so many it is not worth while to go on.
FAILURES_MAX = 10
# Takes its memory evenly over some time, keeps it for a moment, and says how long it took.
TENANT = """
import mmap, sys, time
size, over = int(sys.argv[1]) << 20, float(sys.argv[2])
memory, part, begun = mmap.mmap(-1, size), size // 100 // 4096 * 4096, time.monotonic()
piece = b"x" * part
for number in range(100):
    memory[number * part:(number + 1) * part] = piece
    time.sleep(max(0, begun + over * (number + 1) / 100 - time.monotonic()))
print(time.monotonic() - begun, flush=True)
time.sleep(0.5)
"""


@contextmanager
def machine(mib: int):
    """A control group with so much memory, of version 1 or 2."""
    name, root = f"tidefs-yields-{os.getpid()}", Path("/sys/fs/cgroup")
    first = (root / "memory" / "memory.limit_in_bytes").exists()
    group = (root / "memory" if first else root) / name
    group.mkdir()
    try:
        limit = "memory.limit_in_bytes" if first else "memory.max"
        (group / limit).write_text(str(mib * MIB))
        yield group
    finally:
        end = time.monotonic() + 10
        while group.exists():
            try:
                for below in group.glob("tidefs-lend-*"):
                    below.rmdir()
                group.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


@contextmanager
def told_with_both(mounted: Mounted, lender: Lender):
    """What fails on the mount is told with what manager and lender say of it."""
    try:
        yield
    except OSError as error:
        decision = mounted.status()["last_decision"]
        raise TooLate(f"{error}; the manager: {decision}; the lender: {lender.said()}") from error


def content(number: int) -> bytes:
    return random.Random(number).randbytes(MIB)


class Bed:
    def __init__(self, options: argparse.Namespace, mounted: Mounted, group: Path, lender: Lender):
        self.options, self.mounted, self.group, self.lender = options, mounted, group, lender

    def holds_much(self) -> bool:
        lent = victims(self.mounted.status())
        enough = self.options.files * MIB // 2
        return at_rest(self.mounted, 1) and all(it["memory_used_bytes"] > enough for it in lent)

    def kills(self) -> int:
        """How often the kernel killed something of the machine for want of memory."""
        found = 0
        for group in [self.group, *self.group.glob("tidefs-lend-*")]:
            for name in ("memory.oom_control", "memory.events"):
                if (group / name).exists():
                    lines = (group / name).read_text().splitlines()
                    found += sum(int(it.split()[1]) for it in lines if it.startswith("oom_kill "))
        return found

    def once(self) -> tuple[float, float]:
        """Seconds until the memory was given back, and until the tenant had its own."""
        before, kills = len(self.lender.said()), self.kills()
        run = [sys.executable, "-c", TENANT, str(self.options.tenant), str(self.options.over)]
        place = lambda: (self.group / "cgroup.procs").write_text(str(os.getpid()))
        tenant = subprocess.Popen(run, stdout=subprocess.PIPE, text=True, preexec_fn=place)
        try:
            return self.watched(tenant, before, kills)
        finally:
            tenant.kill()
            tenant.wait()

    def watched(self, tenant: subprocess.Popen, before: int, kills: int) -> tuple[float, float]:
        needed = given = None
        end = time.monotonic() + self.options.over + self.options.deadline + 30
        while tenant.poll() is None or needed and not given:
            said = self.lender.said()[before:]
            if "it held is lost" in said or self.lender.process.poll() is not None:
                raise TooLate(f"the node was ended with what it held: {said}")
            if needed is None and ("needs its memory" in said or "may hold" in said):
                needed = time.monotonic()
            if needed and given is None and "the memory is given back" in said:
                given = time.monotonic()
            if time.monotonic() > end:
                raise TooLate(f"nothing is given back: {said}")
            time.sleep(0.002)
        took = tenant.stdout.read()
        if tenant.returncode or self.kills() != kills:
            raise TooLate(f"the tenant ended with {tenant.returncode}, {self.kills() - kills} kills")
        if needed is None:
            raise TooLate("the tenant had all its memory and nobody noticed")
        return given - needed, float(took)

    def right(self) -> bool:
        mount = self.mounted.mounts[0]
        files = range(self.options.files)
        with told_with_both(self.mounted, self.lender):
            return all((mount / str(it)).read_bytes() == content(it) for it in files)


def tries(options: argparse.Namespace, done: list[tuple[float, float]], most: int) -> None:
    """Adds to what was done, until there are so many more or one fails."""
    with ExitStack() as stack:
        bed = made(options, stack)
        for number in range(most):
            until("the memory is lent again", bed.holds_much)
            took = bed.once()
            if not bed.right():
                raise TooLate(f"a byte is wrong after try {number + 1}")
            if bed.mounted.status()["lost_nodes"]:
                raise TooLate(f"a node died in try {number + 1}")
            done.append(took)
        until("the memory is lent again", bed.holds_much)
        bed.lender.give_back()


def made(options: argparse.Namespace, stack: ExitStack) -> Bed:
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ty", dir="/tmp")))
    up = ["--nodes", "1", "--node-memory", f"{options.files * 2 + 64}MiB"]
    up += ["--listen", "127.0.0.1:0", "--own-share", "0.1"]
    mounted = stack.enter_context(Mounted(options.tidefs.resolve(), scratch, *up))
    group = stack.enter_context(machine(options.machine))
    idle = max(0.2, options.over / 5)
    words = ("--keep-free", "64MiB", "--idle", f"{idle}s", "--deadline", f"{options.deadline}s")
    lent = f"{options.files * 8 // 7 + 96}MiB"
    lender = stack.enter_context(Lender(mounted, lent, *words, into=group))
    until("the node is in use", lambda: at_rest(mounted, 1))
    with told_with_both(mounted, lender):
        for number in range(options.files):
            (mounted.mounts[0] / str(number)).write_bytes(content(number))
    return Bed(options, mounted, group, lender)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, default=TIDEFS, help="the program to test")
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--files", type=int, default=160, help="of 1 MiB; nine tenths are lent room")
    parser.add_argument("--machine", type=int, default=1024, help="MiB of the tenant's machine")
    parser.add_argument("--tenant", type=int, default=960, help="MiB that the tenant takes")
    parser.add_argument("--over", type=float, default=1.0, help="seconds in which it takes them")
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds")
    options = parser.parse_args()
    if any(is_left_out(what) for what in ("cgroup", "server", "fuse")):
        return 0
    done, failed = [], []
    while len(done) + len(failed) < options.tries and len(failed) < FAILURES_MAX:
        begun = len(done)
        try:
            tries(options, done, options.tries - len(done) - len(failed))
        except TooLate as error:
            failed.append(str(error))
            print(f"FAILED after {len(done) - begun} tries: {error}", file=sys.stderr, flush=True)
    return told(options, done, failed)


def told(options: argparse.Namespace, done: list[tuple[float, float]], failed: list[str]) -> int:
    given = sorted(seconds for seconds, _ in done)
    within = sum(seconds <= options.deadline for seconds in given)
    print(
        f"{within} of {len(done) + len(failed)} tries of {options.tenant} of {options.machine} MiB in "
        f"{options.over:g} s within {options.deadline:g} s: about {options.files * 9 // 10} MiB"
    )
    if given:
        print(
            f"given back in {given[0]:.2f}, {given[len(given) // 2]:.2f}, {given[-1]:.2f} s (least, "
            f"median, most); the tenant had its own in {max(took for _, took in done):.2f} s at most"
        )
    print(f"{len(failed)} failed; in the others nothing was killed and no byte lost")
    return 0 if within == options.tries and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
