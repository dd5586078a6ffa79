#!/usr/bin/python3
"""Seeded random lives of running file systems: their mounts, their state, and strangers beside them.

  * `remounting`: mounts are taken away and made again in every way, under covers and copies, while
    programs write.  None of their bytes lands on the disk beneath, no mount vanishes by an older one's
    doing, and `status` lists those that are there.
  * `state`: commands of other shells, hosts, containers and users meet a state directory that is moved,
    full, or of somebody who was killed.  Whatever lives stays whole, and whatever died is told.
  * `prying`: another user reads all that he can and says what he likes wherever somebody listens, while
    nodes come, go and are lent.  He sees no secret, changes nothing and stops nothing.

Each has name spaces of its own (mounts, processes, network), so it meets nothing of this machine, and
leaves nothing there however it ends.  One seed gives one sequence of steps; instants differ.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.  Needs root;
`TIDEFS_TEST_WITHOUT=root` leaves it out.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import hanging  # noqa: E402
import prying  # noqa: E402
import remounting  # noqa: E402
import state  # noqa: E402
from mounted import TIDEFS, is_left_out  # noqa: E402
from play import BASE, BASE_BYTES, OURS, Broken, Play, table  # noqa: E402
from strangers import server  # noqa: E402

PLAYS = {play.__name__: play for play in (remounting, state, prying)}
# A name space of processes ends with its first one; a shell as that collects orphans.
ALONE = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--mount-proc", "--kill-child"]
FIRST = ["sh", "-c", '"$@"; exit $?', "sh"]


def settle(scratch: Path, tidefs: Path) -> Path:
    """Makes the place ours, of which nobody outside sees anything; answers with the program."""
    for point, layers in reversed(table().items()):
        # Else they could not end while this name space is there.
        for _ in [kind for kind, _ in layers if kind == OURS]:
            subprocess.run(["umount", "--lazy", point], check=False)
    run = lambda *words: subprocess.run([str(word) for word in words], check=True)
    run("ip", "link", "set", "lo", "up")
    run("mount", "-t", "tmpfs", "-o", f"size={BASE_BYTES},mode=1777", "tmpfs", "/var/tmp")
    # Where another user can start it, too.
    program = scratch / "tidefs"
    program.touch()
    run("mount", "--bind", tidefs, program)
    for name in ("TIDEFS_STATE", "TIDEFS_MOUNT", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        os.environ.pop(name, None)
    (scratch / "home").mkdir()
    os.environ |= {"HOME": str(scratch / "home"), "TIDEFS_CONFIG": "", "TMPDIR": str(scratch)}
    return program


def inside(options: argparse.Namespace) -> int:
    """The rounds of one play, in its name spaces."""
    (name,), scratch = options.play, options.inside
    tidefs = settle(scratch, options.tidefs)
    begun, number, done = time.monotonic(), options.first, 0
    while number < options.first + options.rounds and (
        done == 0 or time.monotonic() - begun < options.seconds
    ):
        place = scratch / f"{number}"
        place.mkdir()
        play = Play(name, f"{options.seed}/{number}", tidefs, place)
        try:
            PLAYS[name].play(play)
        except (
            Broken,
            AssertionError,
            ArithmeticError,
            LookupError,
            OSError,
            subprocess.SubprocessError,
            ValueError,
        ) as error:
            print(f"BROKEN: {name}: {type(error).__name__}: {error}")
            print("\n".join(play.steps))
            for log in [*BASE.glob("*/log"), *BASE.glob("logs-of-the-dead/*")]:
                print(f"{log}:\n{log.read_text(errors='replace')[-2_000:]}")
            words = f"--play {name} --seed {options.seed} --first {number} --rounds 1"
            print(f"again: sudo trust/instances/__main__.py {words}", flush=True)
            return 1
        if options.verbose:
            print(f"round {number}", *play.steps, sep="\n", flush=True)
        done += len(play.steps)
        number += 1
    rounds, took = number - options.first, time.monotonic() - begun
    print(
        f"{name}: {rounds} rounds, {done} steps, all held, seed {options.seed}, {took:.0f} s",
        flush=True,
    )
    return 0


def begin(name: str, options: argparse.Namespace, scratch: Path) -> subprocess.Popen:
    folder = scratch / name
    folder.mkdir()
    words = [*ALONE, *FIRST, "/usr/bin/python3", HERE, "--inside", folder, "--play", name]
    for option in ("tidefs", "seed", "rounds", "seconds", "first"):
        words += [f"--{option}", getattr(options, option)]
    words += ["--verbose"] if options.verbose else []
    said = (scratch / f"{name}.log").open("w")
    environment = {**os.environ, "TIDEFS_SERVER": str(server())}
    return subprocess.Popen([str(it) for it in words], stdout=said, stderr=said, env=environment)


def watch(options: argparse.Namespace) -> int:
    """All plays side by side, each of which ends."""
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="ti", dir="/tmp") as folder,
        contextlib.ExitStack() as stack,
    ):
        scratch = Path(folder)
        scratch.chmod(0o755)
        end = time.monotonic() + options.within
        running = {}
        for name in options.play:
            running[name] = begin(name, options, scratch)
            stack.callback(running[name].wait)
            stack.callback(running[name].kill)
        for name, process in running.items():
            try:
                status = process.wait(timeout=max(0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                hanging.tell(scratch / name, process.pid)
                process.kill()
                status = f"no end within {options.within:.0f} s"
            print((scratch / f"{name}.log").read_text(), end="", flush=True)
            if status != 0:
                failed += 1
                print(
                    f"FAILED: {name} (seed {options.seed}): {status}", file=sys.stderr, flush=True
                )
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="instances", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--play", choices=PLAYS, action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=None, help="default: another each time")
    parser.add_argument("--rounds", type=int, default=1_000_000, help="at most")
    parser.add_argument("--seconds", type=float, default=20, help="no new round after that long")
    parser.add_argument(
        "--within", type=float, help="all is over by then; default: --seconds and 300"
    )
    parser.add_argument("--first", type=int, default=0, help="the round to begin with")
    parser.add_argument("--verbose", action="store_true", help="say each step")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if is_left_out("root") or is_left_out("fuse") or is_left_out("server"):
        return 0
    if os.geteuid() != 0:
        parser.error("needs root: make its own name spaces; TIDEFS_TEST_WITHOUT=root leaves it out")
    if not options.tidefs.is_file() or options.rounds < 1:
        parser.error(f"there is no program {options.tidefs}, or nothing to do; run make build")
    options.tidefs = options.tidefs.resolve()
    if options.inside:
        return inside(options)
    options.play = options.play or list(PLAYS)
    options.within = options.within or options.seconds + 300
    if options.seed is None:
        options.seed = random.randrange(1 << 32)
    return watch(options)


if __name__ == "__main__":
    sys.exit(main())
