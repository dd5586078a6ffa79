"""A rescaling: the methods of a service become callbacks of the library.

The library's loop runs in a thread of its own, so that the thread that asked for it can be interrupted: C code
does not notice Ctrl-C.
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any, Callable, Optional

from . import _library as c
from ._handing import c_change, c_settings, error_text, failure, fill, least, measures
from .service import Service
from .values import Change, LibraryFailed, Outcome, Progress, Settings

#: Exceptions that are kept; the library keeps as many faults.
_EXCEPTIONS_KEPT = 1_000


def rescale(
    service: Service,
    change: Change = Change(),
    settings: Settings = Settings(),
    clock: Optional[Callable[[], float]] = None,
) -> Outcome:
    """Starts servers, moves buckets and stops servers until all is as `change` says, or cannot be.

    `clock` says the seconds since any moment, by which time limits are measured, if not the system's clock.
    Raises Refused where nothing was done, and ValueError for what is no change or no settings. What could not
    be done is in the outcome.

    When it is interrupted, as by Ctrl-C, nothing more is begun, what is under way is waited for, and the
    KeyboardInterrupt goes on; a second one does not wait. A method that hangs is not waited for beyond its
    limit, and ends with the process at the latest.
    """
    run = _Run(service, change, settings, clock)
    thread = threading.Thread(target=run.carry_out, name="tidefs-rescale", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        run.interrupted = True
        thread.join()
        raise
    if run.broken is not None:
        raise run.broken
    assert run.outcome is not None
    return run.outcome


class _Run:
    """One rescaling on its way."""

    def __init__(
        self, service: Service, change: Change, settings: Settings, clock: Optional[Callable[[], float]]
    ) -> None:
        self.library = c.library()
        self.service = service
        self.change = c_change(change)
        self.settings = c_settings(self.library, settings)
        self.raised: list[BaseException] = []
        self.interrupted = False
        self.now = self.stood = 0.0
        self.broken: Optional[BaseException] = None
        self.outcome: Optional[Outcome] = None
        told = getattr(service, "progress", None)
        self.callbacks = c.Callbacks(
            c.INVENTORY(lambda _, into, why: self.guarded(why, self.list_into, into)),
            c.OF_SERVER(lambda _, server, why: self.guarded(why, service.start, server.decode())),
            c.MOVE(lambda _, *words: self.guarded(words[3], service.move, *(name.decode() for name in words[:3]))),
            c.OF_SERVER(lambda _, server, why: self.guarded(why, service.stop, server.decode())),
            c.PROGRESS(lambda _, now: self.tell(told, now.contents)) if told else c.PROGRESS(),
            c.CLOCK(lambda _: self.time(clock)) if clock else c.CLOCK(),
        )

    def list_into(self, into: Any) -> None:
        fill(self.library, into, self.service.inventory())

    def guarded(self, why: Any, method: Callable[..., object], *arguments: Any) -> int:
        """Calls a method; what it raises becomes the words of a failure."""
        if self.interrupted:
            self.library.say(why, b"it was interrupted")
            return 1
        try:
            method(*arguments)
            return 0
        except BaseException as error:
            self.keep(error)
            self.library.say(why, _words(error))
            return 1

    def tell(self, told: Callable[[Progress], object], now: Any) -> None:
        try:
            told(Progress(**c.values_of(now)))
        except BaseException as error:
            self.keep(error)

    def time(self, clock: Callable[[], float]) -> float:
        """What the clock says. One that fails ends everything; until then time goes on."""
        if self.broken is None:
            try:
                self.now = float(clock())
            except BaseException as error:
                self.broken, self.interrupted, self.stood = error, True, time.monotonic()
        return self.now if self.broken is None else self.now + time.monotonic() - self.stood

    def keep(self, error: BaseException) -> None:
        if len(self.raised) < _EXCEPTIONS_KEPT:
            self.raised.append(error)

    def carry_out(self) -> None:
        try:
            self.outcome = self.result()
        except BaseException as error:
            self.broken = self.broken or error

    def result(self) -> Outcome:
        library, handle, error = self.library, ctypes.c_void_p(), ctypes.c_void_p()
        status = library.run(
            ctypes.byref(self.callbacks),
            None,
            ctypes.byref(self.change),
            ctypes.byref(self.settings),
            ctypes.byref(handle),
            ctypes.byref(error),
        )
        try:
            refused = failure(status, error_text(library, error) if error else "")
            if refused is not None:
                raise refused
            if not handle:
                raise LibraryFailed("the library has no outcome")
            return self.read(handle, status == c.OK)
        finally:
            _hanging.keep(self, handle)

    def read(self, handle: ctypes.c_void_p, complete: bool) -> Outcome:
        library = self.library

        def texts(which: int) -> list[str]:
            count = library.outcome_count(handle, which)
            return [library.outcome_text(handle, which, at).decode() for at in range(count)]

        halted = library.outcome_halted(handle)
        return Outcome(
            complete=complete,
            started=texts(c.STARTED),
            stopped=texts(c.STOPPED),
            rolled_back=texts(c.ROLLED_BACK),
            faults=texts(c.FAULTS),
            left=texts(c.LEFT),
            halted=None if halted is None else halted.decode(),
            before=measures(library.outcome_measures, handle, c.BEFORE),
            after=measures(library.outcome_measures, handle, c.AFTER),
            least=least(library.outcome_measures, handle),
            seconds=library.outcome_seconds(handle),
            calls_running=library.outcome_calls_running(handle),
            exceptions=list(self.raised),
        )


class _Hanging:
    """Runs whose callbacks are in use: a thread that comes back from a method returns into them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.runs: list[tuple[_Run, ctypes.c_void_p]] = []

    def keep(self, run: _Run, handle: ctypes.c_void_p) -> None:
        """Keeps the run for as long as it has calls, and lets go of those that have none any more."""
        with self.lock:
            self.runs.append((run, handle))
            used = [(run, handle) for run, handle in self.runs if run.library.outcome_calls_running(handle)]
            for run, handle in self.runs:
                if not any(handle is kept for _, kept in used):
                    run.library.outcome_free(handle)
            self.runs = used


_hanging = _Hanging()


def _words(error: BaseException) -> bytes:
    try:
        said = str(error)
    except Exception:
        said = "its text cannot be had"
    name = type(error).__name__
    return (f"{name}: {said}" if said else name).replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace")
