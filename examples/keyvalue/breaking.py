"""The same service with moves that are broken off in the middle, and a server that dies as soon as it has started."""

from __future__ import annotations

import tidefs_rescale as rescale
from service import KeyValueService

#: One in so many moves is broken off when a copy of its bucket is on both servers.
BREAK_EACH = 20


class Broken(Exception):
    """The move was broken off on purpose."""


class Breaking(KeyValueService):
    copies = 0
    filled = False
    victim: str | None = None

    def start(self, server: str) -> None:
        super().start(server)
        # The first ones hold the data; of those that come later, one dies.
        if self.filled and self.victim is None:
            self.victim = server
            process = self.servers[server][0].process
            process.kill()
            process.wait()

    def fill(self, values: list[dict[bytes, bytes]]) -> None:
        super().fill(values)
        self.filled = True

    def copied(self, bucket: str) -> None:
        with self.lock:
            self.copies += 1
            broken = self.copies % BREAK_EACH == 0
        if broken:
            raise Broken(f"{bucket} was left on both servers")

    def unexpected(self, outcome: rescale.Outcome) -> list[str]:
        """Broken moves are tried again, and the server that died is named and planned around."""
        wrong = [outcome.halted] if outcome.halted else []
        if not any("Broken: " in fault and "failed" in fault for fault in outcome.faults):
            wrong.append("no move was broken off")
        if outcome.started and not any(f'"{self.victim}" was not started' in left for left in outcome.left):
            wrong.append(f"it is not told that {self.victim} died: {outcome.left}")
        return wrong + [left for left in outcome.left if f'"{self.victim}"' not in left]
