"""What goes into a plan or a rescaling and what comes out, as plain values.

What they may be is judged where they are handed to the library, not when they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional


class RescaleError(Exception):
    """What this package raises of its own; `ValueError` is raised for arguments that cannot be."""


class Refused(RescaleError):
    """It cannot be done, and nothing was; the text says why."""


class LibraryFailed(RescaleError):
    """The library failed inside. Callbacks may have been called."""


@dataclass(frozen=True)
class Server:
    """What holds buckets."""

    name: str
    #: Servers of a kind; "" where all are alike.
    class_name: str = ""
    #: How much it should hold beside the others; above 0.
    weight: float = 1.0
    #: Bytes a second that it can send, and receive at the same time; above 0.
    bandwidth: float = 1.25e9
    #: Bytes of buckets that it can hold; None is no limit.
    capacity_bytes: Optional[int] = None


@dataclass(frozen=True)
class Bucket:
    """What is placed and moved as one, and the server that it lies on."""

    name: str
    server: str
    bytes: int
    #: What it is asked for, in any unit that can be summed; 0 for all of them balances their numbers.
    load: float = 0.0
    #: The class of the servers that it may lie on; None where it may lie on any.
    class_name: Optional[str] = None


@dataclass
class Inventory:
    """All servers and all buckets at one moment. A bucket may be listed on two servers while it is moved."""

    servers: list[Server] = field(default_factory=list)
    buckets: list[Bucket] = field(default_factory=list)


@dataclass(frozen=True)
class Change:
    """The servers that come, and the names of those that go. With neither, what there is is balanced."""

    start: Sequence[Server] = ()
    stop: Sequence[str] = ()


@dataclass(frozen=True)
class Move:
    """One bucket to another server."""

    bucket: str
    from_server: str
    to_server: str
    bytes: int


@dataclass(frozen=True)
class Measures:
    """How even buckets lie, and what it took to get there."""

    #: Load of the server that has most, over its even share; 1 is even.
    load_balance: float
    #: The same of bytes.
    data_balance: float
    #: What the busiest link needs for its bytes, at its bandwidth.
    seconds: float
    bytes_moved: int
    buckets_moved: int


@dataclass(frozen=True)
class Least:
    """What no plan undercuts that ends with an even spread."""

    seconds: float
    bytes_moved: int


@dataclass(frozen=True)
class Plan:
    """Which bucket goes where; the moves are in no order that matters."""

    moves: list[Move]
    #: As it is: nothing is moved.
    before: Measures
    after: Measures
    least: Least


@dataclass(frozen=True)
class Progress:
    """How far a rescaling is."""

    #: Moves that the inventory has confirmed, and their bytes.
    moved: int
    bytes_moved: int
    #: Moves that are known to remain, those on their way counted.
    to_move: int
    moving: int
    started: int
    stopped: int
    #: Things that went wrong so far, mended or not.
    faults: int


@dataclass(frozen=True)
class Settings:
    """How a rescaling is carried out. None is what the library does by itself; times are in seconds."""

    #: What matters: "l", "lt", "dt", "ldt" (load, data, time), or three weights such as "1,0.5,2".
    strategy: Optional[str] = None
    #: Moves that a server sends at a time, and those that it receives.
    moves_per_server: Optional[int] = None
    #: Callbacks that are called at a time, those that hang counted.
    calls_at_once: Optional[int] = None
    #: How often a move, an inventory or a stop is tried, or something must be missing to be believed gone.
    attempts: Optional[int] = None
    #: From the start of an inventory to the start of the next, at least.
    between_inventories: Optional[float] = None
    #: How long a callback may take before it counts as one that hangs.
    inventory_within: Optional[float] = None
    start_within: Optional[float] = None
    move_within: Optional[float] = None
    stop_within: Optional[float] = None


@dataclass(frozen=True)
class Outcome:
    """What a rescaling came to."""

    #: Is everything as it was asked for?
    complete: bool
    started: list[str]
    stopped: list[str]
    #: Servers that were started, to which nothing could be moved, and that were stopped again.
    rolled_back: list[str]
    #: What went wrong, mended or not: sentences.
    faults: list[str]
    #: What is not as it was asked for: sentences.
    left: list[str]
    #: Why it ended before its end; None where it did not.
    halted: Optional[str]
    before: Measures
    #: By the last inventory; what was moved is what the inventory has confirmed.
    after: Measures
    least: Least
    seconds: float
    #: Calls of the service that had not returned when this was made: they hang.
    calls_running: int
    #: What methods of the service raised, the first thousand, in the order in which they were raised.
    exceptions: list[BaseException]
