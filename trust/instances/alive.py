"""What there is of a file system that lives, and others who look at it all the time."""

import random
import threading
from pathlib import Path

from play import BASE, Play, ends, holds, living, told

UP = BASE / "up"
# What nobody but its owner rewrites, and only with what it has said before.
CHANGING = ("log", "log.1", "reserve", "record.json", "nodes.conf")
STAYING = ("daemon", "holder", "manager")


class Alive:
    """What there is of a living file system, none of which may change or go."""

    def __init__(self):
        self.files = {path: self.seen(path) for path in self.paths()}
        self.processes = {pid: words for pid, words in living().items() if not is_command(words)}

    @staticmethod
    def paths() -> list[Path]:
        """Without those of mounts, which other commands make."""
        found = [path for path in UP.rglob("*") if path.name not in CHANGING]
        return [path for path in found if "mounts" not in path.parts]

    @staticmethod
    def seen(path: Path) -> tuple[int, bytes]:
        return path.lstat().st_ino, path.read_bytes() if path.is_file() else b""

    def is_whole(self, at: Path) -> None:
        now = living()
        ended = [words for pid, words in self.processes.items() if pid not in now]
        holds(not ended, f"ended: {ended}")
        for path, known in self.files.items():
            there = at / path.relative_to(UP)
            holds(there.exists(), f"{path} is gone")
            inode, content = self.seen(there)
            # What is written anew gets its name when it is whole.
            same = content == known[1] and (inode == known[0] or path.name == "cluster.json")
            holds(same, f"{path} is another one")
        holds((at / "record.json").exists(), "the record is gone")


def is_command(words: str) -> bool:
    """Not one of those that stay."""
    program, word = [*words.split(), ""][:2]
    return program.endswith("tidefs") and word not in STAYING


def nobody_serves() -> None:
    """As `down` has just answered; others' commands may be under way."""
    left = [words for words in living().values() if not is_command(words) and not ends(words)]
    holds(not left, f"down answered 0, and there are {left}")


def ways(scratch: Path) -> list[tuple[list[str], dict[str, str | None]]]:
    """To name the file system: words, and the environment."""
    return [
        ([], {"HOME": None}),
        ([], {"HOME": "/nowhere"}),
        ([], {}),
        (["--state", str(BASE)], {"HOME": None}),
        (["--state", str(UP)], {"XDG_STATE_HOME": str(scratch / "xdg")}),
        ([], {"TIDEFS_STATE": str(UP), "HOME": None}),
    ]


class Shells:
    """Other shells, in which somebody looks at the file system all the time."""

    WORDS = (
        ("status",),
        ("status", "--json"),
        ("list",),
        ("list", "--json"),
        ("doctor",),
        ("fsck",),
    )

    def __init__(self, play: Play, count: int = 2):
        self.play, self.over = play, threading.Event()
        self.said: list[str] = []
        seeds = [play.draw.random() for _ in range(count)]
        self.threads = [
            threading.Thread(target=self.run, args=(random.Random(seed),)) for seed in seeds
        ]

    def run(self, draw: random.Random) -> None:
        play = self.play
        while not self.over.wait(draw.uniform(0, 0.4)):
            state, environment = draw.choice(ways(play.scratch))
            if draw.random() < 0.2:
                state, environment = [], {"XDG_STATE_HOME": str(play.scratch / "xdg")}
            words = draw.choice(self.WORDS)
            done = play.call(play.tidefs, *state, *words, **environment)
            if "cleaned up" in done.stderr:
                self.said.append(f"{words} with {state} {environment}: {told(done)}")

    def __enter__(self) -> None:
        for thread in self.threads:
            thread.start()

    def __exit__(self, kind, *_) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()
        if kind is None:
            holds(not self.said, f"a living file system was cleaned up: {self.said}")
