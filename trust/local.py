#!/usr/bin/python3
"""Local placement on a test bed: what is written in a local directory on a host with a slow link, and
read there again, does not use the link; read on other hosts it is what was written.

Exit status 0 when it held, 1 when not.  Needs root; `TIDEFS_TEST_WITHOUT=network` leaves it out.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from bed import Bed, sweep
from hosts import Failure
from mounted import TIDEFS, is_left_out
from network import MIB, SECONDS_MAX, a_bed, on, wait_for

# On a host: writes a file, has the kernel forget it, and reads it again; or reads what another wrote.
LOCAL = """
import os, random, sys, time
path, me = sys.argv[1:3]
data = random.Random(me).randbytes(8 << 20)
begun = time.monotonic()
if sys.argv[3] == "write":
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    for at in range(0, len(data), 1 << 20):
        assert os.write(file, data[at:at + (1 << 20)]) == 1 << 20
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
assert open(path, "rb").read() == data, f"{path} is not what was written"
print(round(time.monotonic() - begun, 2))
"""


def carried(host) -> int:
    """Bytes that the host's link has carried, both ways."""
    counts = Path("/sys/class/net", host.port, "statistics")
    return sum(int((counts / name).read_text()) for name in ("rx_bytes", "tx_bytes"))


def at_once(bed: Bed, what: str, ahead: int) -> list[float]:
    """Each host works on its own file, or on that of the host that is so many ahead of it."""
    hosts = bed.hosts()
    each = []
    for number, host in enumerate(hosts):
        maker = hosts[(number + ahead) % len(hosts)].name
        words = ["/usr/bin/python3", "-c", LOCAL, host.mount / "local" / maker, maker, what]
        each.append(on(host, *words, stdout=subprocess.PIPE))
    said = [one.communicate(timeout=SECONDS_MAX)[0] for one in each]
    assert all(one.returncode == 0 for one in each), "a call failed; see above"
    return [float(seconds) for seconds in said]


def is_measured(bed: Bed, tidefs: Path) -> bool:
    nodes = bed.status(tidefs)["nodes"]
    return all(node["bandwidth_bytes_per_second"] for node in nodes)


def local(tidefs: Path) -> None:
    """FusionFS: a file is written to the node of its host, and read there, whatever its link is."""
    with a_bed("p", tidefs, ["16mbit"] * 3) as bed:
        bed.start(tidefs, "--node-memory", "64MiB", "--placement", "memory")
        folder = bed.mount / "local"
        folder.mkdir()
        os.setxattr(folder, "user.tidefs.placement", b"local")
        wait_for("all links are measured", lambda: is_measured(bed, tidefs))
        before = [carried(host) for host in bed.hosts()]
        near = at_once(bed, "write", 0)
        used = [carried(host) - old for host, old in zip(bed.hosts(), before)]
        # Striped files would have each link carry some 21 MiB: two thirds of what its host writes and
        # reads, and as much again for the others.  One more measurement of the link takes 3 MiB.
        assert max(used) < 6 * MIB, f"links carried {used} bytes"
        far = at_once(bed, "read", 1)
        print(f"  8 MiB written and read here in {near} s over no link, read elsewhere in {far} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    options = parser.parse_args()
    if is_left_out("network"):
        return
    if os.geteuid() != 0:
        raise Failure("a test bed needs root; or leave it out: TIDEFS_TEST_WITHOUT=network")
    sweep()
    try:
        local(options.tidefs.resolve())
    except (AssertionError, Failure, subprocess.TimeoutExpired, OSError) as error:
        print(f"FAILED: {error!r}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
