"""Hands values to the library and takes its answers back.

C has no integers below 0 and no text with a zero in it, and takes 0 for "as usual". So what would be taken for
something else is found here, and what makes no sense to the planner is left to the library.
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional

from . import _library as c
from .values import (
    Bucket,
    Change,
    Inventory,
    Least,
    LibraryFailed,
    Measures,
    Refused,
    Server,
    Settings,
)

_BYTES_END = 1 << 64
_COUNT_END = 1 << 32


def text(value: str, what: str) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a str, and is {value!r}")
    if "\0" in value:
        raise ValueError(f"{what} must not have a zero character in it: {value!r}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} cannot be written as UTF-8: {value!r}") from error


def _whole(value: int, what: str, least: int, end: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < end:
        raise ValueError(f"{what} must be a whole number, {least} or more and below {end}, and is {value!r}")
    return value


def _above_zero(value: float, what: str) -> float:
    if not value > 0:
        raise ValueError(f"{what} must be above 0, and is {value!r}")
    return value


def c_server(server: Server) -> c.Server:
    name = text(server.name, "the name of a server")
    of = f"of server {server.name!r}"
    capacity = server.capacity_bytes
    return c.Server(
        name,
        text(server.class_name, f"the class {of}"),
        _above_zero(server.weight, f"the weight {of}"),
        _above_zero(server.bandwidth, f"the bandwidth {of}"),
        0 if capacity is None else _whole(capacity, f"the capacity {of}", 1, _BYTES_END),
    )


def c_bucket(bucket: Bucket) -> c.Bucket:
    name = text(bucket.name, "the name of a bucket")
    of = f"of bucket {bucket.name!r}"
    class_name = bucket.class_name
    return c.Bucket(
        name,
        text(bucket.server, f"the server {of}"),
        _whole(bucket.bytes, f"the number of bytes {of}", 0, _BYTES_END),
        bucket.load,
        None if class_name is None else text(class_name, f"the class {of}"),
    )


def c_change(change: Change) -> c.Change:
    if isinstance(change.stop, str):
        raise ValueError("the servers to stop must be a sequence of names, and are one str")
    servers = [c_server(server) for server in change.start]
    names = [text(name, "the name of a server to stop") for name in change.stop]
    return c.Change(
        (c.Server * len(servers))(*servers), len(servers), (ctypes.c_char_p * len(names))(*names), len(names)
    )


def c_settings(library: c.Library, settings: Settings) -> c.Settings:
    """The library's own, but for what is given."""
    given = c.Settings()
    library.settings_default(ctypes.byref(given))
    if settings.strategy is not None:
        given.strategy = text(settings.strategy, "the strategy")
    for field in c.Settings._fields_[1:]:
        name, kind = field[0], field[1]
        value = getattr(settings, name)
        if value is None:
            continue
        if kind is ctypes.c_uint32:
            value = _whole(value, name, 1, _COUNT_END)
        elif not value >= 0:
            raise ValueError(f"{name} must be a time in seconds, and is {value!r}")
        setattr(given, name, value)
    return given


def fill(library: c.Library, into: Any, inventory: Inventory) -> None:
    if not isinstance(inventory, Inventory):
        raise TypeError(f"an Inventory is wanted, and this is {inventory!r}")
    for server in inventory.servers:
        _added(library.inventory_add_server(into, ctypes.byref(c_server(server))), server)
    for bucket in inventory.buckets:
        _added(library.inventory_add_bucket(into, ctypes.byref(c_bucket(bucket))), bucket)


def _added(status: int, what: object) -> None:
    if status != c.OK:
        raise ValueError(f"the library does not take this into an inventory: {what!r}")


def error_text(library: c.Library, error: ctypes.c_void_p) -> str:
    """What the library said; its text is freed."""
    if not error:
        return "the library does not say why"
    said = ctypes.string_at(error.value or 0)
    library.text_free(error)
    return said.decode()


def failure(status: int, said: str) -> Optional[Exception]:
    """What a status stands for; None where the function did what it should."""
    if status in (c.OK, c.UNFINISHED):
        return None
    if status == c.REFUSED:
        return Refused(said)
    return ValueError(said) if status == c.ARGUMENT else LibraryFailed(said)


def measures(get: Any, handle: ctypes.c_void_p, which: int) -> Measures:
    found = c.Measures()
    get(handle, which, ctypes.byref(found))
    return Measures(**c.values_of(found))


def least(get: Any, handle: ctypes.c_void_p) -> Least:
    found = measures(get, handle, c.LEAST)
    return Least(found.seconds, found.bytes_moved)
