"""What lies on a node that is no stripe.

The file system lets nobody list a node's keys who has only what `tidefs up` writes down.  Whoever has
the node's machine can let himself in, so the nodes are started by a program that adds an account.
"""

import os
import shutil
import socket
from pathlib import Path

from hosts import Failure
from mounted import SUITES

ANSWER_SECONDS_MAX = 30
ACCOUNT = "looker"
SERVER = """#!/bin/sh
accounts="$(dirname "$1")/accounts"
[ ! -f "$accounts" ] || echo "user {account} on nopass ~* resetchannels -@all +auth +scan" >> "$accounts"
exec "{server}" "$@"
"""
# A tag in braces, `s`, inode and index; a shard of metadata has an `m`, and other lengths are marks.
STRIPE_BYTES = 18


def server() -> Path:
    """The one that `tidefs` would take."""
    built = [SUITES.parents[1] / "bin/valkey-server", Path("/usr/local/lib/tidefs/bin/valkey-server")]
    named = os.environ.get("TIDEFS_SERVER")
    found = named or next((path for path in built if path.exists()), shutil.which("valkey-server"))
    found = found or shutil.which("redis-server")
    if not found:
        raise Failure("there is no server; make setup installs one")
    return Path(found)


def looking_server(scratch: Path) -> Path:
    """The server that nodes are to be started with, so that they can be looked into."""
    file = scratch / "valkey-server"
    file.write_text(SERVER.format(account=ACCOUNT, server=server()))
    file.chmod(0o700)
    return file


def strangers(endpoint: str) -> tuple[int, list[bytes]]:
    """How many stripes a node holds, and the names of all else."""
    host, _, port = endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX) as line:
        replies, names, cursor = line.makefile("rb"), [], b"0"
        line.sendall(f"AUTH {ACCOUNT} none\r\n".encode())
        said = replies.readline()
        while said == b"+OK\r\n" or cursor != b"0":
            line.sendall(b"SCAN " + cursor + b" COUNT 1000\r\n")
            cursor, more = answer(replies)
            names += more
            said = b""
        if said:
            raise Failure(f"{endpoint} lets nobody look: {said!r}")
    others = [name for name in names if len(name) != STRIPE_BYTES or name[5:6] != b"s"]
    return len(names) - len(others), others


def answer(replies) -> object:
    """A reply of strings and arrays."""
    head = replies.readline()
    if head[:1] == b"*":
        return [answer(replies) for _ in range(int(head[1:]))]
    if head[:1] != b"$":
        raise Failure(f"a server answers {head!r}")
    return replies.read(int(head[1:]) + 2)[:-2]
