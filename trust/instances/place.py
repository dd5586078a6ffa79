"""A directory that is mounted on, with a program that writes there while a mount is."""

import contextlib
import os
import threading
from pathlib import Path

from play import table


class Place:
    def __init__(self, path: Path):
        path.mkdir()
        self.path, self.marker = path, path / f"marker-{path.name}"
        # Shows what is on the disk, whatever is mounted over it.
        self.beneath = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self.disk = path.stat().st_dev
        # Of the mount that is there; another one's name never comes again.
        self.source: str | None = None
        self.dead = False
        self.covers: list[str] = []
        self.held: int | None = None
        self.lock, self.ends, self.wrong, self.writes = threading.Lock(), threading.Event(), None, 0
        self.program = threading.Thread(target=self.write, daemon=True)
        self.program.start()

    def is_open(self) -> bool:
        return self.source is not None and not self.covers

    def write(self) -> None:
        while not self.ends.wait(0.005):
            with self.lock:
                if not self.is_open():
                    continue
                try:
                    with self.marker.open("w") as file:
                        file.write("x")
                        if os.fstat(file.fileno()).st_dev == self.disk:
                            self.wrong = "a program's write landed on the disk beneath"
                    self.writes += 1
                except OSError as error:
                    self.wrong = f"a program cannot write: {error}"

    def let_go(self) -> None:
        """Of the file that is kept open."""
        if self.held is not None:
            # What was taken away by force has nobody to tell.
            with contextlib.suppress(OSError):
                os.close(self.held)
            self.held = None

    def layers(self) -> list[tuple[str, str]]:
        return table().get(str(self.path), [])
