"""A test bed: hosts that a bridge joins, and the file system on them; see testbed.py."""

import contextlib
import ipaddress
import json
import os
import re
import shutil
import stat
import subprocess
import zlib
from pathlib import Path

from hosts import (
    HOSTS_MAX,
    PREFIX,
    PROJECT,
    RELAYED_MTU,
    Failure,
    Host,
    Memory,
    ended,
    is_running,
    run,
    sweep_lenders,
)
from precedence import Precedence


class Bed:
    """Hosts that are there, or that are to be made."""

    def __init__(self, name: str):
        if not re.fullmatch(r"[a-z0-9]{1,6}", name):
            raise Failure(f"{name!r} is no name of a test bed: give up to 6 letters and digits")
        self.name, self.prefix = name, f"{PREFIX}{name}-"
        self.bridge, self.folder = f"{PREFIX}{name}", Path("/tmp") / f"{PREFIX}{name}"
        self.state = self.folder / "state"
        # Where the machine itself mounts it.
        self.mount = self.folder / "tide"
        self.hosts_file = self.folder / "hosts"
        self.record = self.folder / "bed.json"
        self._network = None

    @property
    def network(self) -> ipaddress.IPv4Network:
        if self._network is None:
            self._network = ipaddress.ip_network(self.read()["network"])
        return self._network

    def read(self) -> dict:
        try:
            return json.loads(self.record.read_text())
        except FileNotFoundError as error:
            raise Failure(f"there is no test bed {self.name}; make it: testbed.py up") from error

    def hosts(self) -> list[Host]:
        return [Host(self, number + 1) for number in range(self.read()["hosts"])]

    def host(self, name: str) -> Host:
        found = next((host for host in self.hosts() if name == host.name), None)
        if found is None:
            raise Failure(f"there is no host {name} in the test bed {self.name}")
        return found

    def up(
        self,
        rates: list[str],
        memory: int = 512 << 20,
        latency_ms: float = 0.0,
        loss: float = 0.0,
        owner: int = 0,
    ) -> list[Host]:
        """Makes the hosts, without a file system.  What is half made is removed."""
        if not 1 <= len(rates) <= HOSTS_MAX:
            raise Failure(f"{len(rates)} hosts are not within 1 to {HOSTS_MAX}")
        if self.folder.exists():
            raise Failure(f"there is a test bed {self.name} already; remove it: testbed.py down")
        try:
            return self._make(rates, memory, latency_ms, loss, owner)
        except BaseException:
            self.down()
            raise

    def _make(self, rates, memory, latency_ms, loss, owner) -> list[Host]:
        self.folder.mkdir(mode=0o700)
        self._network = free_network(self.name)
        known = {"network": str(self._network), "hosts": len(rates), "owner": owner}
        self.record.write_text(json.dumps(known))
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "link", "set", self.bridge, "up")
        last = f"{self._network[-2]}/{self._network.prefixlen}"
        run("ip", "addr", "add", last, "dev", self.bridge)
        hosts = self.hosts()
        relayed = latency_ms > 0 or loss > 0
        for host, rate in zip(hosts, rates):
            run("ip", "netns", "add", host.space)
            if relayed:
                self._relay(host, latency_ms, loss)
            host.make(rate, memory, relayed)
        if relayed:
            for host in hosts:
                run("ip", "link", "set", host.port, "mtu", RELAYED_MTU)
                run("ip", "-n", host.space, "link", "set", "eth0", "mtu", RELAYED_MTU)
            run("ip", "link", "set", self.bridge, "mtu", RELAYED_MTU)
        lines = [f"{host.name} {host.address} {host.enter}" for host in hosts]
        self.hosts_file.write_text("\n".join(lines) + "\n")
        return hosts

    def _relay(self, host: Host, latency_ms: float, loss: float) -> None:
        """The link of a host whose name space is there: half of the latency each way."""
        words = [PROJECT / "trust/relay.py", host.port, "--space", host.space]
        words += [f"--bed={self.name}", "--latency-ms", latency_ms / 2, "--loss", loss]
        log = self.folder / f"relay-{host.name}.log"
        # Whoever reads what its starter says would wait for its end, if it had the same stream.
        with log.open("w") as said:
            relay = subprocess.Popen(
                ["/usr/bin/python3", *map(str, words), "--seed", str(host.number)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        if relay.stdout.readline() != b"ready\n":
            ended_with = relay.wait(timeout=10)
            raise Failure(f"the relay of {host.name} ended with {ended_with}: {log.read_text()}")

    def environment(self) -> dict[str, str]:
        return {**os.environ, "TIDEFS_STATE": str(self.state)}

    def tidefs(self, tidefs: Path, *words: object, host: Host | None = None) -> str:
        """Runs a command of the file system, on a host or on the machine itself."""
        where = [host.enter] if host else []
        return run(*where, tidefs, *words, env=self.environment(), cwd=self.folder)

    def start(self, tidefs: Path, *options: object) -> None:
        """A node and a mount on each host, and a mount on the machine itself."""
        self.tidefs(tidefs, "up", "--host-commands", self.hosts_file, "--mount", self.mount, *options)
        for host in self.hosts():
            self.tidefs(tidefs, "mount", host.mount, host=host)

    def status(self, tidefs: Path) -> dict:
        return json.loads(self.tidefs(tidefs, "status", "--json"))

    def down(self, tidefs: Path | None = None) -> None:
        """Removes all that carries its name.  May be repeated, and finds what others left."""
        spaces = [name for name in names_of("netns") if name.startswith(self.prefix)]
        if tidefs and self.state.exists():
            # What it does not end is ended below.
            with contextlib.suppress(Failure, subprocess.TimeoutExpired):
                self.tidefs(tidefs, "down")
        ended(self._own_processes())
        for space in spaces:
            ended([int(pid) for pid in run("ip", "netns", "pids", space).split()])
        self._unmount()
        groups = Memory("").parent.glob(f"{self.prefix}h*")
        for group in groups:
            Memory(group.name).remove()
        Precedence(self).remove()
        sweep_lenders()
        for space in spaces:
            run("ip", "netns", "del", space)
        for link in names_of("link"):
            if link == self.bridge or link.startswith(self.prefix):
                with contextlib.suppress(Failure):
                    run("ip", "link", "del", link)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.exists():
            raise Failure(f"{self.folder} cannot be removed")

    def _own_processes(self) -> list[int]:
        """Those that were started for the file system, by the state in their environment, or to
        relay, by its name in their words; none that this process descends from."""
        found, spared = [], lineage()
        for process in Path("/proc").iterdir():
            if not process.name.isdigit() or int(process.name) in spared:
                continue
            try:
                environment = (process / "environ").read_bytes().split(b"\0")
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            state = f"TIDEFS_STATE={self.state}"
            marks = any(it.decode(errors="replace").startswith(state) for it in environment)
            if marks or f"--bed={self.name}".encode() in words:
                found.append(int(process.name))
        return found

    def _unmount(self) -> None:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.folder}/"):
                run("umount", "--lazy", mount)


def lineage() -> list[int]:
    """This process and all that it descends from."""
    found = [os.getpid()]
    while found[-1] > 1:
        line = Path(f"/proc/{found[-1]}/stat").read_text()
        found.append(int(line.rpartition(")")[2].split()[1]))
    return found


def names_of(kind: str) -> list[str]:
    if kind == "netns":
        return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line]
    return [link["ifname"] for link in json.loads(run("ip", "-j", "link"))]


