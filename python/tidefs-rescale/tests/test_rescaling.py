"""Rescalings of a service that does what it says, and how they are asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from shelves import QUICK, Shelves, coming

from tidefs_rescale import Change, LibraryMissing, Refused, Server, Settings, rescale

HERE = Path(__file__).parent


def test_servers_come_and_go_and_all_buckets_stay() -> None:
    service = Shelves(2, 400)
    outcome = rescale(service, coming("new-1", "new-2"), QUICK)
    assert outcome.complete and sorted(outcome.started) == ["new-1", "new-2"]
    assert max(service.numbers().values()) / 100 == outcome.after.data_balance < 1.05
    assert outcome.after.bytes_moved == 1_000 * outcome.after.buckets_moved

    outcome = rescale(service, Change(stop=["server-0", "new-1"]), QUICK)
    assert outcome.complete and sorted(outcome.stopped) == ["new-1", "server-0"]
    assert sorted(service.numbers()) == ["new-2", "server-1"]
    assert max(service.numbers().values()) / 200 == outcome.after.data_balance < 1.05
    assert (outcome.faults, outcome.left, outcome.exceptions) == ([], [], [])
    assert len({name for held in service.shelves.values() for name in held}) == 400
    assert threading.get_ident() not in service.threads


def test_progress_is_told_until_the_end() -> None:
    service = Shelves(1, 20)
    outcome = rescale(service, coming("new"), QUICK)
    last = service.told[-1]
    assert (last.moved, last.to_move, last.started, last.faults) == (10, 0, 1, 0)
    assert last.bytes_moved == outcome.after.bytes_moved


def test_a_service_need_not_listen_to_progress() -> None:
    class Deaf(Shelves):
        progress = None  # type: ignore[assignment]

    assert rescale(Deaf(1, 4), coming("new"), QUICK).complete


def test_no_more_is_called_at_a_time_than_may_be() -> None:
    class Counting(Shelves):
        busy = most = 0

        def move(self, bucket: str, from_server: str, to_server: str) -> None:
            with self.lock:
                self.busy += 1
                self.most = max(self.most, self.busy)
            super().move(bucket, from_server, to_server)
            with self.lock:
                self.busy -= 1

    service = Counting(1, 100)
    settings = replace(QUICK, moves_per_server=8, calls_at_once=1)
    assert rescale(service, coming("new"), settings).complete
    assert service.most == 1


def test_time_is_what_the_clock_says() -> None:
    class Clock:
        now = 1_000.0

        def __call__(self) -> float:
            self.now += 0.5
            return self.now

    clock = Clock()
    outcome = rescale(Shelves(1, 4), coming("new"), QUICK, clock)
    assert outcome.complete and 0 < outcome.seconds == pytest.approx(clock.now - 1_000.0, abs=3.0)


def test_a_clock_that_fails_ends_it() -> None:
    def clock() -> float:
        raise OSError("the clock stands")

    with pytest.raises(OSError, match="the clock stands"):
        rescale(Shelves(1, 4), coming("new"), QUICK, clock)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Settings(strategy="fast"), "fast"),
        (Settings(attempts=0), "attempts must be a whole number, 1 or more"),
        (Settings(calls_at_once=-1), "calls_at_once must be a whole number"),
        (Settings(move_within=-1.0), "move_within must be a time in seconds"),
        (Settings(move_within=float("nan")), "move_within must be a time in seconds"),
        (Settings(stop_within=float("inf")), "stop_within"),
    ],
)
def test_settings_that_are_none_are_named(settings: Settings, says: str) -> None:
    service = Shelves(1, 4)
    with pytest.raises(ValueError, match=says):
        rescale(service, coming("new"), settings)
    assert service.numbers() == {"server-0": 4}


def test_what_cannot_be_done_is_refused_and_nothing_was() -> None:
    service = Shelves(2, 8)
    with pytest.raises(Refused, match="no server would be left"):
        rescale(service, Change(stop=["server-0", "server-1"]), QUICK)
    assert service.numbers() == {"server-0": 4, "server-1": 4}


def test_who_interrupts_is_heard_and_nothing_more_is_begun() -> None:
    class Interrupted(Shelves):
        moves = 0

        def move(self, bucket: str, from_server: str, to_server: str) -> None:
            with self.lock:
                self.moves += 1
                first = self.moves == 1
            if first:
                os.kill(os.getpid(), signal.SIGINT)
            super().move(bucket, from_server, to_server)

    service = Interrupted(1, 2_000)
    with pytest.raises(KeyboardInterrupt):
        rescale(service, coming("new"), replace(QUICK, calls_at_once=1))
    assert sum(service.numbers().values()) == 2_000
    assert service.moves < 1_000


def test_a_method_that_hangs_keeps_no_process() -> None:
    """What hangs ends with the program, which ends as it should."""
    program = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from shelves import QUICK, Shelves, coming
from dataclasses import replace
from tidefs_rescale import rescale
class Hanging(Shelves):
    def move(self, *words):
        threading.Event().wait()
outcome = rescale(Hanging(1, 4), coming("new"), replace(QUICK, move_within=0.05))
print(outcome.calls_running, outcome.complete)
"""
    ran = subprocess.run([sys.executable, "-c", program, str(HERE)], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    running, complete = ran.stdout.split()
    assert int(running) > 0 and complete == "False"


def test_a_library_that_is_missing_is_named() -> None:
    program = "import tidefs_rescale as it; it.plan(it.Inventory())"
    environment = {**os.environ, "TIDEFS_RESCALE_LIBRARY": "/nowhere/libtidefs_rescale.so"}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60)
    assert ran.returncode == 1 and f"{LibraryMissing.__name__}: /nowhere/libtidefs_rescale.so cannot be loaded" in ran.stderr


def test_a_server_may_be_named_in_any_script() -> None:
    service = Shelves(1, 4)
    assert rescale(service, Change(start=[Server("сервер-κ")]), QUICK).started == ["сервер-κ"]


def test_the_example_of_the_readme_does_what_it_says() -> None:
    text = (HERE.parent / "README.md").read_text()
    block = [line for line in text.splitlines() if line.startswith("    ") or not line]
    program = "\n".join(line[4:] for line in block)
    assert "rescale(Shelves()" in program and "assert outcome.complete" in program
    exec(compile(program, "README.md", "exec"), {})
