#!/usr/bin/python3
"""A user of the machine who is not the file system's: what he reaches, and that it helps him nothing.

He knows every port, process and path.  As another user he
  * reads what lies about: no secret, key or byte of a file is in anything that he can open;
  * speaks to each port, in clear and by TLS without a certificate, and is answered nothing;
  * greets the nodes on their bus, as a node of his own and with an address that is no text;
  * answers on every port that is left, and on that of a node that has ended: nobody tells him anything;
  * connects to the sockets, sends signals, and looks into processes.
  * takes all connections that a node has to give, again and again.
All the while a program writes and reads, nodes come and go, and a check is made: nothing fails, and
tables of nodes have no others.  Between two hosts, one of which is his, what answers at the address of a
node that has ended is told no secret either.  And a lender, with all that his node was given and told,
is let in by no node but his own.

Exit status 0 when all held, 1 when something did not.  Needs root, to be another user;
`TIDEFS_TEST_WITHOUT=intruders` leaves it out.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import crowd
from knowing_lender import knows
from lenders import TooLate
from mounted import TIDEFS, Mounted, is_left_out
from network import a_bed, on

# Debian's `nobody`.
STRANGER = 65_534
SECONDS_MAX = 60
CONTENT = os.urandom(64 << 10).hex().encode()


class Intrusion(Exception):
    """Something that the stranger should not have had."""


def greeting(address: bytes, port: int, bus_port: int) -> bytes:
    """By which a server takes somebody into its table who is where he says."""
    head = b"RCmb" + struct.pack(">IHHHH", 2_256, 1, port, 2, 0) + bytes(24) + b"e" * 40
    body = bytes(2_048 + 40) + address[:46].ljust(46, b"\0") + bytes(2 + 30 + 2)
    return head + body + struct.pack(">HHB", bus_port, 1, 0) + bytes(3)


def as_stranger(act) -> None:
    """In a process of his; what it raises is raised here."""
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            act()
            os.write(tells, b"held")
        except BaseException as error:
            os.write(tells, f"{type(error).__name__}: {error}".encode()[:4_000])
        finally:
            os._exit(0)
    os.close(tells)
    with os.fdopen(told, "rb") as said:
        words = said.read().decode()
    os.waitpid(child, 0)
    if words != "held":
        raise Intrusion(words)


def secrets(state: Path) -> list[bytes]:
    """What nobody else may have, as it stands in files."""
    found = [(state / "secret").read_bytes()]
    for key in [state / "credentials", *state.glob("nodes/*/key.pem")]:
        text = key.read_text().replace("\\n", "\n")
        found += [line.encode() for line in text.splitlines() if len(line) > 60 and "-" not in line]
    return [*found, CONTENT[:64]]


def reads_nothing(state: list[Path], pids: list[int], known: list[bytes]) -> None:
    files = state + [Path(f"/proc/{pid}/{name}") for pid in pids for name in ("environ", "mem", "cmdline", "maps")]
    for file in files:
        with contextlib.suppress(OSError):
            read = file.read_bytes()
            if any(one in read for one in known):
                raise Intrusion(f"{file} has a secret")
    for pid in pids:
        with contextlib.suppress(PermissionError):
            os.kill(pid, signal.SIGTERM)
            raise Intrusion(f"process {pid} can be ended")


def sockets_are_shut(names: list[str]) -> None:
    for name in names:
        with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
            line.connect(name)
            raise Intrusion(f"{name} lets a stranger connect")


def hears_nothing(port: int) -> None:
    """A port that listens: whatever is said there gets no answer but TLS's own refusal."""
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    words = [b"*1\r\n$4\r\nPING\r\n", b"AUTH tidefs x\r\n", b"CLUSTER MEET 127.0.0.1 1 2\r\n"]
    words += [greeting(b"127.0.0.1", 7, 8), greeting(b"\xff\xfe no text", 7, 8), greeting(b"a\nb", 7, 8)]
    for said in words:
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
                line.sendall(said)
                line.settimeout(1)
                heard = line.recv(4_096)
                # An alert of TLS is 0x15.
                if heard and heard[:1] != b"\x15":
                    raise Intrusion(f"port {port} answers {said[:20]!r} with {heard[:80]!r}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            with context.wrap_socket(plain) as line:
                line.sendall(words[0])
                if heard := line.recv(4_096):
                    raise Intrusion(f"port {port} answers without a certificate: {heard[:80]!r}")


class Impostor(threading.Thread):
    """Answers at a port that a node has left, and keeps what it is told."""

    def __init__(self, port: int, address: str = "127.0.0.1"):
        super().__init__(daemon=True)
        self.heard: list[bytes] = []
        self.listening = socket.create_server((address, port))

    def run(self) -> None:
        while True:
            try:
                line, _ = self.listening.accept()
            except OSError:
                return
            with line, contextlib.suppress(OSError):
                line.settimeout(2)
                self.heard.append(line.recv(1 << 16))
                line.sendall(b"+OK\r\n+OK\r\n:1\r\n")
                self.heard.append(line.recv(1 << 16))

    def close(self) -> bytes:
        self.listening.close()
        return b"".join(self.heard)


def works(mounted: Mounted) -> None:
    """A file can be written, read and removed, and the nodes are those of the owner."""
    file = mounted.mounts[0] / "content"
    file.write_bytes(CONTENT)
    if file.read_bytes() != CONTENT:
        raise Intrusion("a file is not what was written")
    file.unlink()
    mounted.call("fsck")


def must_see(what: str, act) -> None:
    """What a check would miss, it is made to find: as root, or where the network is trusted."""
    try:
        act()
    except Intrusion:
        return
    raise AssertionError(f"{what}: the check finds nothing where there is something")


def between_hosts(tidefs: Path, *options: str) -> bytes:
    """What is heard by whoever answers on another host where a node was, while mounts want that node."""
    with a_bed("i", tidefs, ["none", "none"]) as bed:
        bed.start(tidefs, "--node-memory", "64MiB", *options)
        near, far = bed.hosts()
        node = next(it for it in entries(bed.state / "up") if it["address"].startswith(f"{far.address}:"))
        os.kill(node["process"]["pid"], signal.SIGKILL)
        port = node["address"].rpartition(":")[2]
        words = ("/usr/bin/python3", "-c", ANSWERS, far.address, port)
        impostor = on(far, *words, stdout=subprocess.PIPE)
        try:
            assert impostor.stdout.readline() == b"ready\n"
            asking = [
                on(near, "/usr/bin/touch", near.mount / str(number), stderr=subprocess.DEVNULL)
                for number in range(8)
            ]
            heard = b"".join(bytes.fromhex(impostor.stdout.readline().decode()) for _ in range(2))
            for one in asking:
                one.kill()
                one.wait(timeout=SECONDS_MAX)
            return heard
        finally:
            impostor.kill()
            impostor.wait()


# Answers as a server does that lets everybody in, and says what it was told.
ANSWERS = """
import socket, sys
listening = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    line, _ = listening.accept()
    with line:
        line.settimeout(1)
        try:
            print(line.recv(1 << 16).hex(), flush=True)
            line.sendall(b"+OK\\r\\n+OK\\r\\n:1\\r\\n")
        except OSError:
            pass
"""


def entries(state: Path) -> list[dict]:
    return json.loads((state / "cluster.json").read_text())["nodes"]


def run(tidefs: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ti", dir="/tmp") as folder:
        scratch = Path(folder)
        # The way to it is open, as in a home that others may enter.
        scratch.chmod(0o755)
        # Where lenders may join, nodes are at ports that every user reaches.
        up = ("--nodes", "2..3", "--policy", "static", "--node-memory", "64MiB", "--listen", "127.0.0.1:0")
        with Mounted(tidefs.resolve(), scratch, *up) as mounted:
            state = Path(mounted.state) / "up"
            kept = mounted.mounts[0] / "kept"
            kept.write_bytes(CONTENT)
            nodes, known = entries(state), secrets(state)
            pids = [node["process"]["pid"] for node in nodes]
            names = [node["socket"] for node in nodes]
            names += [str(path) for path in state.iterdir() if path.is_socket()]
            files = [path for path in state.rglob("*") if path.is_file()]
            must_see("files", lambda: reads_nothing(files, pids, known))
            as_stranger(lambda: reads_nothing(files, pids, known))
            must_see("sockets", lambda: sockets_are_shut(names))
            as_stranger(lambda: sockets_are_shut(names))
            for node in nodes:
                port = int(node["address"].rpartition(":")[2])
                for one in (port, node["bus_port"]):
                    as_stranger(lambda: hears_nothing(one))
            works(mounted)
            mounted.call("scale", "3")
            gone = next(node for node in entries(state) if node not in nodes)
            mounted.call("scale", "2")
            left = [node for node in [*nodes, gone] if node not in entries(state)]
            impostors = [Impostor(int(node["address"].rpartition(":")[2])) for node in left]
            impostors += [Impostor(node["bus_port"]) for node in left]
            for impostor in impostors:
                impostor.start()
            works(mounted)
            mounted.call("scale", "3")
            works(mounted)
            heard = b"".join(impostor.close() for impostor in impostors)
            if b"AUTH" in heard or any(one in heard for one in known):
                raise Intrusion(f"an impostor was told {heard[:200]!r}")
            if kept.read_bytes() != CONTENT:
                raise Intrusion("a file has changed")
            listed = {node["id"] for node in mounted.status()["nodes"]}
            if listed != {node["id"] for node in entries(state)}:
                raise Intrusion(f"status lists {listed}")


def trusted(tidefs: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ti", dir="/tmp") as folder:
        up = ("--nodes", "1", "--node-memory", "64MiB", "--network", "trusted", "--listen", "127.0.0.1:0")
        with Mounted(tidefs.resolve(), Path(folder), *up) as mounted:
            for node in entries(Path(mounted.state) / "up"):
                port = int(node["address"].rpartition(":")[2])
                must_see("ports", lambda: hears_nothing(port))
                must_see("the bus", lambda: hears_nothing(node["bus_port"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    options = parser.parse_args()
    if is_left_out("intruders"):
        return 0
    if os.geteuid() != 0:
        print("intruders: needs root, to be another user", file=sys.stderr)
        return 1
    begun = time.monotonic()
    try:
        run(options.tidefs)
        trusted(options.tidefs)
        if b"AUTH" in between_hosts(options.tidefs.resolve()):
            raise Intrusion("what answered on another host where a node was is told a secret")
        if b"AUTH" not in between_hosts(options.tidefs.resolve(), "--network", "trusted"):
            raise AssertionError("the check of another host finds nothing where there is something")
        if stopped := crowd.stands(options.tidefs.resolve(), STRANGER):
            raise Intrusion(stopped)
        if reached := crowd.reaches(options.tidefs.resolve(), STRANGER):
            raise Intrusion(reached)
        if known := knows(options.tidefs.resolve()):
            raise Intrusion(known)
    except (Intrusion, TooLate, AssertionError, subprocess.SubprocessError, OSError) as error:
        print(f"intruders: {error}", file=sys.stderr)
        return 1
    print(f"another user learnt, changed and stopped nothing, and a lender was let in nowhere else, in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
