"""Runs a workflow stage by stage, the tasks of a stage side by side.

A task is a program or a Python call, with the files it must leave behind.
A stage ends well when every task ended well and left its files; the first failure
stops the workflow and says which command failed and what it printed last.
What each stage did (tasks, files, bytes, seconds) can be kept as JSON.

This knows no workflow and no file system: the work folder may lie anywhere.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Callable, Sequence

OUTPUT_LINES_SHOWN = 15
BAR_WIDTH = 30


class Failure(Exception):
    """Why a run failed, in words for the person who started it."""


@dataclass
class Task:
    """One unit of work.

    `action` is an argument vector, or a call.  `outputs` must exist afterwards; `dead` is
    what no later task reads.  These paths, and the folder `cwd` that a program runs in,
    are relative to the work folder.
    """

    action: Sequence[str | Path] | Callable[[], None]
    outputs: Sequence[Path] = ()
    cwd: Path = Path()
    dead: Sequence[Path] = ()


@dataclass
class StageResult:
    name: str
    tasks: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass
class Stages:
    """The stages of one run of a workflow in the work folder `folder`, in order.

    `complaint` finds the error in what a program printed though it exited with 0.
    """

    folder: Path
    jobs: int
    delete_dead: bool = False
    complaint: Callable[[str], bool] = lambda output: False
    results: list[StageResult] = field(default_factory=list)

    def run(self, name: str, tasks: Sequence[Task], in_order: bool = False) -> None:
        """Runs one stage; `in_order` for tasks that each need the one before."""
        result = StageResult(name)
        progress = Progress(name, len(tasks))
        start = time.monotonic()
        try:
            with ThreadPoolExecutor(1 if in_order else self.jobs) as pool:
                self._run_all(pool, tasks, result, progress)
        finally:
            progress.end()
        result.seconds = time.monotonic() - start
        self.results.append(result)
        print(
            f"{name:<18}{result.tasks:>6} tasks {result.files:>6} files "
            f"{format_bytes(result.bytes):>10} {result.seconds:>8.2f} s",
            flush=True,
        )

    def _run_all(self, pool, tasks, result, progress) -> None:
        waiting = {pool.submit(self._run_task, task) for task in tasks}
        try:
            while waiting:
                ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ended:
                    files, size = future.result()
                    result.tasks += 1
                    result.files += files
                    result.bytes += size
                    progress.show(result.tasks)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise

    def _run_task(self, task: Task) -> tuple[int, int]:
        try:
            if callable(task.action):
                task.action()
            else:
                self._run_program(task)
            size = sum((self.folder / path).stat().st_size for path in task.outputs)
        except FileNotFoundError as error:
            raise Failure(f"{self._describe(task)}\n  has no file {error.filename}") from error
        except OSError as error:
            raise Failure(f"{self._describe(task)}\n  {error}") from error
        if self.delete_dead:
            for path in task.dead:
                (self.folder / path).unlink()
        return len(task.outputs), size

    def _run_program(self, task: Task) -> None:
        command = [str(word) for word in task.action]
        folder = self.folder / task.cwd
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except FileNotFoundError:
            if not folder.is_dir():
                raise Failure(f"the work folder {folder} is gone") from None
            raise Failure(
                f"there is no program {command[0]}; scripts/setup run installs it"
            ) from None
        if done.returncode != 0 or self.complaint(done.stdout):
            tail = done.stdout.splitlines()[-OUTPUT_LINES_SHOWN:]
            failed = f"failed ({status_text(done.returncode)})"
            raise Failure("\n  ".join([self._describe(task), failed, *tail]))

    def _describe(self, task: Task) -> str:
        if callable(task.action):
            return f"task for {', '.join(str(path) for path in task.outputs)}"
        command = shlex.join(str(word) for word in task.action)
        return f"(cd {self.folder / task.cwd} && {command})"

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([asdict(result) for result in self.results], indent=2) + "\n")


class Progress:
    """A bar on a terminal; nothing elsewhere, where each stage prints its own line."""

    def __init__(self, name: str, total: int):
        self.name = name
        self.total = max(total, 1)
        self.start = time.monotonic()
        self.on_terminal = sys.stdout.isatty()
        self.show(0)

    def show(self, done: int) -> None:
        if self.on_terminal:
            full = BAR_WIDTH * done // self.total
            bar = "#" * full + "." * (BAR_WIDTH - full)
            seconds = time.monotonic() - self.start
            print(
                f"\r{self.name:<18}[{bar}] {done}/{self.total} {seconds:.1f} s ",
                end="",
                flush=True,
            )

    def end(self) -> None:
        if self.on_terminal:
            print("\r\033[K", end="", flush=True)


def finish(name: str, run: Callable[[], None]) -> None:
    """Runs a whole program and turns its failure, or being told to stop, into exit status 1.

    SIGTERM ends it as Ctrl-C does: nothing new starts, and what runs is waited for.
    """

    def stop(number, frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        run()
    except Failure as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{name}: stopped")


def copy_tasks(sources: Sequence[Path], folder: Path) -> list[Task]:
    """One task per file to copy into `folder`."""
    return [
        Task(
            action=lambda source=source: shutil.copyfile(source, folder / source.name),
            outputs=[folder / source.name],
        )
        for source in sources
    ]


def status_text(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def format_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


def work_folder(given: Path | None, name: str) -> Path:
    """The folder to work in: the one given, else `name` inside the mount of `tidefs run`."""
    if given is None:
        mount = os.environ.get("TIDEFS_MOUNT")
        if not mount:
            sys.exit("say where to work with --work DIR, or start this under tidefs run")
        given = Path(mount) / name
    given.mkdir(parents=True, exist_ok=True)
    if any(given.iterdir()):
        sys.exit(f"the work folder {given} is not empty; give another, or remove what is in it")
    return given


def positive(text: str) -> int:
    """An argument that must be a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number
