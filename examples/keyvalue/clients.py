"""Clients that use the buckets while these are moved, and know what they must find: a process each.

A key belongs to one client, which alone writes it. Its value begins with a version that rises with each write; a
read of one's own key must find the last version that was acknowledged, one of another's at least what was
found before.
"""

from __future__ import annotations

import random
import time
from array import array
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import valkey
from buckets import Held, field_of, name_of
from routes import Counts, Routes
from servers import connect

#: Nobody waits longer for a bucket that is moved.
GIVE_UP_SECONDS = 60
#: What is on its way between two servers is there after about this time.
PAUSE_SECONDS = 0.001
FINDINGS_KEPT = 10
#: Until all clients have begun.
START_SECONDS = 120


@dataclass
class Seen:
    """What a client did and found."""

    operations: int = 0
    #: Asked again, since the bucket was not there any more, or could not be written.
    moved: int = 0
    closed: int = 0
    slowest: float = 0.0
    findings: list[str] = field(default_factory=list)
    #: By key that belongs to the client, the last version that a server acknowledged.
    versions: dict[int, int] = field(default_factory=dict)

    def find(self, what: str) -> None:
        if len(self.findings) < FINDINGS_KEPT:
            self.findings.append(what)


def key_of(number: int) -> bytes:
    return b"key-%d" % number


def value_of(number: int, version: int) -> bytes:
    """Of a length that is the key's own, 40 to 360 bytes, so that buckets differ in size and keep theirs."""
    return (b"%d:" % version).ljust(40 + number * 7919 % 321, b".")


def version_of(value: bytes) -> int:
    return int(value.split(b":", 1)[0])


def first_values(routes: Routes, keys: int) -> list[dict[bytes, bytes]]:
    """By bucket, its fields with the first version of every key."""
    values: list[dict[bytes, bytes]] = [{} for _ in range(routes.buckets)]
    for number in range(keys):
        key = key_of(number)
        values[routes.bucket_of(key)][field_of(key)] = value_of(number, 0)
    return values


class Client:
    def __init__(self, scratch: Path, buckets: int, keys: int, me: int, clients: int) -> None:
        self.routes = Routes(scratch / "routes", buckets)
        self.counts = Counts(scratch / f"counts-{me}", buckets)
        self.keys, self.me, self.clients = keys, me, clients
        self.held: dict[int, Held] = {}
        self.random = random.Random(me)
        self.seen = Seen()
        self.of_bucket: list[list[int]] = [[] for _ in range(buckets)]
        for number in range(keys):
            self.of_bucket[self.routes.bucket_of(key_of(number))].append(number)
        self.found = array("q", [0]) * keys
        self.written = array("q", [0]) * keys

    def server(self, bucket: int) -> Held:
        port = self.routes.port_of(bucket)
        if port not in self.held:
            self.held[port] = Held(connect(port))
        return self.held[port]

    def step(self) -> None:
        """One read or write."""
        number = self.number()
        begun = time.monotonic()
        bucket = self.routes.bucket_of(key_of(number))
        self.counts.of_bucket[bucket] += 1
        if number % self.clients == self.me and self.random.random() < 0.5:
            self.write(number, bucket)
        else:
            self.read(number, bucket)
        self.seen.operations += 1
        self.seen.slowest = max(self.seen.slowest, time.monotonic() - begun)

    def number(self) -> int:
        """A key: some are asked for more often than others, and most often, while there are any, those of a bucket
        that is being moved: there it would go wrong."""
        moving = self.random.choice(self.routes.moving)
        if moving and self.of_bucket[moving - 1]:
            return self.random.choice(self.of_bucket[moving - 1])
        return int(self.keys * self.random.random() ** 2)

    def write(self, number: int, bucket: int) -> None:
        version = self.written[number] + 1
        key, value = key_of(number), value_of(number, version)
        for _ in self.tries():
            try:
                said = self.server(bucket).write(name_of(bucket), key, value)
            except valkey.exceptions.ConnectionError:
                # The server has been stopped: an empty one, that has not written it.
                said = "absent"
            if said == "written":
                self.written[number] = self.seen.versions[number] = version
                return
            self.again(said)
        self.seen.find(f"key {number} could not be written within {GIVE_UP_SECONDS} s")

    def read(self, number: int, bucket: int) -> None:
        key = key_of(number)
        for _ in self.tries():
            try:
                here, value = self.server(bucket).read(name_of(bucket), key)
            except valkey.exceptions.ConnectionError:
                here, value = False, None
            if here:
                return self.judge(number, value)
            self.again("absent")
        self.seen.find(f"key {number} could not be read within {GIVE_UP_SECONDS} s")

    def judge(self, number: int, value: bytes | None) -> None:
        if value is None:
            return self.seen.find(f"key {number} is lost")
        version = version_of(value)
        mine = number % self.clients == self.me
        expected = self.written[number] if mine else self.found[number]
        if version < expected or (mine and version != expected) or value != value_of(number, version):
            self.seen.find(f"key {number} has {value[:20]!r}, and should have version {expected}")
        self.found[number] = version

    def tries(self):
        end = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < end:
            yield

    def again(self, why: str) -> None:
        if why == "closed":
            self.seen.closed += 1
        else:
            self.seen.moved += 1
        time.sleep(PAUSE_SECONDS)


def run(
    client: tuple[Path, int, int, int, int], rate: float, begin: Barrier, stop: Event, results: Queue[Seen]
) -> None:
    """A client's process: so many operations a second, as far as servers keep up, until it is stopped."""
    it = Client(*client)
    begin.wait(START_SECONDS)
    due = time.monotonic()
    while not stop.is_set():
        it.step()
        due = max(due + 1 / rate, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))
    results.put(it.seen)
