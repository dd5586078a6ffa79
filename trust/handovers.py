#!/usr/bin/python3
"""A mount that changes hands between processes again and again, while programs work on it and check what they
find: no call fails, no byte is wrong, no lock is lost, and what is there in the end is what it should be.

Prints for how long calls waited.  Exit status 0 when all held, 1 when something did not.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from mounted import TIDEFS, Mounted, is_left_out  # noqa: E402

# Each works in a folder until there is a file `stop` beside it, checks whatever it does, and prints how long its
# longest call took and how often it went round.
COMMON = """
import fcntl, hashlib, mmap, os, random, sys, time
folder, me = sys.argv[1], int(sys.argv[2])
chance, longest, rounds = random.Random(me), 0.0, 0
stop = os.path.join(os.path.dirname(folder), "stop")
os.chdir(folder)

def timed(call, *words):
    global longest
    begun = time.monotonic()
    done = call(*words)
    longest = max(longest, time.monotonic() - begun)
    return done

def goes_on():
    global rounds
    rounds += 1
    return rounds < 5 or not os.path.exists(stop)
"""

WORKERS = {
    # Lines of several programs at the end of one file, each once and in its order.
    "append": """
log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
while goes_on():
    line = b"%d %d\\n" % (me, rounds)
    assert timed(os.write, log, line) == len(line)
    if rounds % 50 == 0:
        timed(os.fsync, log)
timed(os.close, log)
mine = [int(line.split()[1]) for line in open("log") if line.split()[0] == str(me)]
assert mine == list(range(1, rounds)), f"{len(mine)} lines of {rounds - 1}"
""",
    # A number in a file, which each raises while it has a lock: of flock, and of fcntl.
    "locked": """
count = os.open("count", os.O_CREAT | os.O_RDWR)
while goes_on():
    lock = fcntl.flock if me % 2 else fcntl.lockf
    both = os.open("gate", os.O_CREAT | os.O_RDWR)
    timed(fcntl.flock, both, fcntl.LOCK_EX)
    timed(fcntl.lockf, count, fcntl.LOCK_EX)
    before = int(timed(os.pread, count, 20, 0) or b"0")
    timed(os.pwrite, count, b"%020d" % (before + 1), 0)
    assert int(timed(os.pread, count, 20, 0)) == before + 1, "somebody else was there"
    timed(fcntl.lockf, count, fcntl.LOCK_UN)
    timed(fcntl.flock, both, fcntl.LOCK_UN)
    timed(os.close, both)
print("raised", rounds - 1)
""",
    # A map, a file without a name, and one that is written anew, each compared with what memory says.
    "bytes": """
name = f"map-{me}"
mapped = os.open(name, os.O_CREAT | os.O_RDWR)
timed(os.ftruncate, mapped, 1 << 20)
memory = mmap.mmap(mapped, 1 << 20)
twin = bytearray(1 << 20)
nameless = os.open(f"nameless-{me}", os.O_CREAT | os.O_RDWR)
timed(os.unlink, f"nameless-{me}")
said = bytearray()
while goes_on():
    at, some = chance.randrange((1 << 20) - 5000), chance.randbytes(chance.randrange(1, 5000))
    memory[at:at + len(some)] = some
    twin[at:at + len(some)] = some
    if rounds % 10 == 0:
        timed(memory.flush)
        assert timed(os.pread, mapped, 1 << 20, 0) == twin, "the map and the file differ"
    assert timed(os.pwrite, nameless, some, len(said)) == len(some)
    said += some
    if len(said) > 3 << 20:
        timed(os.ftruncate, nameless, 0)
        said = bytearray()
    at = chance.randrange(len(said) + 1)
    assert timed(os.pread, nameless, 4096, at) == said[at:at + 4096], "the file without a name differs"
    other = f"new-{me}"
    with open(other + ".part", "wb") as file:
        assert timed(file.write, some) == len(some)
    timed(os.rename, other + ".part", other)
    with open(other, "rb") as file:
        assert timed(file.read) == some, "a renamed file differs"
memory.flush()
assert open(name, "rb").read() == twin
""",
    # Names that come and go, and listings that are read half.
    "names": """
