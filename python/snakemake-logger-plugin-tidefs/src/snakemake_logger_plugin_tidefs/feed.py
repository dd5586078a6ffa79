"""What is told to Tidefs of the workflow that this process runs.

The scheduler plug-in knows the jobs, the logger plug-in what becomes of them; both tell it here. A thread of
its own carries it to the `tidefs` program, so that Snakemake never waits for it. What goes wrong there is said once,
and is no reason for the workflow to stop.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from tidefs import TidefsError, attach
from tidefs._program import program

#: Tellings that wait; beyond them the workflow is not followed any more.
WAITING_MOST = 10_000
#: In the environment of whatever a Snakemake starts that has told of its jobs.
TOLD = "TIDEFS_SNAKEMAKE_TOLD"
#: How long the end of the workflow waits for what was not told yet, and a graph may take, in seconds.
END_SECONDS = 10.0
GRAPH_SECONDS = 60.0


@dataclass
class Job:
    """A job as Tidefs is told of it; files are paths below the mount."""

    id: str
    kind: str
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    bytes_most: Optional[int] = None
    seconds: Optional[float] = None


class Feed:
    """Everything that is told, in order."""

    def __init__(self, mount: Optional[Path] = None, is_silent: bool = False) -> None:
        self._lock = threading.RLock()
        self._given_mount = mount
        self._mount: Optional[str] = None
        self._jobs: dict[str, Job] = {}
        self._rest: list[str] = []
        self._history: list[str] = []
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._dying: set[str] = set()
        #: By how many jobs that have not ended a file is read.
        self._unread: Counter[str] = Counter()
        self._temporary: set[str] = set()
        self._waiting: queue.Queue[Optional[tuple[bool, str]]] = queue.Queue(WAITING_MOST)
        self._carrier: Optional[threading.Thread] = None
        #: Answers with all jobs that have ended.
        self.ended_jobs: Callable[[], Iterable[str]] = tuple
        self._is_over = is_silent
        self._lost_job_said = is_silent

    @contextmanager
    def harmless(self) -> Iterator[None]:
        """Whatever goes wrong within is said once, and is no reason for the workflow to stop."""
        try:
            yield
        except Exception as error:
            self._give_up(repr(error))

    def name(self, path: str) -> Optional[str]:
        """How Tidefs calls a file: its path below the mount; None where it lies elsewhere."""
        mount, real = self.mount(), os.path.realpath(path)
        if mount is None or not real.startswith(mount + os.sep):
            return None
        return os.path.relpath(real, mount)

    def mount(self) -> Optional[str]:
        with self._lock:
            if self._mount is None and not self._is_over:
                try:
                    self._mount = os.path.realpath(self._given_mount or attach().mount)
                except TidefsError as error:
                    self._give_up(str(error))
            return self._mount

    def graph(self, jobs: Iterable[Job], targets: Iterable[str], slots: Optional[int]) -> None:
        """The jobs that are to run. Told again with more or other ones, it is told as a whole."""
        with self._lock:
            told = {job.id: job for job in jobs}
            if all(self._jobs.get(id) == job for id, job in told.items()) and self._jobs:
                return
            # A checkpoint puts other jobs in the place of some that have not begun.
            begun = {id: job for id, job in self._jobs.items() if id in self._begun}
            self._jobs = {**begun, **told}
            left = [job for job in self._jobs.values() if job.id not in self._ended]
            self._unread = Counter(name for job in left for name in job.reads)
            self._temporary = {name for job in self._jobs.values() for name in job.temporary}
            known = {name for job in self._jobs.values() for name in (*job.reads, *job.writes)}
            self._rest = [_line("target", name) for name in sorted(set(targets) & known)]
            self._rest += [_line("slots", slots)] if slots else []
            self._rest += [
                _line("file", {"name": name, "bytes": size})
                for name in sorted(known - {name for job in self._jobs.values() for name in job.writes})
                if (size := self._size(name)) is not None
            ]
            tasks = [_line("task", _without_nothing(job)) for job in self._jobs.values()]
            self._tell(True, [*tasks, *self._rest, *self._history])

    def started(self, id: str) -> None:
        self._begun.add(id)
        self._event(id, _line("started", id))

    def failed(self, id: str) -> None:
        self._event(id, _line("failed", id))

    def finished(self, id: str) -> None:
        with self._lock:
            if id in self._ended:
                return
            job = self._jobs.get(id)
            sizes = {name: self._size(name) for name in job.writes} if job else {}
            files = [{"name": name, "bytes": size} for name, size in sizes.items() if size is not None]
            self._event(id, _line("finished", {"id": id, "files": files}))
            if job is None:
                return
            self._ended.add(id)
            self._unread.subtract(job.reads)
            # Snakemake removes temporary files when their last reader has ended.
            ends = {name for name in (*job.reads, *job.writes) if self._unread[name] <= 0}
            self._dying |= ends & self._temporary
            self.look()

    def catch_up(self) -> None:
        """Tells of jobs that have ended without a word, as with `--quiet progress`."""
        for id in self.ended_jobs():
            self.finished(id)

    def look(self) -> None:
        """Tells of temporary files that are gone by now."""
        with self._lock:
            gone = [name for name in self._dying if not os.path.lexists(self._path(name))]
            self._dying -= set(gone)
            lines = [_line("removed", name) for name in sorted(gone)]
            self._history += lines
            if lines:
                self._tell(False, lines)

    def end(self) -> None:
        """Waits, not for ever, until all is told."""
        self.catch_up()
        with self._lock:
            self.look()
            carrier, self._carrier = self._carrier, None
        if carrier is not None:
            try:
                self._waiting.put(None, timeout=END_SECONDS)
            except queue.Full:
                return
            carrier.join(END_SECONDS)

    def _event(self, id: str, line: str) -> None:
        with self._lock:
            if id in self._jobs:
                self._history.append(line)
                self._tell(False, [line])
            elif not self._jobs and not self._lost_job_said:
                self._lost_job_said = True
                print("tidefs: nothing is known of the jobs; add --scheduler tidefs", file=sys.stderr)

    def _path(self, name: str) -> str:
        return os.path.join(self.mount() or os.sep, name)

    def _size(self, name: str) -> Optional[int]:
        path = self._path(name)
        try:
            if not os.path.isdir(path):
                return os.stat(path).st_size
            within = [os.path.join(top, one) for top, _, files in os.walk(path) for one in files]
            return sum(os.lstat(one).st_size for one in within)
        except OSError:
            return None

    def _tell(self, is_graph: bool, lines: list[str]) -> None:
        if self._is_over:
            return
        if self._carrier is None:
            self._carrier = threading.Thread(target=self._carry, name="tells Tidefs", daemon=True)
            self._carrier.start()
            atexit.register(self.end)
        try:
            self._waiting.put_nowait((is_graph, "\n".join(lines) + "\n"))
        except queue.Full:
            self._give_up("it does not take what it is told")

    def _give_up(self, why: str) -> None:
        if not self._is_over:
            self._is_over = True
            print(f"tidefs: the workflow is not followed: {why}", file=sys.stderr)

    def _carry(self) -> None:
        news: Optional[subprocess.Popen[str]] = None
        try:
            while (telling := self._waiting.get()) is not None:
                is_graph, text = telling
                if is_graph:
                    # News of the former graph come first.
                    _close(news)
                    news = None
                    subprocess.run(
                        [program(), "workflow", "--graph", "-"], input=text, text=True, check=True,
                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=GRAPH_SECONDS,
                    )
                    continue
                if news is None:
                    news = subprocess.Popen(
                        [program(), "workflow", "--news", "-"], stdin=subprocess.PIPE, text=True,
                        stdout=subprocess.DEVNULL,
                    )
                assert news.stdin is not None
                news.stdin.write(text)
                news.stdin.flush()
        except subprocess.CalledProcessError as error:
            self._give_up(error.stderr.strip())
        except (OSError, subprocess.SubprocessError, TidefsError) as error:
            self._give_up(str(error))
        finally:
            _close(news)


def _close(news: Optional[subprocess.Popen[str]]) -> None:
    """Waits, not for ever, until what was written is told."""
    if news is None:
        return
    assert news.stdin is not None
    try:
        news.stdin.close()
        news.wait(END_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        news.kill()
        news.wait()


def _line(what: str, value: Any) -> str:
    return json.dumps({what: value})


def _without_nothing(job: Job) -> dict[str, Any]:
    return {key: value for key, value in vars(job).items() if value is not None}


def is_within_another() -> bool:
    """Whether this process runs a job of a Snakemake that tells of it, such as one of a `run:` directive."""
    modes = [after for word, after in zip(sys.argv, sys.argv[1:]) if word == "--mode"]
    return TOLD in os.environ or any(mode != "default" for mode in modes)


#: Of this process: Snakemake makes the plug-ins, and one workflow runs at a time.
FEED = Feed(is_silent=is_within_another())
