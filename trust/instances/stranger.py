"""Another user of the machine, who reads what he can and says what he likes where somebody listens.

All that he sees and hears goes into one file, which he cannot read; whether there is a secret in it,
others find out.
"""

import contextlib
import hashlib
import os
import random
import select
import signal
import socket
import ssl
import stat
import struct
from pathlib import Path

from intruders import STRANGER, Intrusion, greeting

READ_BYTES_MAX = 1 << 16
SEEN_BYTES_MAX = 64 << 20
HELD_MAX = 100
WAIT_SECONDS = 0.2
LISTENS = "0A"
IN_PROCESS = (
    "environ",
    "cmdline",
    "maps",
    "mem",
    "auxv",
    "stack",
    "io",
    "syscall",
    "mountinfo",
    "status",
)
COMMANDS = (
    "PING",
    "INFO",
    "AUTH tidefs x",
    "AUTH default ",
    "HELLO 3",
    "HELLO 3 AUTH tidefs-admin x",
    "CLUSTER NODES",
    "CLUSTER MEET 127.0.0.1 1 2",
    "CLUSTER RESET HARD",
    "CLUSTER ADDSLOTSRANGE 0 16383",
    "CONFIG GET *",
    "CONFIG SET requirepass x",
    "ACL LIST",
    "SCAN 0",
    "MONITOR",
    "DUMP x",
    "DEBUG SLEEP 5",
    "FLUSHALL",
    "SHUTDOWN NOSAVE",
    "REPLICAOF 127.0.0.1 1",
    "EVAL return(1) 0",
    "GET /secret HTTP/1.1",
)
REQUESTS = (
    '"status"',
    '"stop"',
    '{"scale":1}',
    '{"drain":"1"}',
    '{"join":{"mount":7}}',
    '{"left":{"mount":7}}',
    '{"check":{"repair":true}}',
    '{"offer":{"memory_bytes":67108864,"id":"' + "e" * 40 + '","key":"' + "0" * 64 + '"}}',
    "[" * 200,
)


