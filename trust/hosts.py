"""The hosts of a test bed: their names, links and memory; see testbed.py."""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
# Of all names: interfaces, name spaces, cgroups, folders.
PREFIX = "tt-"
HOSTS_MAX = 64
# How long any command may take.
COMMAND_SECONDS_MAX = 120
# How long processes have to end, and what they started to go.
END_SECONDS_MAX = 30
# What passes at once at full speed.
BURST_BYTES = 128 << 10
# Of a frame that a host hands out.  The kernel hands out as many at once as one of 64 KiB, and of
# those four would fill a queue: each that is dropped is a hole that TCP takes seconds to fill.
FRAME_BYTES = 8_000
# So much waits for its turn before frames are dropped.
QUEUE_BYTES = 256 << 10
# The relay hands over frame by frame; larger ones cost it less.
RELAYED_MTU = 9_000
CGROUPS = Path("/sys/fs/cgroup")
# What `tidefs lend` calls its groups begins like this.
LENDERS = "tidefs-lend-"


class Failure(Exception):
    """What happened, for people."""


def run(*words: object, **options) -> str:
    words = [str(word) for word in words]
    options = {"timeout": COMMAND_SECONDS_MAX, **options}
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stdout}{done.stderr}".strip())
    return done.stdout


def ended(pids: list[int]) -> None:
    """Ends processes, which may be gone, and waits for that."""
    deadline = time.monotonic() + END_SECONDS_MAX
    while pids and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
        pids = [pid for pid in pids if is_running(pid)]
    if pids:
        raise Failure(f"processes do not end: {pids}")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


class Memory:
    """The memory cgroup of a host, of either version."""

    def __init__(self, name: str):
        self.is_second = (CGROUPS / "cgroup.controllers").exists()
        parent = CGROUPS if self.is_second else CGROUPS / "memory"
        self.folder, self.parent = parent / name, parent

    def make(self, limit: int) -> None:
        if self.is_second:
            (self.parent / "cgroup.subtree_control").write_text("+memory")
        self.folder.mkdir(exist_ok=True)
        name = "memory.max" if self.is_second else "memory.limit_in_bytes"
        (self.folder / name).write_text(str(limit))

    def read(self) -> tuple[int, int]:
        """What is used, and the most that may be."""
        names = ("memory.current", "memory.max")
        names = names if self.is_second else ("memory.usage_in_bytes", "memory.limit_in_bytes")
        return tuple(int((self.folder / name).read_text()) for name in names)

    def pids(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError):
            return [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]
        return []

    def remove(self) -> None:
        ended(self.pids())
        # A killed lender leaves the group of its node, whose processes end with it.
        for below in self.folder.glob(f"{LENDERS}*"):
            Memory(f"{self.folder.name}/{below.name}").remove()
        deadline = time.monotonic() + END_SECONDS_MAX
        while self.folder.exists():
            try:
                self.folder.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise Failure(f"cannot remove {self.folder}: {error}") from error
                time.sleep(0.05)


def sweep_lenders() -> None:
    """Removes the groups of lenders that have ended, where these are not below a host's: those for
    the processors, and all of version 2.  A lender that lives has a lock on its own."""
    for group in (*(CGROUPS / "cpu").glob(f"{LENDERS}*"), *CGROUPS.glob(f"{LENDERS}*")):
        with contextlib.suppress(OSError):
            descriptor = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                group.rmdir()
            finally:
                os.close(descriptor)


class Host:
    """One of them; number 1 is called h1."""

    def __init__(self, bed: "Bed", number: int):
        self.bed, self.number, self.name = bed, number, f"h{number}"
        self.space = f"{bed.prefix}{self.name}"
        # The bridge's end of the link.
        self.port = f"{bed.prefix}{number}"
        self.memory = Memory(self.space)
        self.mount = bed.folder / self.name
        self.enter = bed.folder / f"enter-{self.name}"

    @property
    def address(self) -> str:
        return str(self.bed.network[self.number])

    def make(self, rate: str, memory: int, relayed: bool) -> None:
        run("ip", "-n", self.space, "link", "set", "lo", "up")
        if not relayed:
            run("ip", "link", "add", self.port, "type", "veth", "peer", "eth0", "netns", self.space)
        run("ip", "link", "set", self.port, "master", self.bed.bridge, "up")
        run("ip", "-n", self.space, "link", "set", "eth0", "up")
        for where, device in ((["-n", self.space], "eth0"), ([], self.port)):
            run("ip", *where, "link", "set", device, "gso_max_size", FRAME_BYTES)
        width = self.bed.network.prefixlen
        run("ip", "-n", self.space, "addr", "add", f"{self.address}/{width}", "dev", "eth0")
        self.shape(rate)
        self.memory.make(memory)
        self.mount.mkdir()
        self.enter.write_text(
            "#!/bin/sh\n# Becomes a program on the host.\n"
            f"echo $$ > {self.memory.folder}/cgroup.procs || exit 1\n"
            f'exec nsenter --net=/run/netns/{self.space} -- "$@"\n'
        )
        self.enter.chmod(0o700)

    def shape(self, rate: str) -> None:
        """`10mbit` for both directions, `10mbit/20mbit` for what it sends/receives, or `none`."""
        up, _, down = rate.partition("/")
        for where, device, bandwidth in (
            (["-n", self.space], "eth0", up),
            ([], self.port, down or up),
        ):
            if bandwidth == "none":
                with contextlib.suppress(Failure):
                    run("tc", *where, "qdisc", "del", "dev", device, "root")
                continue
            limits = ["rate", bandwidth, "burst", BURST_BYTES, "limit", QUEUE_BYTES]
            run("tc", *where, "qdisc", "replace", "dev", device, "root", "tbf", *limits)

    def rates(self) -> tuple[str, str]:
        found = []
        for where, device in ((["-n", self.space], "eth0"), ([], self.port)):
            said = re.search(r"\brate (\S+)", run("tc", *where, "qdisc", "show", "dev", device))
            found.append(said[1] if said else "none")
        return tuple(found)
