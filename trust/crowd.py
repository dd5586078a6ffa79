"""A user of the machine who takes all connections of a node, again and again, and says nothing on them."""

import contextlib
# Loaded while it can be: another user may not be let into Python's folders.
import encodings.idna  # noqa: F401
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from mounted import Mounted

# A server takes 4,096, of which the file system has some.
CONNECTIONS = 4_600
CONNECTIONS_LEAST = 4_000
SECONDS_MAX = 120


def crowd(port: int, stranger: int) -> int:
    """A process of his that holds all that it can get, and takes each again that the server ends.

    Answers the process, once it has `CONNECTIONS_LEAST` at the same time; it ends by itself.
    """
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(told)
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            # He has to be quicker than those who end his connections, whatever else the machine does.
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, 0, -20)
            os.setgroups([])
            os.setgid(stranger)
            os.setuid(stranger)
            hold(port, tells)
        except BaseException as error:
            print(f"crowd: {error!r}", file=sys.stderr)
        finally:
            os._exit(0)
    os.close(tells)
    with os.fdopen(told, "rb") as said:
        if (had := said.read(1)) != b"!":
            had = (had + said.read()).decode() or "none"
            raise AssertionError(
                f"the attack did not come about: of {CONNECTIONS_LEAST} connections of port {port} another user "
                f"had {had} at most within {SECONDS_MAX} s"
            )
    return child


def hold(port: int, tells: int) -> None:
    end = time.monotonic() + SECONDS_MAX
    ended = select.epoll()
    held: dict[int, socket.socket] = {}
    most = 0
    while time.monotonic() < end:
        for one, _ in ended.poll(0 if len(held) < CONNECTIONS else 0.05):
            ended.unregister(one)
            held.pop(one).close()
        with contextlib.suppress(OSError):
            if len(held) < CONNECTIONS:
                line = socket.create_connection(("127.0.0.1", port), timeout=0.2)
                held[line.fileno()] = line
                ended.register(line.fileno(), select.EPOLLRDHUP | select.EPOLLHUP)
        most = max(most, len(held))
        if tells and len(held) >= CONNECTIONS_LEAST:
            os.write(tells, b"!")
            os.close(tells)
            tells = 0
    if tells:
        os.write(tells, b"%d" % most)


def stands(tidefs: Path, stranger: int) -> str | None:
    """Programs work, and a mount begins, while he does so on all nodes; answers what did not hold."""
    with tempfile.TemporaryDirectory(prefix="tc", dir="/tmp") as folder:
        up = ("--nodes", "2", "--policy", "static", "--node-memory", "128MiB", "--listen", "127.0.0.1:0")
        with Mounted(tidefs, Path(folder), *up) as mounted:
            nodes = json.loads((Path(mounted.state) / "up/cluster.json").read_text())["nodes"]
            ports = [int(node["address"].rpartition(":")[2]) for node in nodes]
            crowds = []
            try:
                crowds += [crowd(port, stranger) for port in ports]
                return works(mounted.mounts[0]) or joins(mounted)
            finally:
                for one in crowds:
                    os.kill(one, signal.SIGKILL)
                    os.waitpid(one, 0)


def refused(port: int, stranger: int) -> str | None:
    """What he gets who wants a connection there."""
    child = os.fork()
    if child == 0:
        ended = 2
        try:
            os.setgroups([])
            os.setgid(stranger)
            os.setuid(stranger)
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            ended = 1
        except ConnectionRefusedError:
            ended = 0
        finally:
            os._exit(ended)
    _, status = os.waitpid(child, 0)
    match os.waitstatus_to_exitcode(status):
        case 0:
            return None
        case 1:
            return f"another user is connected to port {port}"
        case other:
            return f"whether another user reaches port {port} was not found out: {other}"


def reaches(tidefs: Path, stranger: int) -> str | None:
    """Of nodes that this machine alone uses he reaches neither port nor bus, also of one that came later."""
    with tempfile.TemporaryDirectory(prefix="tc", dir="/tmp") as folder:
        up = ("--nodes", "2..3", "--policy", "static", "--node-memory", "128MiB")
        with Mounted(tidefs, Path(folder), *up) as mounted:
            mounted.call("scale", "3")
            nodes = json.loads((Path(mounted.state) / "up/cluster.json").read_text())["nodes"]
            if len(nodes) != 3:
                return f"there are {len(nodes)} nodes instead of 3"
            for node in nodes:
                port = int(node["address"].rpartition(":")[2])
                if wrong := refused(port, stranger) or refused(node["bus_port"], stranger):
                    return wrong
            return works(mounted.mounts[0]) or joins(mounted)


def works(mount: Path) -> str | None:
    """More programs than the mount had connections until now."""
    failures: list[str] = []

    def program(number: int) -> None:
        content = os.urandom(300_000)
        try:
            for round in range(20):
                file = mount / f"{number}-{round}"
                file.write_bytes(content)
                if file.read_bytes() != content:
                    failures.append(f"{file} is not what was written")
                file.unlink()
        except OSError as error:
            failures.append(f"a program fails: {error}")

    programs = [threading.Thread(target=program, args=(number,)) for number in range(12)]
    for one in programs:
        one.start()
    for one in programs:
        one.join()
    return failures[0] if failures else None


def joins(mounted: Mounted) -> str | None:
    with mounted.one_more() as extra:
        return works(extra.mount)
