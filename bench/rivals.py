"""GlusterFS and MooseFS on this machine, each one volume in memory with two mounts, as Debian has them.

`scripts/install-rivals` installs them; without it, or without root, they are left out aloud.  All of them run in
a network name space of their own, since MooseFS does not serve on a loopback address.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import about
from served import Served

ADDRESS = "10.99.99.1"
PORT = 24917
STARTS_SECONDS_MAX = 20
PROGRAMS = {
    "GlusterFS": ("glusterfsd", "glusterfs"),
    "MooseFS": ("mfsmaster", "mfschunkserver", "mfsmount"),
}

BRICK = """
volume posix
  type storage/posix
  option directory {folder}/data
end-volume
volume locks
  type features/locks
  subvolumes posix
end-volume
volume io-threads
  type performance/io-threads
  subvolumes locks
end-volume
volume brick
  type protocol/server
  option transport-type tcp
  option transport.socket.bind-address {address}
  option transport.socket.listen-port {port}
  option auth.addr.io-threads.allow {address}
  subvolumes io-threads
end-volume
"""
CLIENT = """
volume remote
  type protocol/client
  option transport-type tcp
  option remote-host {address}
  option remote-port {port}
  option remote-subvolume io-threads
end-volume
volume write-behind
  type performance/write-behind
  subvolumes remote
end-volume
"""
MASTER = """
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = {folder}/meta
EXPORTS_FILENAME = {folder}/exports
TOPOLOGY_FILENAME = {folder}/topology
MATOML_LISTEN_HOST = {address}
MATOML_LISTEN_PORT = 29419
MATOCS_LISTEN_HOST = {address}
MATOCS_LISTEN_PORT = 29420
MATOCL_LISTEN_HOST = {address}
MATOCL_LISTEN_PORT = 29421
"""
CHUNKS = """
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = {folder}/chunks
HDD_CONF_FILENAME = {folder}/disks
MASTER_HOST = {address}
MASTER_PORT = 29420
BIND_HOST = {address}
CSSERV_LISTEN_HOST = {address}
CSSERV_LISTEN_PORT = 29422
HDD_LEAVE_SPACE_DEFAULT = 1MiB
"""


def there() -> list[str]:
    """Those that can be measured here; says which cannot."""
    found = [name for name, its in PROGRAMS.items() if os.geteuid() == 0 and all(map(shutil.which, its))]
    for name in PROGRAMS.keys() - found:
        print(f"left out: {name} (scripts/install-rivals installs it; it takes root)", flush=True)
    return found


@contextlib.contextmanager
def network() -> Iterator[tuple[str, ...]]:
    """What is put before a command so that it runs in a network of its own."""
    name = f"tidefs-rivals-{os.getpid()}"
    about.must("ip", "netns", "add", name)
    inside = ("nsenter", f"--net=/run/netns/{name}")
    try:
        about.must(*inside, "ip", "link", "set", "lo", "up")
        about.must(*inside, "ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
        yield inside
    finally:
        about.must("ip", "netns", "delete", name)


@contextlib.contextmanager
def volume(name: str) -> Iterator[tuple[list[Path], Served]]:
    """Two mounts of a fresh volume, and the processes that serve them."""
    start = {"GlusterFS": gluster, "MooseFS": moose}[name]
    with tempfile.TemporaryDirectory(prefix="tr", dir="/dev/shm") as text, network() as inside:
        folder, mounts = Path(text), [Path(text, "m0"), Path(text, "m1")]
        for it in ("data", "log", "meta", "chunks", "m0", "m1"):
            (folder / it).mkdir()
        try:
            start(folder, inside, mounts)
            yield mounts, Served(of(folder), [])
        finally:
            end(folder, mounts)


def of(folder: Path) -> list[int]:
    """Processes that were started with something in the folder, or for it."""
    found = []
    for it in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (it / "cmdline").read_bytes() and int(it.name) != os.getpid():
                found.append(int(it.name))
    return found


def gluster(folder: Path, inside: tuple[str, ...], mounts: list[Path]) -> None:
    for name, text in (("brick", BRICK), ("client", CLIENT)):
        (folder / name).write_text(text.format(folder=folder, address=ADDRESS, port=PORT))
    about.must(*inside, "glusterfsd", "-f", folder / "brick", f"--log-file={folder}/log/brick")
    for it in mounts:
        about.must(*inside, "glusterfs", "-f", folder / "client", f"--log-file={folder}/log/{it.name}", it)
    wait_until(lambda: all(map(os.path.ismount, mounts)))


def moose(folder: Path, inside: tuple[str, ...], mounts: list[Path]) -> None:
    for name, text in (("master", MASTER), ("servers", CHUNKS)):
        (folder / name).write_text(text.format(folder=folder, address=ADDRESS))
    (folder / "exports").write_text(f"{ADDRESS} / rw,alldirs,maproot=0:0\n")
    (folder / "topology").touch()
    (folder / "disks").write_text(f"{folder}/data\n")
    (folder / "meta/metadata.mfs").write_text("MFSM NEW")
    about.must(*inside, "mfsmaster", "-c", folder / "master", "-x", "start")
    about.must(*inside, "mfschunkserver", "-c", folder / "servers", "start")
    for it in mounts:
        about.must(*inside, "mfsmount", it, "-H", ADDRESS, "-P", "29421")
    # Room is there when the chunk server has reported.
    wait_until(lambda: all(os.statvfs(it).f_bavail > 0 for it in mounts))


def wait_until(done) -> None:
    end_at = time.monotonic() + STARTS_SECONDS_MAX
    while not done():
        if time.monotonic() > end_at:
            raise SystemExit(f"a rival did not start within {STARTS_SECONDS_MAX} s")
        time.sleep(0.05)


def end(folder: Path, mounts: list[Path]) -> None:
    for it in mounts:
        if os.path.ismount(it):
            subprocess.run(["umount", "--lazy", it], check=False)
    for signal in (15, 9):
        for process in of(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal)
        with contextlib.suppress(SystemExit):
            wait_until(lambda: not of(folder))
            return
