"""Precedence on the processors for what is measured, on a machine where others work too.

A control group (version 1) whose share of the processors is the largest there is, a few hundred times
that of any other.  Below it are groups of equals, which compete with each other as they would on a
machine of their own.  Where there are none of version 1, nothing comes before others.
"""

import time
from pathlib import Path

from hosts import CGROUPS, END_SECONDS_MAX, Failure, ended

ROOT = CGROUPS / "cpu"
# The most that the kernel gives; what is not told otherwise has 1,024.
SHARES_MAX = 1 << 18


class Precedence:
    def __init__(self, bed: "Bed"):
        self.folder, self.is_there = ROOT / f"{bed.prefix}all", (ROOT / "cpu.shares").exists()

    def make(self, *names: str) -> None:
        if not self.is_there:
            return
        self.folder.mkdir()
        (self.folder / "cpu.shares").write_text(str(SHARES_MAX))
        for name in names:
            (self.folder / name).mkdir()

    def words(self, name: str = "") -> tuple[str, ...]:
        """What comes before the words of a program to have it in a group, or in that of all."""
        if not self.is_there:
            return ()
        enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        return ("sh", "-c", enter, str(self.folder / name))

    def remove(self) -> None:
        """With all that runs in it.  May be repeated."""
        deadline = time.monotonic() + END_SECONDS_MAX
        while self.folder.exists():
            groups = [*self.folder.glob("*/"), self.folder]
            try:
                for group in groups:
                    ended([int(pid) for pid in (group / "cgroup.procs").read_text().split()])
                    Path.rmdir(group)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise Failure(f"cannot remove {self.folder}: {error}") from error
                time.sleep(0.05)
