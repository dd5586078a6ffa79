"""A file system that `tidefs` keeps up while a suite works on it, on one mount or several."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from host_clock import HostClock

PROJECT = Path(__file__).resolve().parents[1]
TIDEFS = PROJECT / "target/release/tidefs"
# Where scripts/install-suites puts programs.
SUITES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidefs/suites/bin"
STORES = ("embedded", "valkey")
# How long any command of the file system may take.
COMMAND_SECONDS_MAX = 120
# Where the kernel has a program wait for the answer of a mount.
WAITS_FOR_ANSWER = "request_wait_answer"


def is_left_out(what: str) -> bool:
    """Whether TIDEFS_TEST_WITHOUT names something; says so aloud."""
    left_out = what in os.environ.get("TIDEFS_TEST_WITHOUT", "").split(",")
    if left_out:
        print(f"left out, as TIDEFS_TEST_WITHOUT asks: {what}", flush=True)
    return left_out


def waiting() -> list[int]:
    """The processes that wait for the answer of any mount: where there are none, none hangs."""
    found = []
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*/wchan"):
        try:
            if task.read_text() == WAITS_FOR_ANSWER:
                found.append(int(task.parts[2]))
        except OSError:
            # It has ended.
            pass
    return found


@dataclass
class Extra:
    """A mount for a while."""

    mount: Path
    server: int

    def kill(self) -> None:
        os.kill(self.server, signal.SIGKILL)


class Mounted:
    """Started when entered and taken down when left, also after a failure."""

    def __init__(
        self,
        tidefs: Path,
        scratch: Path,
        *up: str,
        mounts: int = 1,
        server: str | None = None,
        clocks: bool = False,
    ):
        self.tidefs, self.state = str(tidefs), str(scratch / "state")
        self.up, self.scratch = up, scratch
        self.mounts = [scratch / f"mount-{number}" for number in range(1, mounts + 1)]
        self.environment = dict(os.environ)
        if server:
            self.environment["TIDEFS_SERVER"] = server
        # Where hosts' clocks differ, all but the first mount have one of their own.
        self.clocks = [HostClock(scratch / f"clock-{it.name}") for it in self.mounts[1:] if clocks]

    @classmethod
    def on(
        cls, store: str, tidefs: Path, scratch: Path, mounts: int = 1, clocks: bool = False
    ) -> "Mounted":
        """On either store; the nodes are two, so that one file's stripes lie on both."""
        scratch = scratch / store
        scratch.mkdir()
        nodes = ("--nodes", "2", "--node-memory", "256MiB") if store == "valkey" else ()
        return cls(tidefs, scratch, *nodes, mounts=mounts, clocks=clocks)

    def __enter__(self) -> "Mounted":
        try:
            self.call("up", *self.up, "--mount", str(self.mounts[0]))
            for mount, clock in itertools.zip_longest(self.mounts[1:], self.clocks):
                mount.mkdir()
                self.call("mount", str(mount), clock=clock)
        except BaseException:
            self.call("down", check=False)
            raise
        return self

    def __exit__(self, *_) -> None:
        self.call("down")

    @contextlib.contextmanager
    def one_more(self):
        """One more mount, which may be killed; nothing where a mount is no process of its own."""
        before = set(self.served())
        mount = Path(tempfile.mkdtemp(prefix="extra-", dir=self.scratch))
        self.call("mount", str(mount))
        try:
            servers = [pid for record, pid in self.served().items() if record not in before]
            others = [pid for record, pid in self.served().items() if record in before]
            is_own = len(servers) == 1 and servers[0] not in others
            yield Extra(mount, servers[0]) if is_own else None
        finally:
            self.call("umount", str(mount), check=False)
            # What a killed mount leaves in the table.
            subprocess.run(["umount", "--lazy", str(mount)], capture_output=True, check=False)

    def served(self) -> dict[Path, int]:
        """The process behind each mount, by its record."""
        records = Path(self.state).rglob("mounts/*.json")
        return {record: json.loads(record.read_text())["owner"]["pid"] for record in records}

    def give_up_after(self, seconds: float, what: str = "its work") -> threading.Timer:
        """Ends this program, whatever hangs in the mount, unless the answer is cancelled before."""

        def give_up() -> None:
            said = f"FAILED: {seconds:.0f} s have passed in {what}; "
            said += f"processes that wait for a mount's answer: {waiting() or 'none'}"
            print(said, file=sys.stderr, flush=True)
            try:
                self.call("down", check=False)
            finally:
                os._exit(1)

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        return timer

    def call(self, *words: str, check: bool = True, clock: HostClock | None = None) -> str:
        done = subprocess.run(
            [self.tidefs, "--state", self.state, *words],
            env=self.environment | (clock.environment if clock else {}),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout}")
        return done.stdout.strip()

    def status(self) -> dict:
        return json.loads(self.call("status", "--json"))
