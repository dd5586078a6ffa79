"""Listings: names that stay are in every listing, once (promise 7)."""

import os
from collections import Counter

from race import RENAME_EXCHANGE, Broken, Race, register, rename

BYSTANDERS = 150


def bystanders(race: Race) -> int:
    """Names that stay are listed once while others come, go, move and are replaced; a name that is
    made before a listing begins is in it, and one that is removed before is not."""
    view = race.views[0]
    stay = {f"stays-{number}" for number in range(BYSTANDERS)} | {"replaced", "x", "y"}
    for name in stay | {"moves-0"}:
        (view / name).touch()

    def step(view, n):
        (view / "new").touch()
        os.rename(view / "new", view / "replaced")
        rename(view / "x", view / "y", RENAME_EXCHANGE)
        os.rename(view / f"moves-{(n - 1) % 5}", view / f"moves-{n % 5}")
        if n % 2:
            os.mkdir(view / "comes")
        else:
            os.rmdir(view / "comes")

    def look(view, chance):
        with_attributes = chance.random() < 0.5
        with os.scandir(view) as entries:
            names = Counter(entry.name for entry in entries if with_attributes or entry.name)
        twice = [name for name, count in names.items() if count > 1 and "moves" not in name]
        missing = stay - set(names)
        if twice or missing:
            raise Broken(f"a listing through {view} lacks {missing} and has twice {twice}")
        seen = "comes" in names
        return f"comes listed: {seen}", lambda n: n % 2 == seen

    return register(race, step, look)


def emptying(race: Race) -> int:
    """A directory lists what is in it, whether it was filled or emptied last."""

    def step(view, n):
        for number in range(4):
            path = view / f"{number}"
            if n % 2:
                path.touch()
            else:
                path.unlink()

    def look(view, _):
        seen = len(os.listdir(view))
        # In the middle of a step there may be any number of them.
        return f"{seen} names", lambda n: seen == 4 * (n % 2) or n < race.begun.value

    return register(race, step, look)


TESTS = [bystanders, emptying]