def free_network(name: str) -> ipaddress.IPv4Network:
    """One that nobody has here; which one is tried first follows from the name."""
    links = json.loads(run("ip", "-j", "-4", "addr"))
    taken = [
        ipaddress.ip_network(f"{at['local']}/{at['prefixlen']}", strict=False)
        for link in links
        for at in link["addr_info"]
    ]
    first = zlib.crc32(name.encode())
    for number in range(1 << 14):
        chosen = (first + number) % (1 << 14)
        network = ipaddress.ip_network((f"10.{64 + (chosen >> 8)}.{chosen & 255}.0", 24))
        if not any(network.overlaps(other) for other in taken):
            return network
    raise Failure("all networks from 10.64.0.0 to 10.127.255.0 are in use")


def beds() -> list[Bed]:
    """All of this user whose folders are there; in /tmp others may have put what looks like one."""
    found = []
    for record in sorted(Path("/tmp").glob(f"{PREFIX}*/bed.json")):
        with contextlib.suppress(Failure, OSError, ValueError):
            folder = record.parent.lstat()
            is_ours = stat.S_ISDIR(folder.st_mode) and folder.st_uid == os.geteuid()
            bed = Bed(record.parent.name.removeprefix(PREFIX))
            if is_ours and is_record(bed.read()):
                found.append(bed)
    return found


def is_record(found: object) -> bool:
    """Whether this is what `up` writes down."""
    if not isinstance(found, dict):
        return False
    try:
        ipaddress.ip_network(found["network"])
    except (KeyError, TypeError, ValueError):
        return False
    hosts, owner = found.get("hosts"), found.get("owner", 0)
    return type(hosts) is int and 1 <= hosts <= HOSTS_MAX and type(owner) is int and owner >= 0


def sweep() -> None:
    """Removes test beds whose owners have ended."""
    for bed in beds():
        with contextlib.suppress(Failure, ValueError):
            owner = bed.read().get("owner", 0)
            if owner and not is_running(owner):
                bed.down()
