"""Debian roots to try packages in: made by debootstrap, entered with chroot in name spaces of their own."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

#: Nothing that is done in a root takes nearly as long.
LIMIT_SECONDS = 600

# The name spaces end with their first process, and with them every process and mount in them.
ENTER = """set -e
mount --make-rprivate /
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=1777 tmp "$1/tmp"
[ "$2" = online ] || ip link set lo up
exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -c "cd /root; $3"
"""

# What package managers note of everything that they do.
NOTED = ("/proc/", "/dev/", "/tmp/", "/run/", "/var/log/", "/var/cache/", "/var/lib/apt/", "/var/lib/dpkg/", "/root/")


class Root:
    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def copy_of(empty: Path, path: Path) -> "Root":
        shutil.rmtree(path, ignore_errors=True)
        subprocess.run(["cp", "-a", empty, path], check=True)
        # As every Debian that was started once, and every container, has it; fusermount3 looks there.
        (path / "etc" / "mtab").symlink_to("/proc/self/mounts")
        return Root(path)

    def online(self, script: str) -> str:
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", self.path / "etc" / name)
        return self._run(script, "online", [])

    def offline(self, script: str) -> str:
        """What it printed; there is no network but its own loopback."""
        return self._run(script, "offline", ["--net"])

    ask = offline

    def _run(self, script: str, network: str, more: list) -> str:
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *more, "sh", "-c", ENTER, "enter"]
        command = [*enter, str(self.path), network, script]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS)
        if done.returncode != 0:
            sys.exit(f"packaged: status {done.returncode} in {self.path.name} of: {script}\n{done.stdout}")
        return done.stdout

    def files(self) -> set:
        found = self.ask("find / -xdev \\( -type d -printf '%p/\\n' -o -printf '%p\\n' \\)").splitlines()
        return {path for path in found if not path.startswith(NOTED)}


    def pack(self, path: Path) -> None:
        subprocess.run(["tar", "-C", self.path, "--exclude=./dev", "-cf", path, "."], check=True)
        path.chmod(0o644)


class OrdinaryUser:
    """One who is there for a while, and what is needed for containers of their own."""

    NAME = "tidefs-packaged"

    def __init__(self) -> None:
        self.home = Path("/home") / self.NAME

    def __enter__(self) -> "OrdinaryUser":
        self._remove()
        subprocess.run(["useradd", "--create-home", "--home-dir", self.home, self.NAME], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        # Files of subordinate users are theirs to remove, and a process keeps their name space.
        self.podman("system reset --force")
        self.podman("system migrate")
        self._remove()

    def _remove(self) -> None:
        subprocess.run(["userdel", "--remove", self.NAME], capture_output=True)

    def podman(self, words: str) -> str:
        # Without systemd there is nobody else to ask for control groups, nor a log to write events to.
        podman = "podman --cgroup-manager=cgroupfs --events-backend=file --storage-driver=vfs --runtime=runc"
        script = f"cd; export XDG_RUNTIME_DIR=$HOME/runtime; mkdir -p $XDG_RUNTIME_DIR; exec {podman} {words}"
        command = ["su", "--shell", "/bin/sh", self.NAME, "-c", script]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_SECONDS)
        if done.returncode != 0:
            sys.exit(f"packaged: status {done.returncode} of podman {words}\n{done.stdout}")
        return done.stdout


def empty_root(work: Path, suite: str, mirror: str) -> Path:
    """Debian's base and nothing else, kept for the next time."""
    root = work / suite
    if not root.exists():
        work.mkdir(parents=True, exist_ok=True)
        fresh = work / f"{suite}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", suite, fresh, mirror], check=True, stdout=subprocess.DEVNULL)
        fresh.rename(root)
    return root


def mirror_and_suite() -> tuple:
    """Where this machine gets Debian's main archive from, and of which release."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True, check=True,
    ).stdout
    mirrors = [line.split("|")[1] for line in targets.splitlines() if line.startswith("Debian|")]
    suite = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    if not mirrors or suite is None:
        sys.exit("packaged: apt knows no Debian mirror here; run: apt-get update")
    return mirrors[0], suite[1]
