"""The C library tidefs_rescale as its header states it: found, loaded, with its structures. Judges nothing."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import threading
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Optional

from .values import RescaleError

NAME = "libtidefs_rescale.so"
OK, REFUSED, UNFINISHED, ARGUMENT = 0, 1, 2, 3
#: Of measures: as it was, as it is or would be, and the least.
BEFORE, AFTER, LEAST = 0, 1, 2
#: Lists of an outcome.
STARTED, STOPPED, ROLLED_BACK, FAULTS, LEFT = range(5)


class LibraryMissing(RescaleError):
    """The shared library is nowhere to be found, or cannot be loaded."""


class Server(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("class_name", c_char_p),
        ("weight", c_double),
        ("bandwidth", c_double),
        ("capacity_bytes", c_uint64),
    ]


class Bucket(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("server", c_char_p),
        ("bytes", c_uint64),
        ("load", c_double),
        ("class_name", c_char_p),
    ]


class Move(Structure):
    _fields_ = [("bucket", c_char_p), ("from_server", c_char_p), ("to_server", c_char_p), ("bytes", c_uint64)]


class Measures(Structure):
    _fields_ = [
        ("load_balance", c_double),
        ("data_balance", c_double),
        ("seconds", c_double),
        ("bytes_moved", c_uint64),
        ("buckets_moved", c_uint64),
    ]


class Progress(Structure):
    _fields_ = [
        (name, c_uint64) for name in ("moved", "bytes_moved", "to_move", "moving", "started", "stopped", "faults")
    ]


class Change(Structure):
    _fields_ = [
        ("start", POINTER(Server)),
        ("start_count", c_size_t),
        ("stop", POINTER(c_char_p)),
        ("stop_count", c_size_t),
    ]


class Settings(Structure):
    _fields_ = [
        ("strategy", c_char_p),
        ("moves_per_server", c_uint32),
        ("calls_at_once", c_uint32),
        ("attempts", c_uint32),
        ("between_inventories", c_double),
        ("inventory_within", c_double),
        ("start_within", c_double),
        ("move_within", c_double),
        ("stop_within", c_double),
    ]


def values_of(structure: Structure) -> dict[str, Any]:
    """The fields by their names."""
    return {field[0]: getattr(structure, field[0]) for field in structure._fields_}


INVENTORY = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
OF_SERVER = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)
MOVE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_void_p)
PROGRESS = CFUNCTYPE(None, c_void_p, POINTER(Progress))
CLOCK = CFUNCTYPE(c_double, c_void_p)


class Callbacks(Structure):
    _fields_ = [
        ("inventory", INVENTORY),
        ("start", OF_SERVER),
        ("move", MOVE),
        ("stop", OF_SERVER),
        ("progress", PROGRESS),
        ("clock", CLOCK),
    ]


#: By name without its prefix: what a function returns and takes.
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "inventory_new": (c_void_p, []),
    "inventory_add_server": (c_int, [c_void_p, POINTER(Server)]),
    "inventory_add_bucket": (c_int, [c_void_p, POINTER(Bucket)]),
    "inventory_free": (None, [c_void_p]),
    "say": (None, [c_void_p, c_char_p]),
    "plan_make": (c_int, [c_void_p, POINTER(Change), c_char_p, POINTER(c_void_p), POINTER(c_void_p)]),
    "plan_moves": (c_size_t, [c_void_p]),
    "plan_move": (c_int, [c_void_p, c_size_t, POINTER(Move)]),
    "plan_measures": (c_int, [c_void_p, c_int, POINTER(Measures)]),
    "plan_free": (None, [c_void_p]),
    "settings_default": (None, [POINTER(Settings)]),
    "run": (
        c_int,
        [POINTER(Callbacks), c_void_p, POINTER(Change), POINTER(Settings), POINTER(c_void_p), POINTER(c_void_p)],
    ),
    "outcome_count": (c_size_t, [c_void_p, c_int]),
    "outcome_text": (c_char_p, [c_void_p, c_int, c_size_t]),
    "outcome_halted": (c_char_p, [c_void_p]),
    "outcome_measures": (c_int, [c_void_p, c_int, POINTER(Measures)]),
    "outcome_seconds": (c_double, [c_void_p]),
    "outcome_calls_running": (c_uint64, [c_void_p]),
    "outcome_free": (None, [c_void_p]),
    "text_free": (None, [c_void_p]),
}

_lock = threading.Lock()
_loaded: Optional[Library] = None


class Library:
    """The functions of the header, without their prefix."""

    def __init__(self) -> None:
        path = _path()
        try:
            loaded = ctypes.CDLL(path)
        except OSError as error:
            raise LibraryMissing(f"{path} cannot be loaded: {error}") from error
        for name, (result, arguments) in SIGNATURES.items():
            try:
                function = getattr(loaded, f"tidefs_rescale_{name}")
            except AttributeError:
                raise LibraryMissing(f"{path} is another version: it has no tidefs_rescale_{name}") from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def library() -> Library:
    """The library, loaded once. Raises LibraryMissing."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = Library()
        return _loaded


def _path() -> str:
    """`$TIDEFS_RESCALE_LIBRARY`, what came with this package, or what the system has."""
    named = os.environ.get("TIDEFS_RESCALE_LIBRARY")
    if named:
        return named
    brought = Path(__file__).with_name(NAME)
    found = str(brought) if brought.exists() else ctypes.util.find_library("tidefs_rescale")
    if not found:
        raise LibraryMissing(
            f"{NAME} is not installed; install a wheel or package of Tidefs, or name the library in "
            "$TIDEFS_RESCALE_LIBRARY"
        )
    return found
