#!/usr/bin/python3
"""A job of the workflows beside it: reads its input, computes for a time, and writes its output as it goes.

    job.py --seed 1 --seconds 3 --mb 20 --write out/a out/b --read in/a in/b

Sizes and times differ from job to job by up to half of what is given, as the seed and the first name say.
Computing is waiting here: a busy machine makes no job longer.  Each file ends with the CRC-32 of what is before
it, and a job whose input is not what another wrote fails.
"""

import argparse
import random
import sys
import time
import zlib

PIECE = 1 << 20
#: The part of a job's time that is over before it writes.
BEFORE_WRITING = 0.3


def check(name: str) -> None:
    found, last = 0, b""
    with open(name, "rb") as file:
        while piece := file.read(PIECE):
            whole = last + piece
            found, last = zlib.crc32(whole[:-4], found), whole[-4:]
    if found.to_bytes(4, "big") != last:
        sys.exit(f"{name} is not as it was written")


def write(name: str, size: int, seconds: float, drawn: random.Random) -> None:
    block = drawn.randbytes(PIECE)
    found, begun = 0, time.monotonic()
    with open(name, "wb", buffering=0) as file:
        for done in range(0, size, PIECE):
            piece = block[: size - done]
            found = zlib.crc32(piece, found)
            file.write(piece)
            due = begun + seconds * (done + len(piece)) / size
            time.sleep(max(0.0, due - time.monotonic()))
        file.write(found.to_bytes(4, "big"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="that it takes, about")
    parser.add_argument("--mb", type=float, required=True, help="of each file that it writes, about")
    parser.add_argument("--write", nargs="+", required=True)
    parser.add_argument("--read", nargs="*", default=[])
    options = parser.parse_args()
    drawn = random.Random(f"{options.seed} {options.write[0]}")
    seconds = options.seconds * drawn.uniform(0.5, 1.5)
    for name in options.read:
        check(name)
    time.sleep(BEFORE_WRITING * seconds)
    each = (1.0 - BEFORE_WRITING) * seconds / len(options.write)
    for name in options.write:
        write(name, int(options.mb * 1e6 * drawn.uniform(0.5, 1.5)), each, drawn)


if __name__ == "__main__":
    main()
