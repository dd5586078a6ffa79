#!/usr/bin/python3
"""The manager is killed at every step of growing and shrinking, on real servers.

A file system runs all the while; its nodes and its mount belong to another process than the
manager, and a program writes, reads back and removes files without a pause.  Before each
reconfiguration the manager is told how many steps it has to live; it ends itself as `kill -9`
would, is started again by the file system, and its successor must bring what was asked for to its
end.  Then every partition must have one owner and every byte must be right.  The walk goes on, a
step more each time, until a manager lives to the end.  It is made three times: growing and shrinking
by hand, and growing because a writer waits on a full node.

Of moves that are made together the first step of each kind counts, or every one with `--each`.

For each kill it is told how long it took from the restart until nothing was under way any more, the
wanted nodes were there and every partition had one owner.  With `--within` that is judged.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import owners

# How long any command of the file system may take.
COMMAND_SECONDS_MAX = 120
# How long until all know of a change that is over.
SETTLED_SECONDS_MAX = 30
# No reconfiguration has nearly as many steps.
STEPS_MAX = 2_000
MIB = 1 << 20
DYING = "dies before the step: "
# The owner of the nodes starts the manager again in the moment in which it says so.
RESTARTED = "it is started again"


class System:
    """A file system that is kept up, and the files in it."""

    def __init__(self, tidefs: Path, server: str | None, folder: Path):
        self.tidefs, self.folder = tidefs, folder
        self.mount, self.state = folder / "tide", folder / "state"
        self.fuse = folder / "steps"
        self.environment = {
            **os.environ,
            "TIDEFS_STATE": str(self.state),
            "TIDEFS_MANAGER_DIES": str(self.fuse),
            **({"TIDEFS_SERVER": server} if server else {}),
        }
        self.sums: dict[str, str] = {}

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [self.tidefs, *words],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )
        if done.returncode != 0:
            raise AssertionError(f"tidefs {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def up(self) -> None:
        options = ["--nodes", "1..4", "--node-memory", "64MiB", "--policy", "nso"]
        self.run("up", *options, "--mount", str(self.mount))

    def fill(self, seed: int) -> None:
        source = random.Random(seed)
        for number, size in enumerate([100, 70_000, 3 * MIB, 9 * MIB, 14 * MIB] + [5_000] * 40):
            data = source.randbytes(size)
            (self.mount / f"file-{number}").write_bytes(data)
            self.sums[f"file-{number}"] = hashlib.sha256(data).hexdigest()

    def verify(self) -> None:
        """Every byte is right, and a file can be made and removed."""
        found = sorted(path.name for path in self.mount.iterdir())
        assert found == sorted(self.sums), f"other files than before: {found}"
        for name, known in self.sums.items():
            data = (self.mount / name).read_bytes()
            assert hashlib.sha256(data).hexdigest() == known, f"{name} is not what it was"
        (self.mount / "new").write_bytes(b"x" * 100_000)
        (self.mount / "new").unlink()

    def overfill(self) -> None:
        """More than one node holds: whoever writes it waits until there is another."""
        data = random.Random(0).randbytes(40 * MIB)
        words = ["dd", f"of={self.mount / 'more'}", "bs=1M", "conv=fsync", "status=none"]
        subprocess.run(words, input=data, check=True, timeout=COMMAND_SECONDS_MAX)
        nodes = len(json.loads(self.run("status", "--json"))["nodes"])
        assert nodes > 1, "what one node cannot hold is there, and one node"
        assert (self.mount / "more").read_bytes() == data, "what waited for room is not right"
        (self.mount / "more").unlink()

    def deaths(self) -> list[str]:
        """The steps before which managers have died so far."""
        lines = (self.state / "up" / "log").read_text().splitlines()
        return [line.split(DYING)[1] for line in lines if DYING in line]

    def restarted_at(self) -> float | None:
        """When the manager was started again last, in seconds since 1970."""
        lines = (self.state / "up" / "log").read_text().splitlines()
        last = next((line for line in reversed(lines) if RESTARTED in line), None)
        if last is None:
            return None
        return datetime.datetime.fromisoformat(last.split()[0]).timestamp()


def what_is_walked(options) -> str:
    step = "each step" if options.stride == 1 else f"one step in {options.stride}"
    step += " and of each move" if options.each else ""
    judged = f"all well within {options.within:.0f} s of the restart" if options.within else "times told"
    rest = "" if options.stride == 1 else "; --stride 1 (make kills) walks all"
    server = options.server or "the usual server"
    what = "growing to 3 nodes, shrinking to 1 and growing for a writer"
    return f"kills before {step} of {what} on {server}, {judged}{rest}"


@contextlib.contextmanager
def busy(folder: Path):
    """Files are written, read back and removed meanwhile; what goes wrong with them is told at the end."""
    over, wrong = threading.Event(), []

    def work() -> None:
        source, count = random.Random(7), 0
        try:
            while not over.is_set():
                data, path = source.randbytes(source.randrange(1, 300_000)), folder / f"busy-{count % 3}"
                path.write_bytes(data)
                assert path.read_bytes() == data, f"{path.name} is not what was written"
                path.unlink()
                count += 1
        except (AssertionError, OSError) as error:
            wrong.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(COMMAND_SECONDS_MAX)
    if thread.is_alive():
        raise AssertionError("a program that writes and reads has not come back")
    if wrong:
        raise AssertionError(f"a program that wrote meanwhile: {wrong[0]}")


def change(system: System, how: str) -> int | None:
    """One reconfiguration; how many nodes there must be then, if that is known."""
    if how == "by a writer":
        system.overfill()
        return None
    nodes = 3 if how == "growing" else 1
    system.run("scale", str(nodes))
    return nodes


def go_back(system: System, nodes: str) -> None:
    """To where a walk's next step begins; what was removed is freed in the background."""
    end = time.monotonic() + SETTLED_SECONDS_MAX
    while True:
        try:
            system.run("scale", nodes)
            return
        except AssertionError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.2)


