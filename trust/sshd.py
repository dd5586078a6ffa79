"""A real `sshd` on hosts that share nothing, and the user's own `ssh` that reaches them by its configuration."""

import subprocess
import time
from pathlib import Path

from islands import Island, until

PORT = 22
CONFIGURATION = f"""Port {PORT}
HostKey /root/host_key
AuthorizedKeysFile /root/.ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
SetEnv TIDEFS_SERVER=/opt/server
"""


class Shells:
    """Who may log in where: the user of one host on all others."""

    def __init__(self, user: Island):
        self.user = user
        user.sh("mkdir -p -m 700 /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519")
        self.public = user.sh("cat /root/.ssh/id_ed25519.pub").strip()
        user.sh("printf 'Host *\\n  StrictHostKeyChecking yes\\n' > /root/.ssh/config")

    def serve(self, host: Island, log: Path) -> None:
        """Starts a server on a host, which the user knows by the host's name."""
        host.sh("mkdir -p /run/sshd && mkdir -p -m 700 /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f /root/host_key")
        put(host, "/root/.ssh/authorized_keys", f"{self.public}\n")
        put(host, "/root/sshd_config", CONFIGURATION)
        host.start(log, "/usr/sbin/sshd", "-D", "-e", "-f", "/root/sshd_config")
        self.knows(host.name, host, host.sh("cat /root/host_key.pub"))
        until(f"{host.name} answers", lambda: self.user.run("ssh", host.name, "true").returncode == 0, 20)

    def knows(self, name: str, host: Island, key: str) -> None:
        """That a name stands for a host, which shows this key."""
        kind, public, *_ = key.split()
        self.user.sh(
            f"printf 'Host {name}\\n  HostName {host.address}\\n  HostKeyAlias {name}\\n' >> /root/.ssh/config &&"
            f" echo '{name} {kind} {public}' >> /root/.ssh/known_hosts"
        )


def put(host: Island, path: str, text: str) -> None:
    """Writes a file of a host."""
    subprocess.run(host.words("sh", "-c", f"cat > {path}"), input=text, text=True, check=True, timeout=20)


def elapsed(begun: float) -> str:
    return f"{time.monotonic() - begun:.1f} s"
