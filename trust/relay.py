#!/usr/bin/python3
"""A link between two interfaces, in user space: each frame waits in it, or is lost.

`relay.py PORT --space NAME` makes the interface PORT here and `eth0` in a network name space, says
`ready`, and passes frames from one to the other until it is ended.  A frame is lost with the same
probability whatever happened before.  Loss is not the end of a connection: TCP sends again what was
lost and slows down, so a call takes longer and none fails, unless so much is lost that a time-out
comes first.

A frame that finds the queue full is lost too, as on a real link.
"""

import argparse
import collections
import errno
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time

SET_INTERFACE = 0x400454CA
ETHERNET, NO_HEADER = 0x0002, 0x1000
FRAME_BYTES_MAX = 65_536
QUEUE_BYTES_MAX = 16 << 20
GONE = (errno.EBADFD, errno.EBADF, errno.ENODEV)
DOWN_PAUSE_SECONDS = 0.01


def interface(name: str) -> int:
    """A new one; what the kernel sends through it is read here, and the other way round."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), ETHERNET | NO_HEADER)
    fcntl.ioctl(descriptor, SET_INTERFACE, request)
    return descriptor


class Direction:
    """Frames from one interface to the other, in the order in which they came."""

    def __init__(self, source: int, target: int, delay: float, loss: float, seed: int):
        self.source, self.target, self.delay, self.loss = source, target, delay, loss
        self.random = random.Random(seed)
        self.waiting: collections.deque[tuple[float, bytes]] = collections.deque()
        self.bytes = 0

    def take(self, now: float) -> None:
        while True:
            try:
                frame = os.read(self.source, FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError as error:
                # Whether the interface has gone or is only down, `select` takes it for ready.
                if error.errno in GONE:
                    sys.exit(0)
                time.sleep(DOWN_PAUSE_SECONDS)
                return
            is_full = self.bytes + len(frame) > QUEUE_BYTES_MAX
            if not is_full and self.random.random() >= self.loss:
                self.waiting.append((now + self.delay, frame))
                self.bytes += len(frame)

    def give(self, now: float) -> None:
        while self.waiting and self.waiting[0][0] <= now:
            _, frame = self.waiting.popleft()
            self.bytes -= len(frame)
            try:
                os.write(self.target, frame)
            except OSError:
                # Full, or down: lost.
                pass

    def wait(self, now: float) -> float | None:
        return max(self.waiting[0][0] - now, 0.0) if self.waiting else None


def relay(near: int, far: int, delay: float, loss: float, seed: int) -> None:
    directions = [
        Direction(near, far, delay, loss, seed),
        Direction(far, near, delay, loss, seed + 1),
    ]
    while True:
        now = time.monotonic()
        for direction in directions:
            direction.give(now)
        waits = [wait for it in directions if (wait := it.wait(now)) is not None]
        ready, _, _ = select.select([near, far], [], [], min(waits, default=1.0))
        now = time.monotonic()
        for direction in directions:
            if direction.source in ready:
                direction.take(now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port")
    parser.add_argument("--space", required=True)
    parser.add_argument("--bed", required=True, help="whose it is; by this it is found and ended")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    near = interface(options.port)
    far_name = f"{options.port}x"
    far = interface(far_name)
    words = ["ip", "link", "set", far_name, "name", "eth0", "netns", options.space]
    subprocess.run(words, check=True, timeout=30)
    print("ready", flush=True)
    sys.stdout.close()
    relay(near, far, options.latency_ms / 1_000, options.loss, options.seed)


if __name__ == "__main__":
    main()
