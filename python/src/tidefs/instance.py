"""A running file system as a Python program sees it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from . import _program
from .errors import NoMount
from .status import Status

if TYPE_CHECKING:
    from .fsspec_filesystem import TidefsFileSystem

#: How long a command that only asks may take, in seconds.
QUESTION_SECONDS = 30.0
#: How long a change of the number of nodes may take, in seconds, unless the caller says otherwise.
CHANGE_SECONDS = 600.0
#: The status of `tidefs fsck` where something is left that is not right.
NOT_CLEAN = 1


class FileSystem:
    """A running file system: where it is mounted, how it is, and how to change it.

    It owns nothing: leaving it alone leaves the file system running. `tidefs.run` gives one that
    ends with its `with` block, `tidefs.attach` one that somebody else has started.
    """

    def __init__(self, mount: Path, state: Optional[Path]) -> None:
        self._mount, self._state = mount, state

    @property
    def mount(self) -> Path:
        """The directory where it is mounted."""
        return self._mount

    @property
    def state(self) -> Optional[Path]:
        """Its state directory; None for the default one of this user."""
        return self._state

    def __fspath__(self) -> str:
        return os.fspath(self.mount)

    def __truediv__(self, name: str) -> Path:
        """A path on the mount: `fs / "results" / "a.csv"`."""
        return self.mount / name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fspath(self.mount)!r})"

    @property
    def fsspec(self) -> TidefsFileSystem:
        """The same as a file system of fsspec."""
        from .fsspec_filesystem import TidefsFileSystem

        return TidefsFileSystem(mount=os.fspath(self.mount))

    def status(self) -> Status:
        """Its nodes, mounts and what its manager does."""
        return Status.of(_program.call_json(self._command("status"), QUESTION_SECONDS))

    def scale(self, nodes: int, timeout: float = CHANGE_SECONDS) -> None:
        """Adds or removes nodes by hand, within the range it was started with; returns when done."""
        _program.call([*self._command("scale"), str(nodes)], timeout)

    def drain(self, node: str, timeout: float = CHANGE_SECONDS) -> None:
        """Moves what a node holds to the others and removes it; returns when done.

        `node` is a node's number or id, or the beginning of an id.
        """
        _program.call([*self._command("drain"), node], timeout)

    def check(self, repair: bool = False, timeout: float = CHANGE_SECONDS) -> Any:
        """What `tidefs fsck --json` finds: `check()["clean"]`, and what is not.

        `repair` removes what crashes have leaked.
        """
        command = [*self._command("fsck"), *_program.flags({"repair": repair})]
        return _program.call_json(command, timeout, answers=[NOT_CLEAN])

    def _command(self, name: str) -> list[str]:
        return [name, *_program.flags({"state": self.state})]


def attach(state: Optional[os.PathLike[str]] = None) -> FileSystem:
    """The file system that runs already: that of `state`, of `$TIDEFS_STATE`, or of `tidefs up`.

    Raises CommandFailed where none runs and NoMount where it has no mount.
    """
    directory = None if state is None else Path(state)
    command = ["status", *_program.flags({"state": directory})]
    status = Status.of(_program.call_json(command, QUESTION_SECONDS))
    if not status.mounts:
        raise NoMount(None if directory is None else os.fspath(directory))
    named = os.environ.get("TIDEFS_MOUNT")
    mount = named if named in status.mounts else status.mounts[0]
    return FileSystem(Path(mount), directory)