class Stranger:
    """In a process of his own, from `begin` to `end`."""

    def __init__(self, seed: str, paths: list[Path], mount: Path, seen: Path):
        self.draw, self.paths, self.mount, self.seen = random.Random(seed), paths, mount, seen
        self.known: set[bytes] = set()
        self.held: list[socket.socket] = []
        self.acts = {
            self.reads: 6,
            self.looks: 3,
            self.speaks: 10,
            self.asks: 4,
            self.touches: 4,
            self.kills: 2,
            self.holds: 2,
        }

    def begin(self) -> None:
        told, self.tells = os.pipe()
        awaits, self.stop = os.pipe()
        with self.seen.open("wb") as file:
            self.seen.chmod(0o600)
            self.child = os.fork()
            if self.child == 0:
                os.close(self.stop)
                self.live(file, awaits)
        os.close(self.tells)
        os.close(awaits)
        self.told = told

    def end(self) -> int:
        """How many things he has done."""
        # The end of the pipe would not do: other children have it, too.
        os.write(self.stop, b".")
        os.close(self.stop)
        with os.fdopen(self.told, "rb") as said:
            words = said.read().decode()
        os.waitpid(self.child, 0)
        if not words.isdigit():
            raise Intrusion(words)
        return int(words)

    def live(self, file, awaits: int) -> None:
        count = 0
        try:
            self.file = file
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            while not select.select([awaits], [], [], 0.005)[0]:
                with contextlib.suppress(OSError):
                    self.draw.choices(list(self.acts), list(self.acts.values()))[0]()
                count += 1
            os.write(self.tells, f"{count}".encode())
        except BaseException as error:
            os.write(self.tells, f"{type(error).__name__}: {error}".encode()[:4_000])
        finally:
            file.flush()
            os._exit(0)

    def sees(self, what: str, content: bytes) -> None:
        """Once each, with where it was."""
        digest = hashlib.blake2b(content, digest_size=16).digest()
        if content and digest not in self.known and self.file.tell() < SEEN_BYTES_MAX:
            self.known.add(digest)
            self.file.write(f"\n## {what}\n".encode() + content)

    def opens(self, path: Path) -> None:
        with path.open("rb") as file:
            self.sees(str(path), file.read(READ_BYTES_MAX))

    def reads(self) -> None:
        """Of what processes show."""
        process = Path("/proc") / self.draw.choice(
            [it for it in os.listdir("/proc") if it.isdigit()]
        )
        if process.stat().st_uid != STRANGER and self.draw.random() < 0.7:
            self.opens(process / self.draw.choice(IN_PROCESS))
        else:
            for descriptor in (process / "fd").iterdir():
                if process.name != str(os.getpid()) and stat.S_ISREG(descriptor.stat().st_mode):
                    self.opens(descriptor)

    def looks(self) -> None:
        """Where programs leave things, and where he knows that there is something."""
        if self.draw.random() < 0.5:
            return self.opens(self.draw.choice(self.paths))
        top = self.draw.choice(
            ("/dev/shm", "/var/tmp", "/run", "/dev/mqueue", str(self.seen.parent), str(self.mount))
        )
        for folder, _, names in os.walk(top):
            self.sees(folder, "\n".join(names).encode())
            for name in names:
                path = Path(folder, name)
                with contextlib.suppress(OSError):
                    if path.is_file() and not path.is_symlink():
                        self.opens(path)

    def words(self) -> bytes:
        """Something that somebody may understand."""
        kind = self.draw.randrange(6)
        if kind == 0:
            words = self.draw.choice(COMMANDS).encode().split(b" ")
            return b"*%d\r\n" % len(words) + b"".join(
                b"$%d\r\n%s\r\n" % (len(it), it) for it in words
            )
        if kind == 1:
            return self.draw.choice(COMMANDS).encode() + b"\r\n"
        if kind == 2:
            return self.draw.choice(REQUESTS).encode() + b"\n"
        if kind == 3:
            return self.draw.choice(
                (b"*1000000000\r\n", b"$-7\r\n", b"*-1\r\n", b"*1\r\n$67108865\r\n")
            )
        if kind == 4:
            return self.draw.randbytes(self.draw.randrange(1, 3_000))
        address = self.draw.choice((b"127.0.0.1", b"\xff\xfe no text", b"a\nb c", b"::1", b""))
        message = bytearray(
            greeting(address, self.draw.randrange(65_536), self.draw.randrange(65_536))
        )
        # The kind of message; then anything at all.
        message[10:12] = struct.pack(">H", self.draw.randrange(11))
        for _ in range(self.draw.choice((0, 0, 3, 30))):
            message[self.draw.randrange(len(message))] = self.draw.randrange(256)
        return bytes(message)

    def ports(self) -> list[int]:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [int(row[1].split(":")[1], 16) for row in rows if row[3] == LISTENS]

    def speaks(self) -> None:
        port = self.draw.choice(self.ports())
        with contextlib.ExitStack() as stack:
            line = stack.enter_context(
                socket.create_connection(("127.0.0.1", port), WAIT_SECONDS * 5)
            )
            if is_tls := self.draw.random() < 0.3:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                line = stack.enter_context(context.wrap_socket(line))
            line.settimeout(WAIT_SECONDS)
            for _ in range(self.draw.randrange(1, 4)):
                said = self.words()
                line.sendall(said)
                with contextlib.suppress(TimeoutError):
                    heard = line.recv(READ_BYTES_MAX)
                    self.sees(f"port {port}, TLS {is_tls}", heard)
                    if heard[:1] in (b"+", b"$", b"*", b"%", b":") or heard[:4] == b"RCmb":
                        raise Intrusion(f"port {port} answers {said[:60]!r} with {heard[:80]!r}")

    def asks(self) -> None:
        """At sockets with names, also those that lie in no directory."""
        rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
        names = [row[7] for row in rows if len(row) > 7]
        names += [
            str(path)
            for path in self.paths
            if path.name in ("control", "manager", "provisioner", "s")
        ]
        name = self.draw.choice(names)
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(WAIT_SECONDS)
            line.connect(name.replace("@", "\0", 1) if name.startswith("@") else name)
            line.sendall(self.words())
            with contextlib.suppress(TimeoutError):
                self.sees(name, line.recv(READ_BYTES_MAX))
            raise Intrusion(f"{name} lets a stranger connect")

    def touches(self) -> None:
        """What nobody lets him do."""
        path = self.draw.choice(
            [*self.paths, self.mount / "private", self.mount / "private/0", self.mount]
        )
        acts = {
            "removes": lambda: os.unlink(path),
            "cuts": lambda: os.truncate(path, 0),
            "makes": lambda: os.mkdir(path / "made"),
            "moves": lambda: os.rename(path, path.with_name("moved")),
            "shows": lambda: os.chmod(path, 0o777),
            "takes": lambda: os.chown(path, STRANGER, STRANGER),
            "dates": lambda: os.utime(path, (0, 0)),
            "marks": lambda: os.setxattr(path, "user.mark", b"x"),
            "writes": lambda: os.close(os.open(path, os.O_WRONLY)),
        }
        what, act = self.draw.choice(list(acts.items()))
        act()
        raise Intrusion(f"a stranger {what} {path}")

    def kills(self) -> None:
        pid = int(self.draw.choice([it for it in os.listdir("/proc") if it.isdigit()]))
        if os.stat(f"/proc/{pid}").st_uid == STRANGER or pid == os.getpid() or pid == self.child:
            return
        if "Uid:\t65534" in Path(f"/proc/{pid}/status").read_text():
            return
        number = self.draw.choice((0, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP))
        os.kill(pid, number)
        raise Intrusion(f"a stranger sends {number} to process {pid}")

    def holds(self) -> None:
        """Connections on which nothing, or half of something, is said."""
        while len(self.held) >= HELD_MAX:
            self.held.pop(self.draw.randrange(len(self.held))).close()
        line = socket.create_connection(("127.0.0.1", self.draw.choice(self.ports())), WAIT_SECONDS)
        self.held.append(line)
        line.sendall(self.words()[: self.draw.randrange(40)])
