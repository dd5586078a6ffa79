#!/usr/bin/python3
"""A run is killed while it copies out of its own mount, and has ended.

The process that serves the mount also reads it then.  Its nodes are stopped first, so that it waits for an answer: a
process that had its own mount open in the threads that wait would never end, nor would the mount.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, FILE_BYTES = 8, 4 << 20
WAIT_SECONDS_MAX = 120
# Nothing of it stays in the kernel's cache; what ends the command stops the nodes.
SCRIPT = f"""set -e
mkdir "$TIDEFS_MOUNT/out"
for file in $(seq {FILES}); do
    head -c {FILE_BYTES} /dev/urandom > "$TIDEFS_MOUNT/out/$file"
done
for file in "$TIDEFS_MOUNT"/out/*; do
    dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 2> /dev/null
done
kill -STOP $(cat "$TIDEFS_MOUNT"/../nodes)
"""


def until(what: str, there) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not there():
        if time.monotonic() > end:
            raise AssertionError(f"not within {WAIT_SECONDS_MAX} s: {what}")
        time.sleep(0.05)


def are_stopped(pids: list[int]) -> bool:
    return all(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T" for pid in pids)


def requests_wait(mount: Path) -> bool:
    """The kernel counts them by the number of the device; not everywhere is that to be seen."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[4] == str(mount):
            with contextlib.suppress(OSError):
                number = words[2].partition(":")[2]
                return int(Path(f"/sys/fs/fuse/connections/{number}/waiting").read_text()) > 0
    return False


def waits_for_its_mount(process: subprocess.Popen, mount: Path) -> bool:
    """Some thread of it waits for an answer of the mount's, where nobody else is there any more."""
    if process.poll() is not None:
        raise AssertionError(f"it ended with {process.returncode}")
    waits = requests_wait(mount)
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            waits |= (task / "wchan").read_text() in ("request_wait_answer", "folio_wait_bit_common")
    return waits


def servers(process: subprocess.Popen) -> list[int]:
    """The nodes of a run are its children."""
    found = []
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, children.read_text().split())
    return [pid for pid in found if is_server(pid)]


def is_server(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "[cluster]" in Path(f"/proc/{pid}/cmdline").read_text()
    return False


def check(tidefs: Path, scratch: Path) -> float:
    """Answers after how long it had ended."""
    mount, nodes = scratch / "mount", scratch / "nodes"
    options = ["--nodes", "2", "--node-memory", "64MiB", "--quiet", "--mount", mount, "--stage-out", f"out:{scratch}/copies"]
    waits = f'until test -s "$TIDEFS_MOUNT/../nodes"; do sleep 0.1; done\n{SCRIPT}'
    log = (scratch / "log").open("w")
    running = subprocess.Popen([tidefs, "run", *options, "--", "sh", "-c", waits], stderr=log)
    try:
        until("its nodes are there", lambda: len(servers(running)) == 2)
        stopped = servers(running)
        (scratch / "new").write_text(" ".join(map(str, stopped)))
        (scratch / "new").rename(nodes)
        waits = lambda: are_stopped(stopped) and waits_for_its_mount(running, mount)
        until("it copies", waits)
        # All that it began waits by now.
        time.sleep(1)
        until("it still copies", waits)
        begun = time.monotonic()
        os.kill(running.pid, signal.SIGKILL)
        try:
            running.wait(WAIT_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError("a run that was killed while it staged out does not end") from None
        took = time.monotonic() - begun
        until("no program is in its mount", lambda: subprocess.run([tidefs, "list"], capture_output=True).returncode == 0)
        if str(mount) in Path("/proc/mounts").read_text():
            raise AssertionError("the next command leaves the mount")
        return took
    except BaseException:
        print((scratch / "log").read_text(), file=sys.stderr)
        raise
    finally:
        # Whatever waits for it is answered.
        subprocess.run(["umount", "-f", "-l", mount], capture_output=True)
        if running.poll() is None:
            running.kill()
            running.wait(WAIT_SECONDS_MAX)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidefs", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tk") as scratch:
        took = check(options.tidefs.resolve(), Path(scratch))
    print(f"killed_staging: a run that was killed while it staged out had ended after {took:.1f} s")


if __name__ == "__main__":
    main()
