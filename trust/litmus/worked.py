"""A directory in which one mount works by itself, so that its kernel keeps names of it, until another mount takes one
of them away: whoever looks through the first one sees that at once."""

import os
import stat

from names import exists
from race import Broken, Race, register, rename

# Steps of the mount that works there, and then of another one.
OWN_STEPS, OTHERS_STEPS = 12, 3
# Every so often the thing is moved to a directory that all look at, and back.
MOVES_EVERY = 5
# Names that the mount makes and removes beside, so that it counts as at work.
BESIDE = 4
# Of a hundred looks, those through the mount that works; others keep it from working by itself.
OWN_LOOKS = 97


def worked(race: Race, make) -> int:
    race.rest_seconds = 0.02
    worker, others = race.views[0], race.views[1:] or race.views
    for name in ("apart", "together"):
        (worker / name).mkdir()
    make(worker / "apart/f0")

    def place(n: int) -> str:
        return f"{'together' if n % MOVES_EVERY == 0 and n > 0 else 'apart'}/f{n}"

    def step(_, n):
        is_own = n % (OWN_STEPS + OTHERS_STEPS) < OWN_STEPS
        view = worker if is_own else others[n % len(others)]
        for number in range(BESIDE if is_own else 0):
            (view / f"apart/beside{number}").touch()
            os.stat(view / f"apart/beside{number}")
            os.unlink(view / f"apart/beside{number}")
        rename(view / place(n - 1), view / place(n), 0)

    def look(view, chance):
        view = worker if chance.randrange(100) < OWN_LOOKS else chance.choice(others)
        named = max(0, race.begun.value + chance.randrange(-2, 3))
        if named % MOVES_EVERY and chance.randrange(100) >= OWN_LOOKS:
            named += MOVES_EVERY - named % MOVES_EVERY
        is_there = exists(view / place(named))
        return f"{place(named)} {'there' if is_there else 'not there'}", \
            lambda n: (n == named) == is_there

    return register(race, step, look)


def files(race: Race) -> int:
    """Files that one mount moves about in a directory of its own, and others as well now and then."""
    return worked(race, lambda path: path.touch())


def directories(race: Race) -> int:
    """The same of a directory."""
    return worked(race, lambda path: path.mkdir())


def current_directory(race: Race) -> int:
    """Programs in a directory of it keep theirs, whoever looks."""
    (race.views[0] / "top/here").mkdir(parents=True)

    def stays(_) -> int:
        os.chdir(race.views[0] / "top/here")
        looks = 0
        while race.goes_on(looks):
            os.stat(".")
            os.stat(race.views[0] / "top/here")
            if os.getcwd() != str(race.views[0] / "top/here"):
                raise Broken(f"the current directory is {os.getcwd()}")
            looks += 1
        return looks

    def works(chance) -> int:
        done = 0
        while race.goes_on(done):
            file = race.views[0] / f"top/f{chance.randrange(100)}"
            file.touch()
            os.stat(file)
            os.unlink(file)
            done += 1
        return done

    def looks_elsewhere(chance) -> int:
        looks = 0
        while race.goes_on(looks):
            view = chance.choice(race.views)
            if not stat.S_ISDIR(os.stat(view / "top/here").st_mode):
                raise Broken("a directory is none")
            os.listdir(view / "top")
            looks += 1
        return looks

    return sum(race.run(stays, works, looks_elsewhere))


TESTS = [files, directories, current_directory]
