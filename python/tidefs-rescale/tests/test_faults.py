"""Services that fail, hang, say what is not so, and lose servers. Buckets stay, and what happened is told."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace
from typing import Optional

import pytest
from shelves import QUICK, Shelves, coming

from tidefs_rescale import Bucket, Change, Inventory, Outcome, Refused, rescale


def mentions(lines: list[str], *words: str) -> bool:
    return any(all(word in line for word in words) for line in lines)


def test_what_a_method_raises_is_a_failure_with_its_words() -> None:
    class Stuck(Shelves):
        def move(self, bucket: str, from_server: str, to_server: str) -> None:
            if bucket == "bucket-3":
                raise OSError("the lid is stuck")
            super().move(bucket, from_server, to_server)

    service = Stuck(1, 8)
    outcome = rescale(service, Change(coming("new").start, stop=["server-0"]), QUICK)
    assert not outcome.complete and outcome.halted is None
    assert mentions(outcome.faults, 'bucket "bucket-3"', "failed: OSError: the lid is stuck")
    assert mentions(outcome.left, 'bucket "bucket-3" is on "server-0"', "OSError: the lid is stuck")
    assert mentions(outcome.left, 'server "server-0" was not stopped')
    assert service.numbers() == {"server-0": 1, "new": 7}
    assert outcome.exceptions and all(isinstance(it, OSError) for it in outcome.exceptions)


def test_a_failure_that_passes_is_mended() -> None:
    class Once(Shelves):
        failed = False

        def move(self, bucket: str, from_server: str, to_server: str) -> None:
            if not self.failed:
                self.failed = True
                raise TimeoutError
            super().move(bucket, from_server, to_server)

    outcome = rescale(Once(1, 8), coming("new"), QUICK)
    assert outcome.complete and outcome.left == []
    assert mentions(outcome.faults, "failed: TimeoutError")


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_ends_programs_elsewhere_is_a_failure_too(raised: BaseException) -> None:
    class Ending(Shelves):
        def start(self, server: str) -> None:
            raise raised

    outcome = rescale(Ending(1, 4), coming("new"), QUICK)
    assert mentions(outcome.left, 'server "new" was not started', type(raised).__name__)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_a_text_is_told_all_the_same() -> None:
    class Odd(Shelves):
        def start(self, server: str) -> None:
            raise Unprintable

    outcome = rescale(Odd(1, 4), coming("new"), QUICK)
    assert mentions(outcome.faults, "Unprintable: its text cannot be had")


def test_who_says_that_it_moved_a_bucket_and_did_not_is_not_believed() -> None:
    class Lying(Shelves):
        def move(self, bucket: str, from_server: str, to_server: str) -> None:
            if bucket != "bucket-0":
                super().move(bucket, from_server, to_server)

    service = Lying(1, 8)
    outcome = rescale(service, Change(coming("new").start, stop=["server-0"]), QUICK)
    assert not outcome.complete
    assert mentions(outcome.faults, 'bucket "bucket-0"', 'by the inventory the bucket is still on "server-0"')
    assert service.numbers() == {"server-0": 1, "new": 7} and outcome.stopped == []
    assert outcome.after.buckets_moved == 7


def test_who_says_that_it_stopped_a_server_and_did_not_is_not_believed() -> None:
    class Lying(Shelves):
        def stop(self, server: str) -> None:
            pass

    outcome = rescale(Lying(2, 8), Change(stop=["server-0"]), QUICK)
    assert mentions(outcome.left, 'server "server-0" was not stopped', "the inventory still has it")
    assert outcome.stopped == []


def test_a_bucket_that_a_move_leaves_nowhere_ends_everything() -> None:
    class Dropping(Shelves):
        def move(self, bucket: str, from_server: str, to_server: str) -> None:
            with self.lock:
                if bucket == "bucket-0":
                    del self.shelves[from_server][bucket]

    service = Dropping(1, 100)
    outcome = rescale(service, Change(coming("new").start, stop=["server-0"]), QUICK)
    assert outcome.halted is not None and "is on no server now" in outcome.halted
    assert outcome.stopped == [] and service.numbers()["server-0"] == 99


class Gate(Shelves):
    """Waits in a method until it is let go."""

    def __init__(self, servers: int, buckets: int) -> None:
        super().__init__(servers, buckets)
        self.gate = threading.Event()
        self.left = threading.Semaphore(0)

    def wait(self) -> None:
        self.gate.wait()
        self.left.release()


def test_a_move_that_hangs_is_not_waited_for() -> None:
    class Hanging(Gate):
        def move(self, bucket: str, from_server: str, to_server: str) -> None:
            if bucket == "bucket-0":
                self.wait()
            super().move(bucket, from_server, to_server)

    service = Hanging(1, 8)
    settings = replace(QUICK, move_within=0.05)
    outcome = rescale(service, Change(coming("new").start, stop=["server-0"]), settings)
    assert outcome.calls_running >= 1
    assert mentions(outcome.faults, 'bucket "bucket-0"', "had not returned after 0.05 s")
    assert mentions(outcome.left, 'bucket "bucket-0"', "its move hangs")
    assert service.numbers()["server-0"] >= 1 and outcome.stopped == []
    # Its thread returns into what nobody but the package holds.
    gc.collect()
    service.gate.set()
    assert service.left.acquire(timeout=30)
    assert rescale(service, coming("newer"), QUICK).complete


def test_an_inventory_that_hangs_is_refused() -> None:
    class Hanging(Gate):
        def inventory(self) -> Inventory:
            self.wait()
            return super().inventory()

    service = Hanging(1, 8)
    with pytest.raises(Refused, match="the first inventory could not be had"):
        rescale(service, coming("new"), replace(QUICK, inventory_within=0.05, attempts=2))
    # What was refused is used by those that hang, too.
    gc.collect()
    service.gate.set()
    assert all(service.left.acquire(timeout=30) for _ in range(2))


@pytest.mark.parametrize("found", [None, [], Inventory(buckets=[Bucket("a", "nowhere", 1)])])
def test_an_inventory_that_is_none_is_refused(found: object) -> None:
    class Wrong(Shelves):
        def inventory(self) -> Inventory:
            return found  # type: ignore[return-value]

    with pytest.raises(Refused, match="an Inventory is wanted|not among the servers"):
        rescale(Wrong(1, 8), coming("new"), QUICK)


def test_a_bucket_that_cannot_be_listed_spoils_the_inventory() -> None:
    """Without it, its server would look empty and be stopped."""

    class Nameless(Shelves):
        def inventory(self) -> Inventory:
            found = super().inventory()
            found.buckets[0] = replace(found.buckets[0], name="bucket-\0")
            return found

    service = Nameless(2, 2)
    with pytest.raises(Refused, match="zero character"):
        rescale(service, Change(stop=["server-0"]), QUICK)
    assert service.numbers() == {"server-0": 1, "server-1": 1}


class Losing(Shelves):
    """A server vanishes, with what is on it, when the first bucket is to be moved to it."""

    def __init__(self, servers: int, buckets: int, victim: str) -> None:
        super().__init__(servers, buckets)
        self.victim = victim
        self.lost: Optional[dict[str, int]] = None

    def move(self, bucket: str, from_server: str, to_server: str) -> None:
        with self.lock:
            if to_server == self.victim and self.lost is None:
                self.lost = self.shelves.pop(to_server)
        super().move(bucket, from_server, to_server)


def lose(victim: str) -> tuple[Losing, Outcome]:
    service = Losing(2, 40, victim)
    change = Change(coming("new-1", "new-2").start, stop=["server-0"])
    return service, rescale(service, change, replace(QUICK, calls_at_once=1))


def test_a_server_that_vanishes_during_the_plan_is_planned_around() -> None:
    service, outcome = lose("new-1")
    assert service.lost == {}
    assert mentions(outcome.faults, 'server "new-1" is not in the inventory any more')
    assert mentions(outcome.left, 'server "new-1" vanished with 0 buckets')
    assert outcome.stopped == ["server-0"] and outcome.halted is None
    assert sorted(service.numbers()) == ["new-2", "server-1"] and sum(service.numbers().values()) == 40


def test_what_vanishes_with_its_server_is_told_and_the_rest_is_finished() -> None:
    service, outcome = lose("server-1")
    assert service.lost is not None and len(service.lost) == 20
    assert mentions(outcome.left, 'server "server-1" vanished with 20 buckets')
    assert not outcome.complete and outcome.halted is None
    # No bucket had been moved to it, so none can be where it came from after all.
    assert outcome.stopped == ["server-0"]
    assert sorted(service.numbers()) == ["new-1", "new-2"] and sum(service.numbers().values()) == 20