def walk(system: System, stride: int, each: str) -> list[float]:
    """Kills before the first step, the next, and so on.  Answers with the seconds from each restart
    until all was well."""
    took: list[float] = []
    # They begin at different steps, so that a long stride meets different ones.
    for at, how in enumerate(("growing", "shrinking", "by a writer")):
        first = "3" if how == "shrinking" else "1"
        go_back(system, first)
        kills = len(took)
        for steps in range(at * stride // 3, STEPS_MAX, stride):
            before = len(system.deaths())
            system.fuse.write_text(f"{steps}{each}")
            with busy(system.mount):
                nodes = change(system, how)
                settle(system, nodes)
                steady_at = time.time()
                while (system.restarted_at() or 0.0) > steady_at:
                    settle(system, nodes)
                    steady_at = time.time()
            system.verify()
            died = system.deaths()[before:]
            said = "lived"
            if died:
                restarted_at = system.restarted_at()
                assert restarted_at is not None, f"nobody started it again: {died}"
                took.append(steady_at - restarted_at)
                said = f"{died}, well {took[-1]:.1f} s after its restart"
            print(f"  {how}, {steps} steps: {said}", flush=True)
            # A manager that lived may have steps left: the next one reads a large number.
            system.fuse.write_text("1000000")
            go_back(system, first)
            if not died:
                break
        else:
            raise AssertionError(f"no manager lives to the end of {how}")
        assert len(took) > kills, f"no manager was killed: {how}"
    return took


def settle(system: System, nodes: int | None) -> None:
    """Until nothing is under way and each partition has one owner, as all nodes and the mount say; and
    until all hold as many of them, where a number of nodes was asked for."""
    # While no manager answers, the status is the last one's; the mount hears of nodes a moment later.
    end = time.monotonic() + SETTLED_SECONDS_MAX
    while (wrong := unsettled(system, nodes)) is not None:
        assert time.monotonic() < end, wrong
        time.sleep(0.05)


def unsettled(system: System, nodes: int | None) -> str | None:
    """What is not as it will be in the end."""
    status = json.loads(system.run("status", "--json"))
    if status["reconfiguration"] is not None or status["recovery"] is not None:
        return f"something is under way: {status}"
    restarted_at = system.restarted_at()
    decided_at = (status["last_decision"] or {"when": 0})["when"]
    if restarted_at is not None and decided_at < int(restarted_at):
        return f"no manager has decided anything since the restart: {status}"
    if nodes not in (None, len(status["nodes"])):
        return f"{len(status['nodes'])} nodes instead of {nodes}: {status}"
    instance = system.state / "up"
    try:
        return owners.odd(instance) or (owners.uneven(instance) if nodes else None)
    except (AssertionError, OSError) as error:
        return str(error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, required=True, help="the program to test")
    parser.add_argument("--server", help="the server program that nodes run")
    parser.add_argument("--stride", type=int, default=1, help="kill at every n-th step only")
    parser.add_argument("--each", action="store_true", help="each step of each move counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, help="fail when a restart took longer, in seconds")
    options = parser.parse_args()
    if not options.tidefs.exists() or options.stride < 1:
        parser.error("no such program, or no such stride")
    print(what_is_walked(options), flush=True)
    with tempfile.TemporaryDirectory(prefix="tk", dir="/tmp") as folder:
        system = System(options.tidefs.resolve(), options.server, Path(folder))
        system.up()
        try:
            system.fill(options.seed)
            took = walk(system, options.stride, " each" if options.each else "")
            store = json.loads(system.run("status", "--json"))["store"]
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            print(f"FAILED: {error}", file=sys.stderr)
            print((system.state / "up" / "log").read_text()[-4000:], file=sys.stderr)
            return 1
        finally:
            subprocess.run(
                [system.tidefs, "down"],
                env=system.environment,
                capture_output=True,
                timeout=COMMAND_SECONDS_MAX,
                check=False,
            )
    slowest, middle = max(took), sorted(took)[len(took) // 2]
    print(
        f"{store}: {len(took)} managers killed, all bytes right; from the restart until all was well "
        f"{slowest:.1f} s at most, {middle:.1f} s usually"
    )
    if options.within and slowest > options.within:
        print(f"FAILED: a restart took more than {options.within:.0f} s", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
