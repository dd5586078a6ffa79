"""A group of this program and all that it starts, which comes before what else runs on the machine.

What is measured on a machine that others use is theirs as much as it is its own. In the group it has the processors
nearly to itself, and what it used of them is counted.  Needs root, and control groups of the first version (whose kinds
`cpu` and `cpuacct` may be one hierarchy) or of the second (whose root hands the processors on).
"""

import contextlib
import os
import time
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
# The most that the kernel takes; others have 1,024 and 100.
SHARES = 262_144
WEIGHT = 10_000
ENDS_SECONDS_MAX = 30


class Ahead:
    """Entered and left with this program."""

    def __enter__(self) -> "Ahead":
        self.is_second = (GROUPS / "cgroup.controllers").exists()
        # Of the first version: one folder twice where both kinds are one hierarchy.
        kinds = (".", ".") if self.is_second else ("cpu", "cpuacct")
        self.folders = [GROUPS / kind / f"tidefs-ahead-{os.getpid()}" for kind in kinds]
        try:
            self._begin()
        except OSError as error:
            self._leave()
            raise SystemExit(f"no control group can come before others here: {error}; leave out --ahead (make: AHEAD=)")
        return self

    def _begin(self) -> None:
        if self.is_second:
            (GROUPS / "cgroup.subtree_control").write_text("+cpu")
        for folder in self.folders:
            folder.mkdir(exist_ok=True)
        name, most = ("cpu.weight", WEIGHT) if self.is_second else ("cpu.shares", SHARES)
        (self.folders[0] / name).write_text(str(most))
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        end = time.monotonic() + ENDS_SECONDS_MAX
        while remain := [folder for folder in self.folders if folder.exists()]:
            for folder in remain:
                with contextlib.suppress(OSError):
                    (folder.parent / "cgroup.procs").write_text(str(os.getpid()))
                    folder.rmdir()
            if time.monotonic() > end:
                raise AssertionError(f"somebody is still in {remain}")
            time.sleep(0.05)

    def processor_seconds(self) -> float:
        """Used until now, by all that were ever in the group."""
        if self.is_second:
            lines = (self.folders[1] / "cpu.stat").read_text().splitlines()
            return int(dict(map(str.split, lines))["usage_usec"]) / 1e6
        return int((self.folders[1] / "cpuacct.usage").read_text()) / 1e9
