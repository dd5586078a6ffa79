"""The ways in which a file system comes by more nodes, each with the words and the places that are its own; see
provisioners.py, which has what is tried on all of them.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from islands import Island, Sea, until
from joined import MOUNT, PORT, dies_at_once
from provisioned import CALLS, MODE, PROGRAM, TEXT
from slurm_cluster import Slurm
from sshd import Shells, put

LIST = "/home/user/hosts"
REPORT = "/home/user/report"
GO = f"{MOUNT}/go"
NODE = "96MiB"
# It begins, waits until it is told to go on, and has an exit status of its own.
COMMAND = f"touch {MOUNT}/begun; until test -e {GO}; do sleep 0.1; done; exit 7"


class Kind:
    """Two hosts; where `is_alone`, all nodes are on the first."""

    name: str
    # Of what is said when none comes.
    reason: str
    is_alone = False
    count = 2

    def __init__(self, sea: Sea):
        self.sea = sea
        self.owner, *self.others = self.hosts = [sea.island(number) for number in range(1, self.count + 1)]
        self.dead: list[Island] = []
        self.prepare()

    def prepare(self) -> None:
        """Makes whatever the hosts need beside the file system."""

    def options(self) -> list[str]:
        """Of `run`."""
        raise NotImplementedError

    def begin(self) -> None:
        self.log = self.sea.scratch / f"run-{time.monotonic_ns()}.log"
        self.running = self.owner.start(self.log, *self.words(), "--", "sh", "-c", COMMAND)
        until(f"{self.name}: it has begun", self._has_begun)

    def words(self) -> list[str]:
        shared = ["--policy", "static", "--mount", MOUNT, "--report", REPORT]
        return ["tidefs", "run", *self.options(), *shared]

    def _has_begun(self) -> bool:
        if self.running.poll() is not None:
            raise AssertionError(f"it ended: {self.log.read_text()}")
        return self.owner.run("test", "-e", f"{MOUNT}/begun").returncode == 0

    def end(self) -> None:
        self.owner.call("touch", GO)
        if (ended := self.running.wait(timeout=60)) != 7:
            raise AssertionError(f"{self.name}: it ended with {ended}: {self.log.read_text()}")

    def nodes_elsewhere(self) -> list[int]:
        """Servers that came, on whichever host."""
        return [pid for host in self.others for pid in host.pids("server")]

    def has_come(self) -> None:
        if not self.nodes_elsewhere():
            raise AssertionError(f"{self.name}: no other host has a node")

    def is_elsewhere(self, nodes: list[dict]) -> bool:
        """A host whose node has just gone has the next one in reserve a moment later; meanwhile another one grows."""
        return not self.others or any(
            node["endpoint"].startswith(f"{host.address}:") for node in nodes for host in self.others
        )

    def has_gone(self) -> bool:
        """A host of a list stays, with an empty node in reserve."""
        return True

    def kill_what_came(self) -> None:
        (host,) = [host for host in self.others if host.pids("server")]
        dies_at_once(host)
        self.dead.append(host)

    def keeps(self) -> str:
        """What is left beside what hosts have of the file system."""
        return ""

    def asks_in_vain(self) -> str:
        """What is said where none comes."""
        raise NotImplementedError

    def refused(self, options: list[str]) -> str:
        """What a run says that does not begin."""
        done = self.owner.run("tidefs", "run", *options, "--", "touch", "/home/user/ran")
        if done.returncode == 0 or self.owner.run("test", "-e", "/home/user/ran").returncode == 0:
            raise AssertionError(f"{self.name}: it ran: {done}")
        return done.stderr


class Local(Kind):
    """Servers that the first host starts."""

    name, reason, count = "local", "server cannot be run; name a Valkey", 1
    server = "/home/user/server"

    def prepare(self) -> None:
        self.owner.call("cp", "/opt/server", self.server)

    def options(self) -> list[str]:
        return ["--nodes", "1..3", "--node-memory", NODE, "--server", self.server]

    def nodes_elsewhere(self) -> list[int]:
        """The youngest, which is none of others."""
        began = {}
        for pid in self.owner.pids("server"):
            # One that has ended meanwhile is none.
            with contextlib.suppress(OSError):
                began[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        return sorted(began, key=began.get)[1:]

    def has_gone(self) -> bool:
        return not self.nodes_elsewhere()

    def kill_what_came(self) -> None:
        (pid,) = self.nodes_elsewhere()
        os.kill(pid, signal.SIGKILL)

    def asks_in_vain(self) -> str:
        """The program that servers run is not there any more when one more is to start."""
        self.begin()
        self.owner.call("mv", self.server, f"{self.server}.away")
        said = self.owner.run("tidefs", "scale", "2").stderr
        self.owner.call("mv", f"{self.server}.away", self.server)
        self.end()
        return said


class OverSsh(Kind):
    """Hosts of a list, whose agents have nodes in reserve."""

    name, reason = "ssh", "host2: no connection"

    def prepare(self) -> None:
        shells = Shells(self.owner)
        for host in self.others:
            shells.serve(host, self.sea.scratch / f"sshd-{host.name}.log")
        put(self.owner, LIST, "".join(f"{host.name} memory={NODE}\n" for host in self.hosts))

    def options(self) -> list[str]:
        return ["--nodes", "1..3", "--node-memory", NODE, "--hosts", LIST]

    def asks_in_vain(self) -> str:
        """Nobody listens there any more: the host's server of logins has died with all else."""
        return self.refused(self.options())


