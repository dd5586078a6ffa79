"""Rescaling for services that keep buckets on servers: inventory in, plan out, driven by callbacks.

A bucket is what the service places and moves as one; a server holds buckets. `plan` says which bucket goes
where when servers come and go, weighing load, bytes and time. `rescale` carries that out with the methods of a
`Service`: it starts servers, moves buckets and stops servers, several at a time, and believes nothing but the
service's inventory.

This package moves no data itself. It is the C library `tidefs_rescale` with Python's types.
"""

from ._library import LibraryMissing
from .driving import rescale
from .planning import plan
from .service import Service
from .values import (
    Bucket,
    Change,
    Inventory,
    Least,
    LibraryFailed,
    Measures,
    Move,
    Outcome,
    Plan,
    Progress,
    Refused,
    RescaleError,
    Server,
    Settings,
)

__all__ = [
    "Bucket",
    "Change",
    "Inventory",
    "Least",
    "LibraryFailed",
    "LibraryMissing",
    "Measures",
    "Move",
    "Outcome",
    "Plan",
    "Progress",
    "Refused",
    "RescaleError",
    "Server",
    "Service",
    "Settings",
    "plan",
    "rescale",
]
