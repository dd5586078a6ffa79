"""A service in memory for the tests: servers by name, each with its buckets and their bytes.

Each test makes one of its methods behave badly.
"""

from __future__ import annotations

import threading
from typing import Any

from tidefs_rescale import Bucket, Change, Inventory, Progress, Server, Settings

#: Nothing here takes time, so nothing is waited for.
QUICK = Settings(between_inventories=0.01)


class Shelves:
    def __init__(self, servers: int, buckets: int) -> None:
        self.lock = threading.Lock()
        self.shelves: dict[str, dict[str, int]] = {f"server-{at}": {} for at in range(servers)}
        for at in range(buckets):
            self.shelves[f"server-{at % servers}"][f"bucket-{at}"] = 1_000
        self.told: list[Progress] = []
        self.threads: set[int] = set()

    def inventory(self) -> Inventory:
        with self.lock:
            return Inventory(
                [Server(name) for name in self.shelves],
                [Bucket(name, at, size) for at, held in self.shelves.items() for name, size in held.items()],
            )

    def start(self, server: str) -> None:
        with self.lock:
            self.shelves[server] = {}

    def move(self, bucket: str, from_server: str, to_server: str) -> None:
        self.threads.add(threading.get_ident())
        with self.lock:
            target = self.shelves[to_server]
            target[bucket] = self.shelves[from_server].pop(bucket)

    def stop(self, server: str) -> None:
        with self.lock:
            if self.shelves[server]:
                raise RuntimeError(f"{server} holds {len(self.shelves[server])} buckets")
            del self.shelves[server]

    def progress(self, progress: Progress) -> None:
        self.told.append(progress)

    def numbers(self) -> dict[str, int]:
        """How many buckets lie on each server."""
        return {name: len(held) for name, held in self.shelves.items()}


def coming(*names: str, **of_all: Any) -> Change:
    return Change(start=[Server(name, **of_all) for name in names])
