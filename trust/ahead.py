"""A group of this program and all that it starts, which comes before what else runs on the machine.

What is measured on a machine that others use is theirs as much as it is its own. In the group it has the processors
nearly to itself, and what it used of them is counted.  Control groups of the first version, and root.
"""

import contextlib
import os
import time
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
# The most that the kernel takes; others have 1,024.
SHARES = 262_144
ENDS_SECONDS_MAX = 30


class Ahead:
    """Entered and left with this program."""

    def __enter__(self) -> "Ahead":
        self.folders = [GROUPS / kind / f"tidefs-ahead-{os.getpid()}" for kind in ("cpu", "cpuacct")]
        if not all(folder.parent.is_dir() for folder in self.folders):
            raise SystemExit(f"there are no control groups of the first version in {GROUPS}; leave out --ahead")
        for folder in self.folders:
            folder.mkdir()
            (folder / "cgroup.procs").write_text(str(os.getpid()))
        (self.folders[0] / "cpu.shares").write_text(str(SHARES))
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self.folders:
            (folder.parent / "cgroup.procs").write_text(str(os.getpid()))
        end = time.monotonic() + ENDS_SECONDS_MAX
        while remain := [folder for folder in self.folders if folder.exists()]:
            for folder in remain:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if time.monotonic() > end:
                raise AssertionError(f"somebody is still in {remain}")
            time.sleep(0.05)

    def processor_seconds(self) -> float:
        """Used until now, by all that were ever in the group."""
        return int((self.folders[1] / "cpuacct.usage").read_text()) / 1e9
