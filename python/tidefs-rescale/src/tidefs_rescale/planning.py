"""Inventory in, plan out. Moves nothing and calls nobody."""

from __future__ import annotations

import ctypes
from typing import Optional

from . import _library as c
from ._handing import c_change, error_text, failure, fill, least, measures, text
from .values import Change, Inventory, Move, Plan


def plan(inventory: Inventory, change: Change = Change(), strategy: Optional[str] = None) -> Plan:
    """Which bucket goes where when servers come and go.

    `strategy` says what matters: "l", "lt", "dt", "ldt" (load, data, time), or three weights such as "1,0.5,2".
    Raises Refused where there is no such plan, and ValueError for what is no inventory, change or strategy.
    """
    library = c.library()
    handle, error = ctypes.c_void_p(), ctypes.c_void_p()
    wanted = c_change(change)
    words = None if strategy is None else text(strategy, "the strategy")
    listed = ctypes.c_void_p(library.inventory_new())
    try:
        fill(library, listed, inventory)
        status = library.plan_make(
            listed, ctypes.byref(wanted), words, ctypes.byref(handle), ctypes.byref(error)
        )
    finally:
        library.inventory_free(listed)
    if status != c.OK:
        raise failure(status, error_text(library, error)) or AssertionError(status)
    try:
        return Plan(
            _moves(library, handle),
            measures(library.plan_measures, handle, c.BEFORE),
            measures(library.plan_measures, handle, c.AFTER),
            least(library.plan_measures, handle),
        )
    finally:
        library.plan_free(handle)


def _moves(library: c.Library, plan: ctypes.c_void_p) -> list[Move]:
    moves, step = [], c.Move()
    for at in range(library.plan_moves(plan)):
        library.plan_move(plan, at, ctypes.byref(step))
        bucket, from_server, to_server = (name.decode() for name in (step.bucket, step.from_server, step.to_server))
        moves.append(Move(bucket, from_server, to_server, step.bytes))
    return moves
