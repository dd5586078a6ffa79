"""Plans, and what they are refused for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from shelves import Shelves, coming

import tidefs_rescale
from tidefs_rescale import Bucket, Change, Inventory, Refused, Server, plan


def two_servers() -> Inventory:
    return Shelves(2, 40).inventory()


def test_a_plan_says_what_moves_and_how_even_that_is() -> None:
    planned = plan(two_servers(), Change(start=[Server("new")], stop=["server-0"]))
    place = {bucket.name: bucket.server for bucket in two_servers().buckets}
    for move in planned.moves:
        assert move.from_server == place[move.bucket] and move.bytes == 1_000
        place[move.bucket] = move.to_server
    assert Counter(place.values()) == {"server-1": 20, "new": 20}
    assert planned.after.data_balance == planned.after.load_balance == 1.0
    assert planned.after.buckets_moved == len(planned.moves)
    assert planned.after.bytes_moved == 1_000 * len(planned.moves) >= planned.least.bytes_moved == 20_000
    assert planned.before.buckets_moved == 0


def test_without_a_change_what_there_is_is_balanced() -> None:
    inventory = Inventory(
        [Server("a"), Server("b", weight=3.0)], [Bucket(f"bucket-{at}", "a", 100) for at in range(40)]
    )
    planned = plan(inventory)
    assert Counter(move.to_server for move in planned.moves) == {"b": 30}


def test_loads_and_classes_count() -> None:
    servers = [Server("fast", "fast"), Server("slow-1", "slow"), Server("slow-2", "slow")]
    buckets = [Bucket(f"hot-{at}", "slow-1", 100, load=10.0, class_name="slow") for at in range(4)]
    buckets += [Bucket(f"cold-{at}", "slow-1", 100, load=1.0, class_name="slow") for at in range(4)]
    moved = plan(Inventory(servers, buckets), strategy="l").moves
    assert {move.to_server for move in moved} == {"slow-2"}
    assert Counter(move.bucket.split("-")[0] for move in moved) == {"hot": 2, "cold": 2}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Change(stop=["nobody"]), 'no server "nobody"'),
        (Change(stop=["server-0", "server-1"]), "no server would be left"),
        (Change(start=[Server("x")], stop=["x"]), "is to be started and to be stopped"),
        (Change(start=[Server("x", bandwidth=math.inf)]), "bandwidth"),
        (Change(start=[Server("x", capacity_bytes=10)], stop=["server-0", "server-1"]), "has room for 10"),
    ],
)
def test_what_cannot_be_done_is_refused(change: Change, says: str) -> None:
    with pytest.raises(Refused, match=says):
        plan(two_servers(), change, strategy="l")


@pytest.mark.parametrize(
    ("bucket", "says"),
    [
        ({"name": "a\0b"}, "zero character"),
        ({"name": "\udc80"}, "UTF-8"),
        ({"name": b"bytes"}, "must be a str"),
        ({"server": None}, "must be a str"),
        ({"bytes": -1}, "must be a whole number"),
        ({"bytes": 1 << 64}, "must be a whole number"),
        ({"bytes": 1.5}, "must be a whole number"),
    ],
)
def test_what_c_would_take_for_something_else_is_no_bucket(bucket: dict[str, object], says: str) -> None:
    inventory = two_servers()
    inventory.buckets.append(replace(Bucket("name", "server-0", 1), **bucket))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=says):
        plan(inventory)


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ({"name": "a\0b"}, "zero character"),
        ({"weight": 0.0}, "weight of server 'x' must be above 0"),
        ({"weight": math.nan}, "weight of server 'x' must be above 0"),
        ({"bandwidth": -1.0}, "bandwidth of server 'x' must be above 0"),
        ({"capacity_bytes": 0}, "capacity of server 'x' must be a whole number, 1 or more"),
    ],
)
def test_what_c_would_take_for_something_else_is_no_server(server: dict[str, object], says: str) -> None:
    wrong = replace(Server("x"), **server)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=says):
        plan(two_servers(), Change(start=[wrong]))


def test_one_name_is_no_list_of_names() -> None:
    with pytest.raises(ValueError, match="sequence of names"):
        plan(two_servers(), Change(stop="server-0"))


def test_a_strategy_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="fast"):
        plan(two_servers(), coming("new"), strategy="fast")


def test_a_load_that_is_none_is_refused() -> None:
    inventory = two_servers()
    inventory.buckets[3] = replace(inventory.buckets[3], load=math.nan)
    with pytest.raises(Refused, match="load of bucket"):
        plan(inventory)


def test_all_that_is_offered_is_there() -> None:
    assert all(hasattr(tidefs_rescale, name) for name in tidefs_rescale.__all__)