there = set()
while goes_on():
    name = f"{me}-{chance.randrange(200)}"
    if name in there:
        timed(os.unlink, name)
        there.discard(name)
    else:
        timed(os.close, os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        there.add(name)
    if rounds % 20 == 0:
        seen = [entry.name for entry in os.scandir(".") if entry.name.startswith(f"{me}-")]
        assert len(seen) == len(set(seen)) and set(seen) == there, "a listing differs"
        nested = f"d{me}"
        timed(os.mkdir, nested)
        timed(os.rename, nested, nested + "x")
        timed(os.rmdir, nested + "x")
""",
}


def start(folder: Path, kind: str, number: int) -> subprocess.Popen:
    place = folder / kind
    place.mkdir(exist_ok=True)
    words = ["/usr/bin/python3", "-c", COMMON + WORKERS[kind] + "\nprint('longest', longest, rounds)"]
    return subprocess.Popen([*words, str(place), str(number)], stdout=subprocess.PIPE, text=True)


def check_count(folder: Path, said: list[str]) -> None:
    raised = sum(int(line.split()[1]) for text in said for line in text.splitlines() if line[:6] == "raised")
    count = int((folder / "locked/count").read_text())
    assert count == raised, f"{count} is not {raised}: a lock was lost"


def pauses(log: str) -> list[float]:
    """For how long requests waited in each hand-over, in milliseconds, as the process says that gave the mount."""
    found = re.findall(r"paused=([0-9.]+)(ms|µs|s)\b", log)
    return sorted(float(number) * {"µs": 0.001, "ms": 1, "s": 1000}[unit] for number, unit in found)


def judge(folder: Path, programs: list[subprocess.Popen]) -> tuple[int, float]:
    """Ends the programs; answers how often they went round, and the longest call of any."""
    (folder / "stop").touch()
    said = [program.communicate(timeout=120)[0] for program in programs]
    failed = [program.args[-2:] for program in programs if program.returncode != 0]
    assert not failed, f"programs failed: {failed}"
    check_count(folder, said)
    rows = [text.splitlines()[-1].split() for text in said]
    return sum(int(row[2]) for row in rows), max(float(row[1]) for row in rows)


# Why a mount is not handed over at a moment.
PASSING = ("another process is taking it over", "requests take long", "are still being freed")


def take_over(mounted: Mounted) -> None:
    """Has another process go on with the mount; what stands in the way for a moment is waited for."""
    for _ in range(20):
        try:
            mounted.call("-v", "mount", "--takeover", str(mounted.mounts[1]))
            return
        except AssertionError as refused:
            if not any(why in str(refused) for why in PASSING):
                raise
        time.sleep(0.1)
    raise AssertionError("something stands in the way of a hand-over all the time")


def change_hands(mounted: Mounted, programs: list[subprocess.Popen], times: int, chance: random.Random) -> None:
    for _ in range(times):
        time.sleep(chance.uniform(0, 0.5))
        take_over(mounted)
        ended = [program.args[-2:] for program in programs if program.poll() is not None]
        assert not ended, f"programs ended: {ended}"


def handovers(tidefs: Path, times: int, others: int, seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="tidefs-handovers-") as scratch:
        nodes = ("--nodes", "2", "--node-memory", "256MiB")
        with Mounted(tidefs, Path(scratch), *nodes, mounts=2 + others) as mounted:
            guard = mounted.give_up_after(60 + 5 * times)
            folder, log = mounted.mounts[1], Path(mounted.state) / "up/log"
            programs = [start(folder, kind, 10 * index + twin) for index, kind in enumerate(WORKERS) for twin in (1, 2)]
            try:
                change_hands(mounted, programs, times, chance)
                rounds, longest = judge(folder, programs)
                mounted.call("fsck")
                waited = pauses(log.read_text(errors="replace"))
                # The first process says less.
                assert len(waited) == times - 1, f"{len(waited)} hand-overs are in the log"
            except AssertionError:
                told = [line for line in log.read_text(errors="replace").splitlines() if " WARN " in line or " ERROR " in line]
                print(*told[-20:], sep="\n", file=sys.stderr)
                raise
            finally:
                guard.cancel()
                for program in programs:
                    program.kill()
                    program.wait()
    print(
        f"{times} hand-overs, seed {seed}, {rounds} rounds of {len(programs)} programs, {2 + others} mounts: no call failed. "
        f"Requests waited {waited[len(waited) // 2]:.0f} ms in the middle and {waited[-1]:.0f} ms at most; the longest call took "
        f"{longest:.2f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--times", type=int, default=100, help="hand-overs, two at least")
    parser.add_argument("--others", type=int, default=0, help="mounts beside the one of `up` and this one")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    if is_left_out("fuse") or is_left_out("server"):
        return
    try:
        handovers(options.tidefs.resolve(), options.times, options.others, options.seed)
    except AssertionError as wrong:
        print(f"FAILED: {wrong}; again: trust/handovers.py --times {options.times} --seed {options.seed}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
