#!/usr/bin/python3
"""What the servers' client tracking does, and what leases on cached shards would cost.

Raw clients and one server of each kind, over unix sockets, no file system.  Answers:

- whether a key that a function reads is tracked, and whether a change by a function is pushed;
- how often a writer has its reply before a reader has the push that ends its cache, and by how much;
- what a change takes when those who cache its key are asked to let go first, and do.

Prints one line for each figure, and keeps them.  Run as `python3 bench/tracking.py [--rounds N]`; see
docs/decisions/caches-with-company.md.
"""

import argparse
import multiprocessing
import selectors
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import about

BUILT = [Path.home() / ".cache/tidefs", Path("/usr/local/lib/tidefs")]
VALKEY = next((it / "bin/valkey-server" for it in BUILT if (it / "bin").exists()), "valkey-server")
SERVERS = [str(VALKEY), "/usr/bin/redis-server"]
WAIT_SECONDS_MAX = 30
# What was found out, as it is printed.
LINES: list[str] = []
LIBRARY = """#!lua name=tracking
redis.register_function{function_name='t_read', flags={'no-writes'},
  callback=function(keys, args) return redis.call('HMGET', keys[1], unpack(args)) end}
redis.register_function{function_name='t_write',
  callback=function(keys, args) return redis.call('HSET', keys[1], unpack(args)) end}
-- A change that those who stand in the field 'holders' must have let go of: the first answer
-- says how many they are, and marks the key.
redis.register_function{function_name='t_change',
  callback=function(keys, args)
    local holders = tonumber(redis.call('HGET', keys[1], 'holders') or '0')
    if holders > 0 then redis.call('HSET', keys[1], 'recalled', '1') return holders end
    redis.call('HDEL', keys[1], 'recalled')
    redis.call('HSET', keys[1], unpack(args))
    return 0
  end}
redis.register_function{function_name='t_let_go',
  callback=function(keys, args) return redis.call('HINCRBY', keys[1], 'holders', -1) end}
redis.register_function{function_name='t_hold',
  callback=function(keys, args)
    if redis.call('HGET', keys[1], 'recalled') then return 0 end
    return redis.call('HINCRBY', keys[1], 'holders', 1)
  end}
"""


def tell(line: str) -> None:
    LINES.append(line)
    print(line, flush=True)


