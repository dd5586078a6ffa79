"""What a stranger sees, and what becomes of a file system beside him, while nodes come, go and are lent."""

import base64
import contextlib
import hashlib
import json
import os
import re
from pathlib import Path

from intruders import Intrusion
from lenders import Lender, at_rest, until, victims
from mounted import Mounted
from play import Broken, Play, holds
from shown import shown_to
from stranger import Stranger

STEPS = 6
STRANGERS = 2
NODES_MAX = 3
UP = (
    "--nodes",
    f"1..{NODES_MAX}",
    "--policy",
    "static",
    "--node-memory",
    "64MiB",
    "--listen",
    "127.0.0.1:0",
)
KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----(.*?)-----END", re.DOTALL)
RAW_BYTES = 32


class Secrets:
    """All that there has been, in each form in which it may be seen."""

    def __init__(self, state: Path):
        self.state, self.known = state, {}

    def look(self) -> None:
        for name in ("secret", "lend-secret"):
            text = (self.state / name).read_bytes().strip()
            self.add(name, text, bytes.fromhex(text.decode()))
        key = json.loads((self.state / "stripe-key").read_text())["key"]
        self.add(
            "stripe-key",
            bytes(key),
            bytes(key).hex().encode(),
            json.dumps(key, separators=(",", ":")).encode(),
        )
        for path in [self.state / "credentials", *self.state.glob("nodes/*/key.pem")]:
            # A node may leave while it is looked at.
            with contextlib.suppress(FileNotFoundError):
                for body in KEY.findall(path.read_bytes().replace(b"\\n", b"\n")):
                    text = b"".join(body.split())
                    self.add(str(path), text, base64.b64decode(text)[-RAW_BYTES:])
        secret = (self.state / "secret").read_text()
        for node in nodes(self.state):
            self.add(f"what node {node} is shown", shown_to(secret, node).encode())

    def add(self, name: str, *forms: bytes) -> None:
        self.known |= {form: name for form in forms}

    def seen_in(self, file: Path) -> list[str]:
        content = file.read_bytes()
        return [
            f"{name} ({where(content, form)})"
            for form, name in self.known.items()
            if form in content
        ]


def where(content: bytes, form: bytes) -> str:
    before = content[: content.index(form)]
    return before[before.rfind(b"\n## ") + 4 :].split(b"\n")[0].decode(errors="replace")


def nodes(state: Path) -> list[str]:
    return [node["id"] for node in json.loads((state / "cluster.json").read_text())["nodes"]]


class Prying:
    def __init__(self, play: Play, mounted: Mounted, stack: contextlib.ExitStack):
        self.play, self.draw, self.mounted, self.stack = play, play.draw, mounted, stack
        self.mount, self.state = mounted.mounts[0], Path(mounted.state) / "up"
        self.secrets, self.lenders, self.files = Secrets(self.state), [], 0
        self.fill()
        self.digest = self.look()

    def fill(self) -> None:
        """With what is nobody else's business."""
        private = self.mount / "private"
        private.mkdir(mode=0o700)
        for number in range(8):
            content = self.draw.randbytes(self.draw.choice((100, 20_000, 1_500_000)))
            (private / f"{number}").write_bytes(content)
            self.secrets.add(f"file {number}", content[:RAW_BYTES])

    def look(self) -> str:
        """All that the file system holds, as one number."""
        total = hashlib.sha256()
        for folder, folders, names in os.walk(self.mount):
            folders.sort()
            for path in [Path(folder), *(Path(folder, name) for name in sorted(names))]:
                found = path.lstat()
                total.update(f"{path} {found.st_mode} {found.st_uid} {found.st_mtime_ns}".encode())
                total.update(path.read_bytes() if path.is_file() else b"")
        return total.hexdigest()

    def works(self) -> None:
        self.secrets.look()
        holds(self.look() == self.digest, "a stranger changed what the file system holds")
        own, content = self.mount / "private/own", self.draw.randbytes(70_000)
        own.write_bytes(content)
        holds(own.read_bytes() == content, "a file is not what was written")
        own.unlink()
        self.digest = self.look()
        status = {node["id"] for node in self.mounted.status()["nodes"]}
        holds(status == set(nodes(self.state)), f"status lists {status}")

    def scale(self) -> None:
        count = self.draw.randrange(1, NODES_MAX + 1)
        self.play.note(f"scale {count}")
        self.mounted.call("scale", f"{count}")

    def lend(self) -> None:
        if len(self.lenders) == 2:
            return self.give_back()
        self.play.note("lend")
        self.lenders.append(self.stack.enter_context(Lender(self.mounted, "64MiB")))
        until("a lent node is in use", lambda: at_rest(self.mounted, len(self.lenders)))

    def give_back(self) -> None:
        if self.lenders:
            self.play.note("give back")
            self.lenders.pop(self.draw.randrange(len(self.lenders))).give_back()
            until("it has left", lambda: len(victims(self.mounted.status())) == len(self.lenders))

    def check(self) -> None:
        self.play.note("fsck")
        self.mounted.call("fsck")

    def play_all(self) -> None:
        self.secrets.look()
        paths = sorted(path for path in self.state.rglob("*"))
        strangers = [
            Stranger(
                f"{self.draw.random()}", paths, self.mount, self.play.scratch / f"seen-{number}"
            )
            for number in range(STRANGERS)
        ]
        self.must_find(paths)
        begun = []
        try:
            for one in strangers:
                one.begin()
                begun.append(one)
            for _ in range(STEPS):
                self.draw.choices(
                    (self.scale, self.lend, self.give_back, self.check), (4, 3, 1, 1)
                )[0]()
                self.works()
        finally:
            wrong, acts = [], 0
            for one in begun:
                try:
                    acts += one.end()
                except Intrusion as error:
                    wrong.append(str(error))
        holds(not wrong, "; ".join(wrong))
        holds(acts > STEPS, f"strangers did {acts} things")
        self.play.note(f"strangers did {acts} things")
        for one in strangers:
            found = self.secrets.seen_in(one.seen)
            holds(not found, f"a stranger saw {found}")
        self.works()
        self.check()

    def must_find(self, paths: list[Path]) -> None:
        """What he may not see is found where somebody has seen it."""
        seen = self.play.scratch / "seen-by-root"
        with seen.open("wb") as file:
            for path in [it for it in [*paths, *self.mount.glob("private/*")] if it.is_file()]:
                file.write(path.read_bytes())
        found = self.secrets.seen_in(seen)
        seen.unlink()
        for name in ("secret", "lend-secret", "stripe-key", "credentials", "key.pem", "file 0"):
            holds(any(name in one for one in found), f"{name} is not found where it is: {found}")


def play(play: Play) -> None:
    # A short name, since sockets lie in it; open to others, as a home may be.
    play.scratch.chmod(0o755)
    with contextlib.ExitStack() as stack:
        mounted = stack.enter_context(Mounted(play.tidefs, play.scratch, *UP))
        try:
            Prying(play, mounted, stack).play_all()
        except Intrusion as error:
            raise Broken(str(error)) from error
