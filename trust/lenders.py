"""Lenders of a file system that `Mounted` keeps up: started, asked to give back, killed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from mounted import Mounted

# A loaded machine takes seconds for what takes a tenth of one.
WAIT_SECONDS_MAX = 120


class TooLate(Exception):
    """Something did not come about in time."""


def until(what: str, there: Callable[[], object], seconds: float = WAIT_SECONDS_MAX) -> None:
    end = time.monotonic() + seconds
    while not there():
        if time.monotonic() > end:
            raise TooLate(what)
        time.sleep(0.05)


class Lender:
    """`tidefs lend`, ended with its node when left."""

    def __init__(self, mounted: Mounted, memory: str, *options: str, into: Path | None = None):
        self.mounted, self.log = mounted, mounted.scratch / f"lender-{time.monotonic_ns()}.log"
        state = Path(mounted.state) / "up"
        words = [mounted.tidefs, "lend", "--memory", memory, *options]
        words += ["--join", (state / "lend-address").read_text().strip()]
        words += ["--secret-file", str(state / "lend-secret")]

        # With the group's limit on it from its first page.
        def confine() -> None:
            if into:
                (into / "cgroup.procs").write_text(str(os.getpid()))

        self.process = subprocess.Popen(
            words, stderr=self.log.open("w"), env=mounted.environment, preexec_fn=confine
        )

    def __enter__(self) -> "Lender":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def said(self) -> str:
        return self.log.read_text()

    def give_back(self) -> float:
        """Seconds until it has ended in order."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=WAIT_SECONDS_MAX)
        if status:
            raise TooLate(f"the lender ended with {status}: {self.said()}")
        return time.monotonic() - begun


def victims(status: dict) -> list[dict]:
    return [node for node in status["nodes"] if node["class"] == "victim"]


def at_rest(mounted: Mounted, count: int) -> bool:
    """So many victims are in use, and nothing moves."""
    status = mounted.status()
    return len(victims(status)) == count and status["reconfiguration"] is None
