"""Plain key-value servers on this machine: each a `valkey-server` of its own, which knows of no other one.

Starts, finds and ends them. What they hold is not this file's matter.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import valkey

#: A server that does not answer is taken for dead.
ANSWER_SECONDS = 20
START_SECONDS = 30


def program() -> str:
    """$TIDEFS_SERVER, what `make setup` built, or what is on PATH."""
    built = Path("/usr/local/lib/tidefs/bin/valkey-server")
    of_user = Path.home() / ".cache/tidefs/bin/valkey-server"
    named = os.environ.get("TIDEFS_SERVER")
    found = named or next((str(path) for path in (built, of_user) if path.exists()), shutil.which("valkey-server"))
    if not found:
        raise SystemExit("there is no valkey-server: make setup installs one, or name it in $TIDEFS_SERVER")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def connect(port: int) -> valkey.Valkey:
    """A client whose connections several threads may use."""
    return valkey.Valkey(
        "127.0.0.1", port, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS, retry_on_timeout=False
    )


class Server:
    """One server process and a client of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"buckets-{name}-"))
        try:
            self.process, self.port = self.begin()
            self.client = connect(self.port)
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def begin(self) -> tuple[subprocess.Popen[bytes], int]:
        """A port that was free may be taken a moment later, so a server that ends at once is begun again."""
        said = ""
        for _ in range(5):
            port = free_port()
            with (self.folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    [program(), "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"],
                    cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            answers = False
            try:
                answers = self.answers(process, port)
            finally:
                # Also where this program is ended meanwhile, or the server takes a connection and says nothing.
                if not answers:
                    process.kill()
                    process.wait()
            if answers:
                return process, port
            said = (self.folder / "log").read_text(errors="replace")
        raise RuntimeError(f"server {self.name} does not start: {said[-500:]}")

    def answers(self, process: subprocess.Popen[bytes], port: int) -> bool:
        client = connect(port)
        try:
            for _ in range(START_SECONDS * 20):
                try:
                    return bool(client.ping())
                except valkey.exceptions.ConnectionError:
                    pass
                try:
                    process.wait(0.05)
                    return False
                except subprocess.TimeoutExpired:
                    continue
            return False
        finally:
            client.close()

    def lives(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
