"""Wall clocks of hosts of which there is one only: programs that are started with such a clock see it through
libfaketime. Time goes on for them as for everybody."""

import contextlib
import random
import threading
from collections.abc import Iterator
from pathlib import Path

HOURS_MAX = 9
SET_EVERY_SECONDS = 0.7


class HostClock:
    """May be set while programs run that see it."""

    def __init__(self, file: Path):
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not libraries:
            raise AssertionError("there is no libfaketime; run scripts/setup test")
        self.file = file
        self.environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }
        self.set(0)

    def set(self, hours: float) -> None:
        """So far ahead of the machine's clock; below zero: behind."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{round(hours * 3600):+}\n")
        new.rename(self.file)


@contextlib.contextmanager
def stepping(clocks: list[HostClock], seed: int) -> Iterator[None]:
    """Somebody sets them all the time."""
    chance, over = random.Random(f"{seed}/clocks"), threading.Event()

    def work() -> None:
        while not over.wait(SET_EVERY_SECONDS):
            chance.choice(clocks).set(chance.uniform(-HOURS_MAX, HOURS_MAX))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
