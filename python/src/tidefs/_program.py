"""Finds the `tidefs` program and runs its commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from .errors import CommandFailed, CommandTimedOut, ProgramNotFound

#: An option's value: None and False leave it out, True gives the flag alone.
Value = Union[str, int, float, bool, os.PathLike, None]  # type: ignore[type-arg]


def program() -> str:
    """The program: `$TIDEFS_BINARY`, the one that came with this package, or the one on PATH."""
    named = os.environ.get("TIDEFS_BINARY")
    if named:
        if os.access(named, os.X_OK):
            return named
        raise ProgramNotFound([f"$TIDEFS_BINARY ({named})"])
    for brought in brought_along():
        if os.access(brought, os.X_OK):
            return str(brought)
    found = shutil.which("tidefs")
    if found is None:
        raise ProgramNotFound(["$TIDEFS_BINARY", *map(str, brought_along()), "PATH"])
    return found


def brought_along() -> list[Path]:
    """Where the wheel puts the program: with the scripts of this environment, or of this user."""
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user")]
    return [Path(folder) / "tidefs" for folder in folders]


def flags(options: Mapping[str, Value]) -> list[str]:
    """Options as the command line has them: `node_memory="1GiB"` is `--node-memory=1GiB`."""
    words = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        words.append(flag if value is True else f"{flag}={text}")
    return words


def call(arguments: Sequence[str], timeout: float, answers: Sequence[int] = ()) -> str:
    """Runs a command and returns what it printed.

    Raises CommandFailed with what it said, or CommandTimedOut after `timeout` seconds. A status
    among `answers` is an answer and no failure, if the command printed something.
    """
    try:
        done = subprocess.run(
            [program(), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandTimedOut(arguments, timeout) from None
    if done.returncode != 0 and not (done.returncode in answers and done.stdout):
        raise CommandFailed(arguments, done.returncode, done.stderr)
    return done.stdout


def call_json(arguments: Sequence[str], timeout: float, answers: Sequence[int] = ()) -> Any:
    """Runs a command that prints JSON and returns that; else as `call`."""
    return json.loads(call([*arguments, "--json"], timeout, answers))
