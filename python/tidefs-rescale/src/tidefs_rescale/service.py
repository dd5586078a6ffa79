"""What a service has to offer for its buckets to be moved."""

from __future__ import annotations

from typing import Protocol

from .values import Inventory


class Service(Protocol):
    """Any object with these methods.

    They are called from several threads at a time, of which none is the one that called `rescale`. A method
    that raises has failed, and its words are passed on. What methods say is not relied on: the inventory is.

    A method `progress(self, progress: Progress) -> None` is told how far it is, where there is one: now and
    then, by one thread, the last time at the end.
    """

    def inventory(self) -> Inventory:
        """All servers that run and all buckets with the server that each lies on: what is really there, asked
        of the servers. A bucket that is being moved may be missing, or be on both servers."""

    def start(self, server: str) -> None:
        """Starts a server; from then on the inventory lists it."""

    def move(self, bucket: str, from_server: str, to_server: str) -> None:
        """Moves a bucket. It is whole on its old server until it is whole on the new one."""

    def stop(self, server: str) -> None:
        """Stops a server that holds nothing, and raises where it holds something after all."""
