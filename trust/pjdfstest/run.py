#!/usr/bin/python3
"""pjdfstest, a suite of some four hundred claims of POSIX about names and attributes, on mounts.

It runs whole, as root, on both stores. What is known beforehand of a test stands with its reason
in expectations.toml; anything else that fails or is left out is a failure.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mounted import STORES, SUITES, TIDEFS, Mounted, is_left_out  # noqa: E402

SUITE = SUITES / "pjdfstest"
SUITE_SECONDS_MAX = 600
# Fewer than the suite has, and than a part of it that runs by mistake.
TESTS_MIN = 380
# A line for each test, and indented ones below it that say why.
TEST = re.compile(r"^(\S+) +(ok|FAILED|skipped)$((?:\n[\t ].*)*)", re.M)
ENDED = re.compile(r"^Summary: .* total$", re.M)


def remounting(scratch: Path) -> Path:
    """A folder with a `mount` that remounts in the kernel. Otherwise mount(8) asks FUSE's helper,
    which starts a program of the name of the file system's source."""
    folder = scratch / "bin"
    folder.mkdir()
    program = folder / "mount"
    program.write_text('#!/bin/sh\nexec /usr/bin/mount --internal-only "$@"\n')
    program.chmod(0o755)
    return folder


class Suite:
    """The program, what it is told, and a second file system that it may use."""

    def __init__(self, scratch: Path, other: Path):
        self.scratch, self.other = scratch, other
        path = f"{remounting(scratch)}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "RUST_BACKTRACE": "0"}

    def run(self, mount: Path, remount: bool, *patterns: str) -> dict[str, tuple[str, str]]:
        """What became of each test, and why."""
        settings = self.scratch / "settings.toml"
        told = (HERE / "pjdfstest.toml").read_text()
        settings.write_text(told.replace("@REMOUNT@", str(remount).lower()))
        command = [SUITE, "-c", settings, "-p", mount, "-s", self.other, "--", *patterns]
        done = subprocess.run(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SUITE_SECONDS_MAX,
        )
        if not ENDED.search(done.stdout):
            raise AssertionError(f"the suite did not come to its end:\n{done.stdout[-2000:]}")
        return {name: (became, why) for name, became, why in TEST.findall(done.stdout)}

    def run_whole(self, mount: Path) -> dict[str, tuple[str, str]]:
        # A test leaves files open, which keeps a file system from being made read-only later, so
        # the tests that do that have a run of their own.
        return self.run(mount, False) | self.run(mount, True, "erofs")


def judge(results: dict[str, tuple[str, str]], whole: bool) -> list[str]:
    """What is wrong with a run."""
    known = tomllib.loads((HERE / "expectations.toml").read_text())
    wrong = []
    for name, (became, why) in results.items():
        expected = name in known["left-out"] if became == "skipped" else became == "ok"
        if not expected and not (became == "FAILED" and name in known["either-way"]):
            wrong.append(f"{name}: {became}{why}")
    if whole:
        named = set(known["left-out"]) | set(known["either-way"])
        wrong += [f"{name} is not in the suite" for name in named - set(results)]
        wrong += [
            f"{name} was not left out"
            for name in known["left-out"]
            if results.get(name, ("skipped",))[0] != "skipped"
        ]
        if len(results) < TESTS_MIN:
            wrong.append(f"only {len(results)} tests ran")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--store", choices=STORES, action="append", help="default: both")
    parser.add_argument("patterns", nargs="*", help="parts of the names of the tests to run")
    options = parser.parse_args()
    if is_left_out("root"):
        return 0
    if os.geteuid() != 0:
        parser.error("this needs root (TIDEFS_TEST_WITHOUT=root leaves it out)")
    for program in (options.tidefs, SUITE):
        if not program.is_file():
            parser.error(f"there is no program {program}; run make setup build")
    wrong = []
    for store in options.store or STORES:
        with (
            tempfile.TemporaryDirectory(prefix="tidefs-pjdfstest-", dir="/tmp") as scratch,
            # Any other file system does; this one is nobody else's business.
            tempfile.TemporaryDirectory(prefix="tidefs-pjdfstest-", dir="/dev/shm") as other,
        ):
            # Some of the tests act as other users.
            os.chmod(scratch, 0o755)
            suite = Suite(Path(scratch), Path(other))
            with Mounted.on(store, options.tidefs.resolve(), Path(scratch)) as mounted:
                mount = mounted.mounts[0]
                patterns = options.patterns
                results = suite.run(mount, True, *patterns) if patterns else suite.run_whole(mount)
        wrong += [f"{store}: {what}" for what in judge(results, whole=not options.patterns)]
        became = [became for became, _ in results.values()]
        counts = ", ".join(f"{became.count(what)} {what}" for what in ("ok", "skipped", "FAILED"))
        print(f"pjdfstest, {store}: {counts}", flush=True)
    for what in wrong:
        print(f"FAILED: {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
