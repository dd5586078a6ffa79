"""What can go wrong, each a fact that a program can act on."""

from __future__ import annotations

from collections.abc import Sequence


class TidefsError(Exception):
    """Any failure that this package reports itself."""


class ProgramNotFound(TidefsError):
    """There is no `tidefs` program where it was looked for."""

    def __init__(self, looked_at: Sequence[str]) -> None:
        self.looked_at = tuple(looked_at)
        places = ", ".join(self.looked_at)
        super().__init__(
            f"there is no tidefs program (looked at {places}); "
            "put it on PATH or name it in $TIDEFS_BINARY"
        )


class CommandFailed(TidefsError):
    """A `tidefs` command ended with a status other than 0.

    `status` is its exit status (negative: the signal that ended it; 74: nodes died, and `message`
    names the files that cannot be read in full any more), `message` what it said.
    """

    def __init__(self, arguments: Sequence[str], status: int, message: str) -> None:
        self.arguments, self.status, self.message = tuple(arguments), status, message.strip()
        said = self.message or "it said nothing"
        super().__init__(f"`tidefs {' '.join(self.arguments)}` ended with status {status}: {said}")


class CommandTimedOut(TidefsError):
    """A `tidefs` command did not end in time; it was ended. `seconds` is how long it had."""

    def __init__(self, arguments: Sequence[str], seconds: float) -> None:
        self.arguments, self.seconds = tuple(arguments), seconds
        super().__init__(f"`tidefs {' '.join(self.arguments)}` did not end within {seconds:g} s")


class NotMounted(TidefsError):
    """A directory that should lie on a mount of Tidefs does not, or there is no mount at all.

    Nothing is written beneath. `path` is the directory, or None where none was named.
    """

    def __init__(self, path: str | None, said: str = "") -> None:
        self.path = path
        if path is None:
            super().__init__(f"no mount of Tidefs was found: {said.strip()}")
        else:
            super().__init__(f"{path} is not on a mount of Tidefs; `tidefs status` lists the mounts")


class NoMount(NotMounted):
    """A running file system has no mount on this machine."""

    def __init__(self, state: str | None) -> None:
        self.state = state
        which = f"the file system of {state}" if state else "the running file system"
        super().__init__(None, f"{which} has no mount; `tidefs mount DIR` makes one")


class ReportMissing(TidefsError):
    """A run has ended without the report that it should have written, or is still going on."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"there is no report: {reason}")
