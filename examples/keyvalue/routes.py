"""The routing table of the example: a file of small numbers that all clients map into their memory.

It says on which server each bucket lies, at which port that server is, and which buckets are being moved. An entry may be out of date for a
moment: servers answer for no bucket that they do not hold, so a client that asked the wrong one looks again.
"""

from __future__ import annotations

import mmap
import zlib
from array import array
from pathlib import Path

SERVERS_MOST = 256
#: Of the buckets that are being moved, the last so many are told.
MOVING_MOST = 16


class Routes:
    """Entries are 16 bits wide and aligned: who reads one sees the old or the new one."""

    def __init__(self, path: Path, buckets: int) -> None:
        self.path, self.buckets = path, buckets
        size = 2 * (SERVERS_MOST + MOVING_MOST + buckets)
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.truncate(size)
            self.map = mmap.mmap(file.fileno(), size)
        entries = memoryview(self.map).cast("H")
        self.ports, rest = entries[:SERVERS_MOST], entries[SERVERS_MOST:]
        #: Buckets, each one more than its number; 0 is none.
        self.moving, self.places = rest[:MOVING_MOST], rest[MOVING_MOST:]

    def bucket_of(self, key: bytes) -> int:
        """Each bucket is a range of the keys' hashes."""
        return (zlib.crc32(key) * self.buckets) >> 32

    def moves(self, bucket: int) -> None:
        self.moving[bucket % MOVING_MOST] = bucket + 1

    def moved(self, bucket: int) -> None:
        if self.moving[bucket % MOVING_MOST] == bucket + 1:
            self.moving[bucket % MOVING_MOST] = 0

    def port_of(self, bucket: int) -> int:
        return self.ports[self.places[bucket]]


class Counts:
    """How often each bucket was asked for, by one client; others may look at it meanwhile."""

    def __init__(self, path: Path, buckets: int) -> None:
        size = 4 * buckets
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.truncate(size)
            self.map = mmap.mmap(file.fileno(), size)
        self.of_bucket = memoryview(self.map).cast("I")

    def now(self) -> array[int]:
        return array("I", self.of_bucket.tobytes())
