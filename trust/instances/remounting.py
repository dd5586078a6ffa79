"""Mounts that are taken away, die, are covered, copied and made again, while programs write there."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from place import Place
from play import (
    BASE,
    COMMAND_SECONDS_MAX,
    END_SECONDS_MAX,
    OURS,
    Broken,
    Play,
    holds,
    is_over,
    living,
    nobody_lives,
    until,
)

STEPS = 14
NODES = ("--nodes", "1", "--node-memory", "64MiB")
# A holder looks each second whether its mount is there still.
OLD_HOLDER_SECONDS = 1.3


class Remounting:
    def __init__(self, play: Play):
        self.play, self.draw = play, play.draw
        self.own, *self.others = self.places = [
            Place(play.scratch / name) for name in ("own", "a", "b")
        ]
        self.files: dict[str, bytes] = {}
        self.copies: list[Path] = []
        self.options: tuple[str, ...] = ()

    def tidefs(self, *words: object) -> subprocess.CompletedProcess:
        return self.play.call(self.play.tidefs, *words)

    def up(self) -> None:
        self.options = self.draw.choice(((), NODES, NODES))
        while self.own.covers:
            self.uncover(self.own)
        self.play.note(f"up {' '.join(self.options)}")
        self.play.must(self.play.tidefs, "up", "--mount", self.own.path, *self.options)
        self.is_there(self.own)

    def is_there(self, place: Place) -> None:
        """A command has just answered that it is mounted."""
        kind, source = (place.layers() or [("nothing", "")])[-1]
        holds(kind == OURS, f"{place.path} was mounted, and {kind} is there")
        with place.lock:
            place.source, place.dead = source, False

    def is_gone(self, place: Place) -> None:
        """It is about to be taken away: programs leave."""
        with place.lock:
            place.source = None

    def mount(self, place: Place) -> None:
        is_free = place.source is None and not place.covers
        self.play.note(f"mount {place.path.name}{'' if is_free else ', which is taken'}")
        done = self.tidefs("mount", place.path)
        holds(
            (done.returncode == 0) == is_free, f"mount ends with {done.returncode}: {done.stderr}"
        )
        if is_free:
            self.is_there(place)

    def umount(self, place: Place, words: tuple[object, ...]) -> None:
        """Whatever is on top, by the kernel's means or ours."""
        self.play.note(f"{Path(words[0]).name} {' '.join(map(str, words[1:]))} {place.path.name}")
        is_ours, is_forced = words[0] == self.play.tidefs, "--lazy" in words
        kernel_has = place.layers()
        was = (place.source, place.dead)
        if place.covers:
            if is_ours:
                done = self.play.call(*words, place.path)
                holds(done.returncode != 0, "umount takes something else away")
            else:
                self.uncover(place)
            return
        self.is_gone(place)
        done = self.play.call(*words, place.path)
        is_busy = place.held is not None and not is_ours and not is_forced and not was[1]
        if was[0] and is_busy:
            holds(done.returncode != 0, "umount takes away what is in use")
            with place.lock:
                place.source = was[0]
        elif was[0]:
            # Whoever uses it still is told; it is gone all the same.
            is_told = is_ours and place.held is not None and "still used files" in done.stderr
            holds(
                done.returncode == 0 or is_told,
                f"{words} of {kernel_has} ends with {done.returncode}: {done.stderr}",
            )
            place.let_go()
        place.dead = place.dead and done.returncode != 0

    def any_umount(self) -> tuple[object, ...]:
        return self.draw.choice((("umount",), ("umount", "--lazy"), (self.play.tidefs, "umount")))

    def holder(self, place: Place) -> int | None:
        """The process that serves a mount alone."""
        daemon = json.loads((BASE / "up/record.json").read_text())["owner"]["pid"]
        for note in (BASE / "up/mounts").glob("*.json"):
            record = json.loads(note.read_text())
            pid = record["owner"]["pid"]
            if f"tidefs-{record['id']:016x}" == place.source and pid != daemon:
                return pid
        return None

    def kill(self, place: Place) -> bool:
        pid = self.holder(place)
        if pid is None or place.covers:
            return False
        self.play.note(f"kill -9 of who serves {place.path.name}")
        self.is_gone(place)
        place.dead = True
        os.kill(pid, signal.SIGKILL)
        until("a killed process", lambda: pid not in living(), END_SECONDS_MAX)
        place.let_go()
        return True

    def again(self, place: Place) -> None:
        """Taken away, and at once mounted anew in the same directory."""
        if not place.is_open():
            return self.mount(place)
        if not (self.draw.random() < 0.3 and self.kill(place)):
            self.umount(place, self.any_umount())
        self.mount(place)

    def asked(self, place: Place) -> None:
        """Somebody mounts there and waits for an answer of the one that is there, which dies."""
        pid = self.holder(place)
        if pid is None or not place.is_open():
            return
        self.play.note(f"mount {place.path.name}, whose process stands still, and then dies")
        self.is_gone(place)
        # Begun before, as a program that begins closes the files of this one: also one of this mount.
        asking = subprocess.Popen(
            ["sh", "-c", 'read _; exec "$@"', "sh", self.play.tidefs, "mount", place.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.kill(pid, signal.SIGSTOP)
        try:
            asking.stdin.write("\n")
            asking.stdin.flush()
            time.sleep(0.3)
        finally:
            os.kill(pid, signal.SIGKILL)
        said = asking.communicate(timeout=COMMAND_SECONDS_MAX)[1]
        holds(asking.returncode == 0, f"what died is in the way: {said}")
        place.let_go()
        self.is_there(place)

    def cover(self, place: Place) -> None:
        kind = self.draw.choice(("tmpfs", "directory", "another mount"))
        self.play.note(f"cover {place.path.name}: {kind}")
        sources = [it.path for it in self.places if it.is_open() and it is not place]
        aside = self.play.scratch / f"cover-{time.monotonic_ns()}"
        aside.mkdir()
        bound = self.draw.choice(sources) if kind == "another mount" and sources else aside
        words = ("-t", "tmpfs", "tmpfs") if kind == "tmpfs" else ("--bind", bound)
        with place.lock:
            place.covers.append(kind)
        self.play.must("mount", *words, place.path)

    def uncover(self, place: Place) -> None:
        self.play.note(f"uncover {place.path.name}")
        self.play.must("umount", place.path)
        with place.lock:
            place.covers.pop()

    def copy(self, place: Place) -> None:
        if not place.is_open():
            return
        self.play.note(f"mount --bind {place.path.name}")
        copy = self.play.scratch / f"copy-{time.monotonic_ns()}"
        copy.mkdir()
        self.play.must("mount", "--bind", place.path, copy)
        self.copies.append(copy)

    def hold(self, place: Place) -> None:
        if place.held is not None:
            self.play.note(f"close a file in {place.path.name}")
            place.let_go()
        elif place.is_open():
            self.play.note(f"keep a file open in {place.path.name}")
            place.held = os.open(place.path / "held", os.O_CREAT | os.O_RDWR)

    def write(self) -> None:
        open_ones = [place for place in self.places if place.is_open()]
        if not open_ones:
            return
        place, name = self.draw.choice(open_ones), f"synced-{self.draw.randrange(6)}"
        self.play.note(f"write and sync {name} in {place.path.name}")
        data = self.draw.randbytes(self.draw.choice((10, 5_000, 300_000)))
        with (place.path / name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self.files[name] = data

    def down(self) -> None:
        self.play.note("down")
        for place in self.places:
            if place.source:
                self.is_gone(place)
                # What is covered cannot be taken out, and is dead from now on.
                place.dead = bool(place.covers)
        self.drop_copies()
        self.play.must(self.play.tidefs, "down")
        nobody_lives()
        for place in self.places:
            place.let_go()
            layers = place.layers()
            holds(
                len(layers) <= len(place.covers) + place.dead,
                f"{place.path} has {layers} after down",
            )
        self.files = {}

    def drop_copies(self) -> None:
        for copy in self.copies:
            self.play.must("umount", "--lazy", copy)
        self.copies = []

    def step(self) -> None:
        place = self.draw.choice(self.places)
        steps = {
            "write": (4, self.write),
            "again": (6, lambda: self.again(place)),
            "mount": (2, lambda: self.mount(place)),
            "umount": (2, lambda: self.umount(place, self.any_umount())),
            "kill": (1, lambda: self.kill(place)),
            "asked": (3, lambda: self.asked(self.draw.choice(self.others))),
            "cover": (1, lambda: self.cover(place)),
            "uncover": (2, lambda: self.uncover(place) if place.covers else None),
            "copy": (1, lambda: self.copy(place)),
            "hold": (1, lambda: self.hold(place)),
            "down": (1, lambda: (self.down(), self.up())),
        }
        weights = [weight for weight, _ in steps.values()]
        _, act = self.draw.choices(list(steps.values()), weights)[0]
        act()

    def check(self) -> None:
        status = json.loads(self.play.must(self.play.tidefs, "status", "--json"))
        # The manager takes away by itself what a killed process left.
        dead = {str(place.path) for place in self.places if place.dead}
        listed = set(status["mounts"]) - dead
        there = {str(place.path) for place in self.places if place.is_open()}
        holds(listed == there, f"status lists {listed}, and there are {there}")
        for place in self.places:
            if place.wrong:
                raise Broken(f"{place.path}: {place.wrong}")
            if not place.is_open():
                continue
            layers = place.layers()
            holds(
                layers[-1:] == [(OURS, place.source)],
                f"{place.path} was {place.source}, and is {layers}",
            )
            found = {path.name: path.read_bytes() for path in place.path.glob("synced-*")}
            odd = [
                name for name in {*found, *self.files} if found.get(name) != self.files.get(name)
            ]
            holds(not odd, f"{place.path}: {odd} are not what was synced")
        self.nothing_beneath()

    def nothing_beneath(self) -> None:
        for place in self.places:
            landed = os.listdir(place.beneath)
            holds(not landed, f"on the disk beneath {place.path}: {landed}")

    def play_all(self) -> None:
        self.up()
        for _ in range(STEPS):
            self.step()
            self.check()
            if self.draw.random() < 0.4:
                self.play.pause(OLD_HOLDER_SECONDS)
        time.sleep(OLD_HOLDER_SECONDS)
        self.check()
        for place in self.places:
            while place.covers:
                self.uncover(place)
        self.check()
        self.down()
        for place in self.places:
            if place.dead and place.layers():
                self.play.must("umount", place.path)
            holds(place.writes or not place.source, "the program never wrote")
        self.nothing_beneath()
        is_over()


def play(play: Play) -> None:
    one = Remounting(play)
    try:
        one.play_all()
    finally:
        for place in one.places:
            place.ends.set()
        for place in one.places:
            place.program.join(timeout=30)
            place.let_go()
            os.close(place.beneath)