class Client:
    """One connection; pushes that come between replies are kept."""

    def __init__(self, path: str, tracks: bool = False):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_SECONDS_MAX)
        self.socket.connect(path)
        self.buffer = b""
        self.pushes: list = []
        self("HELLO", "3")
        if tracks:
            self("CLIENT", "TRACKING", "ON")

    def send(self, *words: str) -> None:
        coded = [word.encode() for word in words]
        parts = [b"*%d\r\n" % len(coded)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in coded]
        self.socket.sendall(b"".join(parts))

    def __call__(self, *words: str):
        self.send(*words)
        return self.reply()

    def reply(self):
        while True:
            kind, value = self.read()
            if kind != b">":
                return value
            self.pushes.append(value)

    def push(self):
        """The next push, or nothing within a moment."""
        if not self.pushes:
            self.socket.settimeout(0.2)
            try:
                kind, value = self.read()
            except TimeoutError:
                return None
            finally:
                self.socket.settimeout(WAIT_SECONDS_MAX)
            assert kind == b">", value
            self.pushes.append(value)
        return self.pushes.pop(0)

    def wait_for_push(self) -> None:
        while not self.pushes:
            kind, value = self.read()
            assert kind == b">", value
            self.pushes.append(value)
        self.pushes.pop(0)

    def line(self) -> bytes:
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def more(self) -> None:
        received = self.socket.recv(1 << 16)
        if not received:
            raise ConnectionError("the server closed")
        self.buffer += received

    def read(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"_":
            return kind, None
        if kind in b"$=":
            length = int(rest)
            if length < 0:
                return kind, None
            while len(self.buffer) < length + 2:
                self.more()
            value, self.buffer = self.buffer[:length], self.buffer[length + 2 :]
            return kind, value
        if kind in b"*>%~":
            count = int(rest) * (2 if kind == b"%" else 1)
            return kind, [self.read()[1] for _ in range(count)]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return kind, int(rest) if kind == b":" else rest


def tracked(path: str) -> None:
    """Which reads are tracked, and which changes are pushed."""
    for read in (("HMGET",), ("FCALL", "t_read", "1"), ("FCALL_RO", "t_read", "1")):
        for write in (("HSET",), ("FCALL", "t_write", "1")):
            reader, writer = Client(path, tracks=True), Client(path)
            writer("HSET", "k", "f", "1")
            reader(read[0], *read[1:], "k", "f")
            writer(*write, "k", "f", "2")
            seen = reader.push() is not None
            tell(f"  read by {read[0]}, changed by {write[0]}: {'pushed' if seen else 'NOT pushed'}")


def order(path: str, rounds: int) -> None:
    """Who hears first: the one who changed, or the one who must forget."""
    reader, writer = Client(path, tracks=True), Client(path)
    chosen = selectors.DefaultSelector()
    for one in (reader, writer):
        chosen.register(one.socket, selectors.EVENT_READ, one)
    late, lags = 0, []
    for number in range(rounds):
        reader("FCALL", "t_read", "1", "k", "f")
        writer.send("FCALL", "t_write", "1", "k", "f", str(number))
        heard = {}
        while len(heard) < 2:
            for key, _ in chosen.select(WAIT_SECONDS_MAX):
                if key.data not in heard:
                    heard[key.data] = time.perf_counter()
                    key.data.wait_for_push() if key.data is reader else writer.reply()
            # Both in one answer count as the same instant.
        lag = heard[reader] - heard[writer]
        late += lag > 0
        lags.append(lag)
    lags.sort()
    tell(
        f"  the push came after the writer's reply in {100 * late / rounds:.0f} % of {rounds} "
        f"changes; at most {1e6 * lags[-1]:.0f} us after it"
    )


def hold(path: str, ready, over) -> None:
    """One who caches a key: is told to let go, does, and caches it again."""
    mine = Client(path, tracks=True)

    def cache() -> None:
        while not over.is_set() and mine("FCALL", "t_hold", "1", "k") == 0:
            time.sleep(0.0001)
        mine.pushes.clear()

    cache()
    mine("HGET", "k", "recalled")
    ready.release()
    while not over.is_set():
        if mine.pushes or mine.push() is not None:
            mine.pushes.clear()
            if mine("HGET", "k", "recalled") is not None:
                mine("FCALL", "t_let_go", "1", "k")
                cache()
                ready.release()
            mine("HGET", "k", "recalled")


def recalled(path: str, holders: int, rounds: int) -> None:
    """What a change takes whose key is cached by so many, who let go first."""
    writer = Client(path, tracks=True)
    writer("DEL", "k")
    ready, over = multiprocessing.Semaphore(0), multiprocessing.Event()
    programs = [
        multiprocessing.Process(target=hold, args=(path, ready, over), daemon=True)
        for _ in range(holders)
    ]
    for program in programs:
        program.start()
    times, asked = [], 0
    for number in range(rounds):
        for _ in range(holders):
            assert ready.acquire(timeout=WAIT_SECONDS_MAX)
        begun = time.perf_counter()
        while writer("FCALL", "t_change", "1", "k", "f", str(number)) != 0:
            asked += 1
            assert time.perf_counter() - begun < WAIT_SECONDS_MAX
        times.append(time.perf_counter() - begun)
    over.set()
    for program in programs:
        program.join(WAIT_SECONDS_MAX)
        program.kill()
    times.sort()
    median, worst = 1e6 * statistics.median(times), 1e6 * times[int(len(times) * 0.99)]
    tell(
        f"  a change with {holders} who cache its key: {median:.0f} us, p99 {worst:.0f} us, "
        f"{1 + asked / rounds:.1f} rounds of the writer"
    )


def measure(server: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tracking-", dir="/tmp") as folder:
        path = f"{folder}/socket"
        words = [server, "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            end = time.monotonic() + WAIT_SECONDS_MAX
            while not Path(path).exists():
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.01)
            Client(path)("FUNCTION", "LOAD", LIBRARY)
            told = Client(path)("INFO", "server")
            names = [line for line in told.splitlines() if b"s_version:" in line or b"y_version:" in line]
            version = names[-1]
            tell(f"{Path(server).name} {version.decode()}")
            tracked(path)
            order(path, rounds)
            for holders in (0, 1, 3):
                recalled(path, holders, rounds // 4)
        finally:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4000)
    options = parser.parse_args()
    where = about.look()
    for server in SERVERS:
        measure(server, options.rounds)
    about.keep(about.PROJECT / "bench/results", "tracking", where, {"lines": LINES})


if __name__ == "__main__":
    main()
