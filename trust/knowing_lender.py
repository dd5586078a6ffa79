"""A lender who keeps all that his node is told and holds, and knocks with it at the owner's nodes.

His node is used, filled and emptied meanwhile, by mounts, the manager and other nodes.  What he has
then is what they said to it, which he reads on the link where the network is trusted; what lies in the
memory of its server, also while that gives everything away; and its certificate with the key.  At a node
of the owner each of these, by each name, has to be refused.
"""

import contextlib
import re
import select
import signal
import socket
import ssl
import struct
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from lenders import Lender, at_rest, until
from mounted import Mounted
from starved import node_of

SAID = re.compile(rb"AUTH2?\r\n\$\d+\r\n([ -~]+)\r\n\$\d+\r\n([ -~]+)\r\n")
SECRET = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
NAMES = {b"default", b"tidefs", b"tidefs-admin", b"tidefs-check"}
EVERY_PROTOCOL = 3
BYTES = bytes(4 << 20)


class Reading(threading.Thread):
    """Of everything that is said on this machine's own link."""

    def __init__(self):
        super().__init__(daemon=True)
        self.line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
        self.line.bind(("lo", 0))
        # Port of who is spoken to, name, secret.
        self.heard: set[tuple[int, bytes, bytes]] = set()
        self.is_over = False

    def run(self) -> None:
        while not self.is_over:
            if not select.select([self.line], [], [], 0.2)[0]:
                continue
            frame = self.line.recv(1 << 17)
            packet = frame[14:]
            if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                continue
            segment = packet[(packet[0] & 15) * 4 :]
            (port,) = struct.unpack(">H", segment[2:4])
            self.heard |= {(port, *said) for said in SAID.findall(segment)}

    def __enter__(self) -> "Reading":
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.is_over = True
        self.join()
        self.line.close()


def in_memory(pid: int) -> set[bytes]:
    """What looks like a secret in what a process may write to."""
    found: set[bytes] = set()
    with contextlib.suppress(OSError):
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                place, rights = line.split()[:2]
                begin, end = (int(word, 16) for word in place.split("-"))
                if rights.startswith("rw"):
                    with contextlib.suppress(OSError):
                        memory.seek(begin)
                        found.update(SECRET.findall(memory.read(end - begin)))
    return found


class Knocking:
    """At a node, with the certificate of the one that was lent where the network is not trusted."""

    def __init__(self, address: str, certificate: Path | None):
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=10)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")
            plain = context.wrap_socket(plain)
        self.line = plain

    def says(self, *words: bytes) -> bytes:
        parts = (b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.line.sendall(b"*%d\r\n%s" % (len(words), b"".join(parts)))
        return self.line.recv(1 << 16)

    def close(self) -> None:
        self.line.close()


def opens(address: str, certificate: Path | None, names: set[bytes], secrets: set[bytes]) -> set[bytes]:
    """Names under which some secret lets him in there."""
    door = Knocking(address, certificate)
    try:
        for question in (b"PING", b"INFO", b"DBSIZE"):
            said = door.says(question)
            if not said.startswith(b"-NOAUTH"):
                raise AssertionError(f"{address} answers {question!r} with {said[:80]!r}")
        tried = ((name, secret) for name in names for secret in secrets)
        return {name for name, secret in tried if door.says(b"AUTH", name, secret).startswith(b"+")}
    finally:
        door.close()


def learn(tidefs: Path, is_trusted: bool) -> tuple[set[bytes], set[bytes]]:
    """Names that open the lent node, and those that open one of the owner's."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tk", dir="/tmp")))
        up = ["--nodes", "1", "--node-memory", "128MiB", "--listen", "127.0.0.1:0"]
        up += ["--network", "trusted"] if is_trusted else []
        reading = stack.enter_context(Reading())
        mounted = stack.enter_context(Mounted(tidefs, scratch, *up))
        kept = mounted.mounts[0] / "kept"
        lender = stack.enter_context(Lender(mounted, "64MiB"))
        until("the node is in use", lambda: at_rest(mounted, 1))
        kept.write_bytes(BYTES)
        mounted.call("fsck")
        status = {node["class"]: node["endpoint"] for node in mounted.status()["nodes"]}
        own, lent = status["own"], status["victim"]
        pid = node_of(lender)
        certificate = None
        if not is_trusted:
            certificate = scratch / "certificate"
            certificate.mkdir()
            folder = Path(f"/proc/{pid}/cwd")
            for name in ("certificate.pem", "key.pem"):
                (certificate / name).write_bytes((folder / name).read_bytes())
        secrets = in_memory(pid)
        heard = {(name, secret) for _, name, secret in reading.heard}
        open_lent = opens(lent, certificate, NAMES | {it[0] for it in heard}, secrets | {it[1] for it in heard})
        open_own: set[bytes] = set()
        lender.process.send_signal(signal.SIGTERM)
        while lender.process.poll() is None:
            secrets |= in_memory(pid)
        heard = {(name, secret) for _, name, secret in reading.heard}
        open_own |= opens(own, certificate, NAMES | {it[0] for it in heard}, secrets | {it[1] for it in heard})
        if kept.read_bytes() != BYTES:
            raise AssertionError("a file has changed")
        mounted.call("fsck")
        return open_lent, open_own


def knows(tidefs: Path) -> str | None:
    """What a lender's secrets open that is not his, if anything."""
    for is_trusted in (True, False):
        lent, own = learn(tidefs, is_trusted)
        # Where he reads along, the check is known to find what there is.
        if is_trusted and not {b"tidefs-admin"} <= lent:
            raise AssertionError(f"what a lender reads does not open his own node: {lent}")
        if own:
            return f"a lender is let in by a node of the owner's as {b', '.join(sorted(own)).decode()}"
    return None
