"""How a file system comes to its end: stopped, killed at any moment, or with its machine."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from alive import UP, nobody_serves
from play import END_SECONDS_MAX, holds, is_over, living, told, until

if TYPE_CHECKING:
    from state import State


def down(state: "State") -> None:
    state.play.note("down")
    done = state.tidefs("down")
    holds("cleaned up" not in done.stderr, f"down had to clean up: {told(done)}")
    nobody_serves()


def down_twice(state: "State") -> None:
    state.play.note("down in two shells")
    done = state.at_once([("down",), ("down",)])
    holds(
        any(it.returncode == 0 for it in done),
        f"neither stopped it: {[told(it) for it in done]}",
    )
    nobody_serves()


def killed(state: "State") -> None:
    is_full = state.draw.random() < 0.3
    state.play.note(f"kill -9 of the daemon{', while the disk is full' if is_full else ''}")
    mark = f"last words {state.draw.randrange(1 << 30)}"
    with (UP / "log").open("a") as log:
        log.write(f"{mark}\n")
    pid = json.loads((UP / "record.json").read_text())["owner"]["pid"]
    with state.filled() if is_full else contextlib.nullcontext():
        # In the middle of something, now and then.
        busy = state.start("mount", state.play.scratch / "a") if state.draw.random() < 0.5 else None
        state.play.pause(0.3)
        words = [state.draw.choice((("status",), ("list",), ("down",))) for _ in range(3)]
        state.play.note(f"then at once: {words}")
        os.kill(pid, signal.SIGKILL)
        # They may come before it is dead.
        said = [it.stderr for it in state.at_once(words)]
        said += [busy.communicate(timeout=60)[1]] if busy else []
        until("a killed process", lambda: pid not in living(), END_SECONDS_MAX)
        said.append(state.tidefs("status", check=False).stderr)
    told_by = [
        it for it in said if f"the process {pid} of a `tidefs up`" in it and "was killed" in it
    ]
    holds(len(told_by) == 1, f"{len(told_by)} commands tell of the death: {said}")
    holds("its log is kept in /" in told_by[0], f"it tells of no log: {told_by[0]}")
    kept = Path(told_by[0].partition("its log is kept in ")[2].splitlines()[0])
    holds(mark in kept.read_text(), f"{kept} is not its log")


def killed_in_the_middle(state: "State") -> None:
    """The daemon of an `up` that is under way."""
    down(state)
    is_over()
    state.play.note("kill -9 of a daemon that begins")
    nodes = state.draw.choice(((), ("--nodes", "2")))
    words = ("up", "--mount", state.mount, *nodes, "--node-memory", "64MiB")
    started = state.start(*words)
    until("a daemon", lambda: daemons() or started.poll() is not None, 30)
    state.play.pause(1.5)
    ended = daemons()
    for pid in ended:
        os.kill(pid, signal.SIGKILL)
    state.at_once([("status",), ("list",)])
    started.communicate(timeout=90)
    until("killed processes", lambda: not {*ended} & {*living()}, END_SECONDS_MAX)
    state.tidefs("status", check=False)


def restarted(state: "State") -> None:
    """As if the machine had: nothing lives, and the kernel's id is another one."""
    state.play.note("all are killed, and the record is of an earlier start of the machine")
    for pid in living():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until("killed processes", lambda: not living(), END_SECONDS_MAX)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    text = (UP / "record.json").read_text()
    holds(boot in text, "the record has no id of the machine's start")
    (UP / "record.json").write_text(text.replace(boot, "an-earlier-one"))
    done = state.tidefs("status", check=False)
    holds("ended with the machine" in done.stderr, f"the next command says {told(done)}")


def daemons() -> list[int]:
    return [pid for pid, words in living().items() if words.endswith("tidefs daemon")]


ENDS = (down, down_twice, killed, killed_in_the_middle, restarted)
