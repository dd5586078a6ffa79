"""A file system for as long as a `with` block, as `tidefs run` has one for as long as a command.

The command is a shell that says where the mount is and waits for a line. It ends when this process
does, however that ends, since its standard input ends then; so nothing is left behind.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Optional, Union

from . import _program
from ._program import Value
from .errors import CommandFailed, CommandTimedOut, ReportMissing
from .instance import FileSystem
from .report import Report

WAIT_FOR_THE_END = 'printf "%s\\0%s\\0" "$TIDEFS_MOUNT" "$TIDEFS_STATE"; exec >&-; read -r _; :'
#: How much of what the program said is quoted in an error.
SAID_BYTES = 4096


class Run(FileSystem):
    """A file system that lives until its `with` block ends."""

    def __init__(self, options: dict[str, Value], start_timeout: float, end_timeout: float) -> None:
        self._options, self._start_timeout, self._end_timeout = options, start_timeout, end_timeout
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._said: Optional[IO[bytes]] = None
        self._scratch: Optional[tempfile.TemporaryDirectory[str]] = None
        self._report: Optional[Report] = None

    @property
    def mount(self) -> Path:
        if self._process is None:
            raise RuntimeError("tidefs.run(...) starts with its `with` block")
        return self._mount

    @property
    def report(self) -> Report:
        """What the run used; there is one when the block has ended."""
        if self._report is None:
            raise ReportMissing("the run has not ended in order")
        return self._report

    def __repr__(self) -> str:
        return f"Run({self._options})" if self._process is None else super().__repr__()

    def __enter__(self) -> Run:
        if self._process is not None:
            raise RuntimeError("a run can be entered once")
        self._scratch = tempfile.TemporaryDirectory(prefix="tidefs-run-")
        try:
            self._start()
        except BaseException:
            self._end_by_force()
            self._clear()
            raise
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        process = self._running()
        try:
            self._end(process)
        except Exception as failure:
            # What went wrong in the block is what its program wants to know.
            if error is None:
                raise
            error.__context__ = failure
        finally:
            self._end_by_force()
            self._clear()

    def _arguments(self) -> list[str]:
        assert self._scratch is not None
        scratch = Path(self._scratch.name)
        options: dict[str, Value] = {"report": scratch, "mount": scratch / "mount"}
        options.update({name: value for name, value in self._options.items() if value is not None})
        self._reports = Path(str(options["report"]))
        return ["run", *_program.flags(options), "--", "sh", "-c", WAIT_FOR_THE_END]

    def _start(self) -> None:
        arguments = self._arguments()
        self._said = tempfile.TemporaryFile()
        # Its own process group: a Ctrl-C is this process's, which ends the block in order.
        self._process = subprocess.Popen(
            [_program.program(), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )
        mount, state = self._first_words(self._process, arguments)
        self._mount, self._state = Path(os.fsdecode(mount)), Path(os.fsdecode(state))

    def _first_words(self, process: subprocess.Popen[bytes], arguments: list[str]) -> list[bytes]:
        """Where the mount and the state directory are, as the command says when it starts."""
        assert process.stdout is not None
        deadline, heard = time.monotonic() + self._start_timeout, b""
        while heard.count(b"\0") < 2:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise CommandTimedOut(arguments, self._start_timeout)
            more = os.read(process.stdout.fileno(), 65536)
            if not more:
                raise CommandFailed(arguments, process.wait(self._end_timeout), self._heard())
            heard += more
        return heard.split(b"\0")[:2]

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        try:
            # A line, since a forked child of ours may hold the pipe open.
            process.stdin.write(b"\n")
            process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            status = process.wait(self._end_timeout)
        except subprocess.TimeoutExpired:
            raise CommandTimedOut(self._arguments(), self._end_timeout) from None
        if status != 0:
            raise CommandFailed(self._arguments(), status, self._heard())
        self._report = Report.read(self._reports)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _end_by_force(self) -> None:
        """Asks what still runs to end, which cleans up, and kills what does not."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(self._end_timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _heard(self) -> str:
        """The end of what the program said."""
        assert self._said is not None
        end = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, end - SAID_BYTES))
        return self._said.read().decode(errors="replace")

    def _clear(self) -> None:
        if self._said is not None:
            self._said.close()
        # What is still mounted there is not ours to delete.
        if self._scratch is not None and not os.path.ismount(Path(self._scratch.name, "mount")):
            self._scratch.cleanup()


def run(
    nodes: Union[int, str, None] = None,
    node_memory: Union[int, str, None] = None,
    *,
    policy: Optional[str] = None,
    mount: Union[str, os.PathLike[str], None] = None,
    report: Union[str, os.PathLike[str], None] = None,
    start_timeout: float = 120.0,
    end_timeout: float = 120.0,
    **options: Value,
) -> Run:
    """A file system for a `with` block, with the options of `tidefs run`.

    `nodes` is a number or a range such as `"1..4"`; without it the memory of one process serves.
    `node_memory` is bytes or a size such as `"1GiB"`. `mount` and `report` are directories; without
    them, temporary ones that go with the block. Other options of `tidefs run` are given with
    underscores, such as `quiet_period=10`. What has not started within `start_timeout` seconds, or
    not ended within `end_timeout`, is ended by force and raises CommandTimedOut.

        with tidefs.run(nodes="1..4", node_memory="256MiB") as fs:
            (fs / "input.txt").write_text("data")
        print(fs.report.peak_used_bytes)
    """
    told: dict[str, Value] = {
        "nodes": nodes,
        "node_memory": node_memory,
        "policy": policy,
        "mount": mount,
        "report": report,
    }
    return Run({**told, **options}, start_timeout, end_timeout)
