"""The key-value service as the library wants it: what there is, how a server starts and stops, how a bucket
moves. The only file of the example that speaks with `tidefs_rescale`.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import tidefs_rescale as rescale
import valkey
from buckets import Held, name_of, number_of
from routes import Counts, Routes
from servers import Server


class KeyValueService:
    """`inventory`, `start`, `move` and `stop` are the library's to call, from several threads at a time."""

    def __init__(self, scratch: Path, buckets: int, clients: int) -> None:
        self.routes = Routes(scratch / "routes", buckets)
        self.counts = [Counts(scratch / f"counts-{client}", buckets) for client in range(clients)]
        self.loads: list[int] = [0] * buckets
        self.lock = threading.Lock()
        self.servers: dict[str, tuple[Server, Held]] = {}
        #: By move, for how long its bucket could not be written, in seconds.
        self.closed: list[float] = []
        self.last: rescale.Progress | None = None

    # What the library calls.

    def inventory(self) -> rescale.Inventory:
        found = rescale.Inventory()
        for server, held in self.living().items():
            try:
                listed = held.listed()
            except valkey.exceptions.ConnectionError:
                if server not in self.living():
                    # It was stopped, or died, since it was looked for.
                    continue
                raise
            found.servers.append(rescale.Server(server))
            for name, size, _ in listed:
                load = float(self.loads[number_of(name)])
                found.buckets.append(rescale.Bucket(name, server, size, load))
        return found

    def start(self, server: str) -> None:
        process = Server(server)
        with self.lock:
            self.servers[server] = (process, Held(process.client))
            self.routes.ports[number_of(server)] = process.port

    def move(self, bucket: str, from_server: str, to_server: str) -> None:
        """May be called again for a bucket that was moved, or half moved, before."""
        source, target = self.held(from_server), self.held(to_server)
        self.routes.moves(number_of(bucket))
        begun = time.monotonic()
        dump = source.close(bucket)
        if dump is None and not target.has(bucket):
            raise RuntimeError(f"{bucket} is neither on {from_server} nor on {to_server}")
        if dump is not None:
            try:
                target.restore(bucket, dump)
            except BaseException:
                # Whatever came of it: nothing may be read there while it is written here.
                target.remove(bucket)
                source.open(bucket)
                raise
            self.copied(bucket)
            source.remove(bucket)
        self.routes.places[number_of(bucket)] = number_of(to_server)
        target.open(bucket)
        self.closed.append(time.monotonic() - begun)
        self.routes.moved(number_of(bucket))

    def stop(self, server: str) -> None:
        process, held = self.servers[server]
        there = held.listed()
        if there:
            raise RuntimeError(f"{server} holds {len(there)} buckets")
        with self.lock:
            del self.servers[server]
        process.end()

    def progress(self, progress: rescale.Progress) -> None:
        self.last = progress

    # The service's own.

    def copied(self, bucket: str) -> None:
        """A copy is on both servers; a test breaks moves off here."""

    def unexpected(self, outcome: rescale.Outcome) -> list[str]:
        """What of an outcome should not have been: here nothing fails."""
        halted = [outcome.halted] if outcome.halted else []
        return halted + outcome.faults + outcome.left

    def living(self) -> dict[str, Held]:
        """The servers whose processes run, with what they hold."""
        with self.lock:
            return {name: held for name, (process, held) in self.servers.items() if process.lives()}

    def held(self, server: str) -> Held:
        return self.servers[server][1]

    def weigh(self, seconds: float) -> None:
        """Takes what clients ask for in so many seconds for the load of buckets."""
        before = [counts.now() for counts in self.counts]
        time.sleep(seconds)
        after = [counts.now() for counts in self.counts]
        self.loads = [0] * self.routes.buckets
        for old, new in zip(before, after):
            for bucket in range(self.routes.buckets):
                self.loads[bucket] += new[bucket] - old[bucket]

    def mend(self) -> int:
        """Ends what a move that was broken off has left: a bucket that is on two servers stays on one, and one
        that is closed is opened. Returns how many there were. No move may be under way."""
        copies: dict[str, list[tuple[str, str]]] = {}
        for server, held in self.living().items():
            for name, _, state in held.listed():
                copies.setdefault(name, []).append((server, state))
        mended = 0
        for name, places in copies.items():
            if [state for _, state in places] == ["open"]:
                continue
            # One that is open may have been written since; of closed ones each is as good.
            keep = next((server for server, state in places if state == "open"), places[0][0])
            for server, _ in places:
                if server != keep:
                    self.held(server).remove(name)
            self.held(keep).open(name)
            self.routes.places[number_of(name)] = number_of(keep)
            mended += 1
        return mended

    def fill(self, values: list[dict[bytes, bytes]]) -> None:
        """Puts buckets with their fields on the servers there are, one after the other."""
        names = list(self.servers)
        pipes = {name: self.servers[name][0].client.pipeline(transaction=False) for name in names}
        for bucket, fields in enumerate(values):
            server = names[bucket % len(names)]
            self.routes.places[bucket] = number_of(server)
            pipes[server].hset(name_of(bucket), mapping={b"state": b"open", **fields})
        for pipe in pipes.values():
            pipe.execute()

    def end(self) -> None:
        for process, _ in self.servers.values():
            process.end()
        self.servers.clear()