class InAJob(Kind):
    """Nodes of a job of Slurm, whose agents have nodes in reserve."""

    name, reason = "slurm", "is not empty"
    memory = ("-N", "2", "-n", "2", "--mem=400")

    def prepare(self) -> None:
        self.slurm = Slurm(self.sea, self.hosts)

    def options(self) -> list[str]:
        return ["--slurm", "--nodes", "1..3", "--node-memory", NODE]

    def begin(self) -> None:
        words = " ".join(self.words())
        self.job = self.slurm.submit(f"exec {words} -- sh -c '{COMMAND}'", *self.memory)
        until("the job has begun", lambda: self.owner.run("test", "-e", f"{MOUNT}/begun").returncode == 0)

    def end(self) -> None:
        self.owner.call("touch", GO)
        if (ended := self.slurm.ended(self.job)) != "FAILED 7:0":
            raise AssertionError(f"the job is {ended}: {self.slurm.output(self.job)}")

    def kill_what_came(self) -> None:
        """All that belongs to the file system there; Slurm would end the whole job with its own."""
        (host,) = self.others
        for pid in host.pids("tidefs") + host.pids("server"):
            os.kill(pid, signal.SIGKILL)
        self.dead.append(host)

    def asks_in_vain(self) -> str:
        """A node of the job has no place for the mount."""
        (host,) = self.others
        host.sh(f"mkdir -p {MOUNT} && touch {MOUNT}/mine")
        job = self.slurm.submit(f"exec {' '.join(self.words())} -- true", *self.memory)
        ended, said = self.slurm.ended(job), self.slurm.output(job)
        if not ended.startswith("FAILED"):
            raise AssertionError(f"the job is {ended}: {said}")
        host.sh(f"rm -r {MOUNT}")
        return said


class ByACommand(Kind):
    """A program of the user's, which has two more hosts join over SSH."""

    name, reason, count = "command", "the quota is used up", 3

    def prepare(self) -> None:
        shells = Shells(self.owner)
        for host in self.others:
            shells.serve(host, self.sea.scratch / f"sshd-{host.name}.log")
        put(self.owner, PROGRAM, TEXT)
        put(self.owner, CALLS, "")
        put(self.owner, MODE, "good")
        self.owner.sh(f"chmod +x {PROGRAM}")

    def options(self) -> list[str]:
        asked = ["--provision-command", PROGRAM, "--listen", f"{self.owner.address}:{PORT}"]
        return ["--nodes", "1..3", "--node-memory", NODE, *asked]

    def has_gone(self) -> bool:
        return not self.nodes_elsewhere() and not self.keeps()

    def keeps(self) -> str:
        """Hosts that the program has lent and that nobody has given back."""
        return self.owner.sh("ls -d /home/user/has-* 2> /dev/null; true")

    def asks_in_vain(self) -> str:
        self.begin()
        put(self.owner, MODE, "fails")
        said = self.owner.run("tidefs", "scale", "2").stderr
        put(self.owner, MODE, "good")
        self.end()
        return said + self.log.read_text()


KINDS: list[type[Kind]] = [Local, OverSsh, InAJob, ByACommand]
