"""Times: what happened later is not dated earlier (promise 7)."""

import os

from race import Broken, Race


def order(race: Race) -> int:
    """Of two files the one that was written later, through whichever mount, is not the older one,
    as `make` needs it; nor is its directory older than a file that was made in it."""

    def play(chance) -> int:
        last, count = None, 0
        while race.goes_on(count):
            count += 1
            view = chance.choice(race.views)
            name = f"{chance.randrange(10)}"
            how = chance.choice(["write", "write", "append", "cut", "touch", "new"])
            path = view / (f"new-{count}" if how == "new" else name)
            if how == "cut" and path.exists():
                os.truncate(path, chance.randrange(100))
            elif how == "touch" and path.exists():
                os.utime(path)
            else:
                with open(path, "ab" if how == "append" else "wb") as file:
                    file.write(b"x" * chance.choice([1, 5000]))
            reader = chance.choice(race.views)
            found = os.stat(reader / path.name).st_mtime_ns
            if last and found < last[1] - race.early_ns:
                raise Broken(
                    f"{how} of {path}, seen through {reader}: "
                    f"{last[1] - found} ns older than {last[0]} before it"
                )
            last = (f"{how} of {path}", found)
        return count

    return race.run(play)[0]


def back(race: Race) -> int:
    """The times of a file that all mounts write do not go back, seen through one mount."""
    (race.views[0] / "f").touch()

    def write_through(number: int):
        def play(chance) -> int:
            count = 0
            while race.goes_on(count):
                with open(race.views[number % len(race.views)] / "f", "r+b", buffering=0) as file:
                    for _ in range(chance.randrange(1, 4)):
                        os.pwrite(file.fileno(), b"x", chance.randrange(10_000))
                count += 1
            return count

        return play

    def watch(view):
        def play(_) -> int:
            last, count = None, 0
            while race.goes_on(count):
                found = os.stat(view / "f")
                now = (found.st_mtime_ns, found.st_ctime_ns, found.st_size)
                if last and any(a < b for a, b in zip(now, last)):
                    raise Broken(f"modified, changed, size through {view}: {last}, then {now}")
                last, count = now, count + 1
            return count

        return play

    watchers = [watch(view) for view in race.views]
    counts = race.run(write_through(0), write_through(1), *watchers)
    if min(counts) == 0:
        raise Broken(f"nothing was tried: {counts}")
    return sum(counts)


TESTS = [order, back]
