"""Hosts that share nothing but a network: each has a root directory, processes, a network and a name of its own.

What a host has of this machine is read-only: its programs and libraries, the binary, and the server.
Everything that it writes lies in memory of its own, and goes with it.  Needs root.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from pathlib import Path

COMMAND_SECONDS_MAX = 120
NETWORK = "10.77.0"
# Made in a root of its own, which only its processes see; the last of them takes everything along.
MAKE = """set -e
hostname {name}
mount --make-rprivate /
mount -t tmpfs -o size=1g {name} {root}
cd {root}
mkdir -p usr etc dev proc sys tmp run root home/user var/tmp opt mnt
for part in bin sbin lib lib64; do [ ! -e /$part ] || cp -P /$part ./ 2>/dev/null || true; done
for part in usr etc; do mount --bind -o ro /$part $part; done
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
chmod 1777 tmp var/tmp
touch opt/tidefs opt/server
mount --bind {tidefs} opt/tidefs
mount --bind {server} opt/server
exec chroot . /bin/sh -c 'echo ready; while :; do sleep 3600 & wait $!; done'
"""


def ran(*words: object) -> str:
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: {done.stdout}{done.stderr}".strip())
    return done.stdout


class Island:
    """One of the hosts."""

    def __init__(self, sea: "Sea", number: int, up_seconds: int):
        self.name, self.address = f"host{number}", f"{NETWORK}.{number}"
        root = sea.scratch / self.name
        root.mkdir()
        script = MAKE.format(name=self.name, root=root, tidefs=sea.tidefs, server=sea.server)
        spaces = ["--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
        # Its kernel counts on from there.
        self.time = ["-T"] if up_seconds else []
        if up_seconds:
            spaces += ["--time", "--boottime", str(up_seconds)]
        with (sea.scratch / f"{self.name}.log").open("w") as said:
            self.process = subprocess.Popen(
                ["unshare", *spaces, "sh", "-c", script], stdout=subprocess.PIPE, stderr=said, text=True
            )
        if self.process.stdout.readline().strip() != "ready":
            raise AssertionError(f"{self.name} does not start")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.init = int(children.read_text().split()[0])
        self._join(sea, number)

    def _join(self, sea: "Sea", number: int) -> None:
        here, there = f"{sea.name}-{number}", "eth0"
        ran("ip", "-n", sea.name, "link", "add", here, "type", "veth", "peer", there, "netns", self.init)
        ran("ip", "-n", sea.name, "link", "set", here, "master", "sea", "up")
        self.call("ip", "link", "set", "lo", "up")
        self.call("ip", "address", "add", f"{self.address}/24", "dev", there)
        self.call("ip", "link", "set", there, "up")

    def words(self, *words: object) -> list[str]:
        enter = ["nsenter", "-t", str(self.init), "-m", "-n", "-p", "-u", "-i", "-r", "-w", *self.time]
        plain = ["env", "-i", "HOME=/home/user", "PATH=/opt:/usr/sbin:/usr/bin:/sbin:/bin", "TIDEFS_SERVER=/opt/server"]
        return [*enter, *plain, *(str(word) for word in words)]

    def run(self, *words: object) -> subprocess.CompletedProcess:
        """To its end, whatever that is."""
        return subprocess.run(
            self.words(*words), capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX
        )

    def call(self, *words: object) -> str:
        done = self.run(*words)
        if done.returncode != 0:
            said = f"{done.stdout}{done.stderr}".strip()
            raise AssertionError(f"{self.name}: {shlex.join(str(word) for word in words)}: {said}")
        return done.stdout

    def sh(self, script: str) -> str:
        return self.call("sh", "-c", script)

    def start(self, log: Path, *words: object, stdin: int | None = subprocess.DEVNULL) -> subprocess.Popen:
        with log.open("w") as said:
            return subprocess.Popen(self.words(*words), stdin=stdin, stdout=said, stderr=said)

    def pids(self, program: str | None = None) -> list[int]:
        """Of processes of this host, as this machine numbers them: of one program, or of all but the first process."""
        space = os.readlink(f"/proc/{self.init}/ns/pid")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns/pid") != space:
                    continue
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                words = (entry / "cmdline").read_bytes().split(b"\0")
                # A server puts its address behind its name.
                name = Path(words[0].decode().partition(" ")[0]).name
                is_asked = name == program if program else int(entry.name) != self.init
                if state != "Z" and is_asked:
                    found.append(int(entry.name))
        return found

    def kill(self) -> None:
        """All of it at once."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init, signal.SIGKILL)
        self.process.wait(timeout=COMMAND_SECONDS_MAX)


class Sea:
    """The network between them; when it is left nothing of it or them remains."""

    def __init__(self, tidefs: Path, server: Path):
        self.tidefs, self.server = tidefs.resolve(), server.resolve()
        self.name = f"tj{os.getpid()}"

    def __enter__(self) -> "Sea":
        self._stack = contextlib.ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tj", dir="/tmp"))
        self.scratch = Path(folder)
        try:
            ran("ip", "netns", "add", self.name)
            self._stack.callback(ran, "ip", "netns", "delete", self.name)
            ran("ip", "-n", self.name, "link", "add", "sea", "type", "bridge")
            ran("ip", "-n", self.name, "link", "set", "sea", "up")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def island(self, number: int, up_seconds: int = 0) -> Island:
        """`up_seconds`: by how much longer than this machine it has been up."""
        island = Island(self, number, up_seconds)
        self._stack.callback(island.kill)
        return island


def until(what: str, there, seconds: float = COMMAND_SECONDS_MAX):
    """The first answer that is something; a loaded machine takes seconds for what takes a tenth of one."""
    end = time.monotonic() + seconds
    while not (found := there()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)
    return found
