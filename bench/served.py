"""Programs on mounts, and what it costs to serve them: processor time, and replies of the nodes.

Programs are `tidefs-bench client`, so that what is timed is system calls and not Python.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import about

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trust"))
from shown import shown_to  # noqa: E402

COMMAND_SECONDS_MAX = 120
NODE_SECONDS_MAX = 30
CLIENT_ENDS_SECONDS_MAX = 30
ALL = frozenset(os.sched_getaffinity(0))


class Program:
    """A process that works on a mount as it is told to."""

    def __init__(self, bench: Path):
        line = [str(bench), "client"]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def order(self, act: str, directory: Path, **more) -> None:
        self.process.stdin.write(json.dumps({"act": act, "directory": str(directory), **more}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a program of the bench ended")
        answer = json.loads(line)
        if answer["failed"]:
            raise SystemExit(f"a program of the bench failed: {answer['failed']}")
        return answer

    def do(self, act: str, directory: Path, **more) -> dict:
        self.order(act, directory, **more)
        return self.answer()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=CLIENT_ENDS_SECONDS_MAX)


@contextlib.contextmanager
def programs(bench: Path, count: int):
    with contextlib.ExitStack() as stack:
        started = [Program(bench) for _ in range(count)]
        for program in started:
            stack.callback(program.end)
        yield started


def processor_ns(process: int) -> int:
    """Of all threads of a process, in user and in system mode, also of those that have ended."""
    # The kernel's number of a process's clock: CPUCLOCK_SCHED of the process.
    return time.clock_gettime_ns((~process << 3) | 2)


@dataclass
class Served:
    """Who serves: processes, and the sockets of nodes with what each is shown by who may ask it."""

    processes: list[int]
    nodes: list[tuple[str, str]]
    used_ns: dict[int, int] = field(default_factory=dict)

    @classmethod
    def by(cls, state: Path) -> "Served":
        """All that serve the file system that `tidefs up` keeps below `state`: mounts, nodes, a manager."""
        owners = {json.loads(it.read_text())["owner"]["pid"] for it in state.rglob("mounts/*.json")}
        clusters = [json.loads(it.read_text()) for it in state.rglob("cluster.json")]
        nodes = [node for cluster in clusters for node in cluster["nodes"]]
        processes = owners | {node["process"]["pid"] for node in nodes}
        processes |= {child for owner in owners for child in children(owner)}
        secrets = [it.read_text() for it in state.rglob("secret")]
        shown = [(node["socket"], shown_to(secrets[0], node["id"])) for node in nodes]
        return cls(sorted(processes), shown)

    def processor(self) -> float:
        """Microseconds until now. Of a process that ends in between, what it had used at the last look."""
        for process in self.processes:
            with contextlib.suppress(OSError):
                self.used_ns[process] = processor_ns(process)
        return sum(self.used_ns.values()) / 1000

    def replies(self) -> int | None:
        """Times that a node has sent replies, one or several that came due together."""
        return sum(counted(*it, "total_writes_processed") for it in self.nodes)

    def keep_to(self, processors: frozenset[int]) -> None:
        for process in self.processes:
            keep_to(process, processors)


def children(process: int) -> set[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return {int(child) for task in tasks for child in task.read_text().split()}


def keep_to(process: int, processors: frozenset[int]) -> None:
    """All threads of a process run there from now on, and those that they start."""
    for thread in os.listdir(f"/proc/{process}/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), processors)


def counted(path: str, secret: str, what: str) -> int:
    """What a node counts. Asking is a reply as well."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(NODE_SECONDS_MAX)
        line.connect(path)
        replies = line.makefile("rb")
        for words in (("AUTH", "tidefs", secret), ("INFO", "stats")):
            request = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
            line.sendall("".join(request).encode())
            head = replies.readline()
            if head[:1] not in (b"+", b"$"):
                raise SystemExit(f"{path} answers {head!r}")
        told = replies.read(int(head[1:])).decode()
    return int(next(row for row in told.splitlines() if row.startswith(what + ":")).split(":")[1])


@dataclass
class Figure:
    """Of one operation, done so many times."""

    rate: float
    processor_us: float
    replies: float

    def __str__(self) -> str:
        return f"{self.rate:10.0f}/s {self.processor_us:8.1f} us {self.replies:7.2f} replies"


class Meter:
    """Counts what is spent while it is entered; afterwards it says what one of so many came to."""

    def __init__(self, served: Served):
        self.served = served

    def __enter__(self) -> "Meter":
        self.before = self.served.replies(), self.served.processor()
        return self

    def __exit__(self, *_: object) -> None:
        processor = self.served.processor() - self.before[1]
        # The first question's reply and those before it count; the last one's come due after it.
        asked = 2 * len(self.served.nodes)
        self.spent = processor, self.served.replies() - self.before[0] - asked

    def of(self, answers: list[dict]) -> Figure:
        """Of what several did at the same time, from when the first began to when the last ended."""
        count = sum(it["count"] for it in answers)
        took = max(it["ended"] for it in answers) - min(it["began"] for it in answers)
        return Figure(1e9 * count / took, self.spent[0] / count, self.spent[1] / count)


class FileSystem:
    """That `tidefs up` keeps, with as many mounts as have joined."""

    def __init__(self, tidefs: Path, folder: Path, nodes: tuple[str, ...]):
        self.tidefs, self.state, self.folder = tidefs, folder / "s", folder
        self.nodes, self.mounts = nodes, [folder / "m0"]

    def __enter__(self) -> "FileSystem":
        self.run("up", *self.nodes, "--node-memory", "512MiB", "--mount", self.mounts[0])
        return self

    def __exit__(self, *_: object) -> None:
        self.run("down")

    def run(self, *words: object) -> None:
        about.must(self.tidefs, "--state", self.state, *words)

    def join(self, count: int) -> float:
        """So many mounts at once; answers the milliseconds until all could be used."""
        new = [self.folder / f"m{len(self.mounts) + number}" for number in range(count)]
        for mount in new:
            mount.mkdir(exist_ok=True)
        line = [str(self.tidefs), "--state", str(self.state), "mount"]
        began = time.monotonic()
        joining = [subprocess.Popen([*line, str(it)], stdout=subprocess.DEVNULL) for it in new]
        failed = [it.wait(timeout=COMMAND_SECONDS_MAX) for it in joining]
        took = time.monotonic() - began
        if any(failed):
            raise SystemExit("a mount could not join")
        self.mounts += new
        return 1000 * took

    def served(self) -> Served:
        return Served.by(self.state)


@contextlib.contextmanager
def null_layer(bench: Path, folder: Path, *words: str):
    """The layer is there for as long as the command in it waits for its input's end."""
    line = [str(bench), "null", *words, str(folder / "n"), "--", "cat"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as layer:
        try:
            layer.stdin.write(b"\n")
            layer.stdin.flush()
            if layer.stdout.read(1) != b"\n":
                raise SystemExit(f"{' '.join(line)}: the layer could not be mounted")
            yield folder / "n", Served([layer.pid], [])
        finally:
            layer.stdin.close()
            layer.wait(timeout=COMMAND_SECONDS_MAX)
