"""Of those who want the same name, or remove it, one wins (promise 9)."""

import errno
import os

from race import RENAME_NOREPLACE, Broken, Race, contest, rename

PLAYERS = 4


def one_wins(*losing: int):
    def judge(k: int, results: list[int]) -> None:
        if results.count(0) != 1 or any(r not in (0, *losing) for r in results):
            names = [errno.errorcode.get(result, "won") for result in results]
            raise Broken(f"round {k}: {', '.join(names)}")

    return judge


def among(race: Race, prepare, action, judge) -> int:
    """The same action by several programs on all mounts."""

    def of(number: int):
        return lambda k: action(race.views[number % len(race.views)], k, number)

    return contest(race, prepare, [of(number) for number in range(PLAYERS)], judge)


def nothing(_) -> None:
    pass


def exclusive(race: Race) -> int:
    """`O_EXCL` has one winner."""

    def make(view, k, _):
        os.close(os.open(view / f"{k}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))

    return among(race, nothing, make, one_wins(errno.EEXIST))


def mkdir(race: Race) -> int:
    """`mkdir` has one winner, and everybody can work in the directory."""

    def make(view, k, number):
        try:
            os.mkdir(view / f"{k}")
        finally:
            (view / f"{k}/{number}").touch()

    def judge(k, results):
        one_wins(errno.EEXIST)(k, results)
        for view in race.views:
            if len(os.listdir(view / f"{k}")) != PLAYERS:
                raise Broken(f"round {k}: files are missing through {view}")

    return among(race, nothing, make, judge)


def link(race: Race) -> int:
    """`link` and `rename` with `RENAME_NOREPLACE` to one name have one winner together."""

    def make(view, k, number):
        own = view / f"own-{number}-{k}"
        own.touch()
        if number % 2:
            os.link(own, view / f"{k}")
        else:
            rename(own, view / f"{k}", RENAME_NOREPLACE)

    return among(race, nothing, make, one_wins(errno.EEXIST))


def remove(race: Race) -> int:
    """A name is removed, or moved away, once."""

    def prepare(k):
        (race.views[0] / f"{k}").touch()

    def take(view, k, number):
        if number % 2:
            os.unlink(view / f"{k}")
        else:
            os.rename(view / f"{k}", view / f"moved-{number}-{k}")

    return among(race, prepare, take, one_wins(errno.ENOENT))


def rmdir(race: Race) -> int:
    """A directory is removed, or something is made in it, and not both."""
    first, last = race.views[0], race.views[-1]

    def make(k):
        os.close(os.open(last / f"{k}/inside", os.O_CREAT | os.O_WRONLY))

    def judge(k, results):
        removed, made = results
        there = (first / f"{k}/inside").exists()
        right = {(0, errno.ENOENT): False, (errno.ENOTEMPTY, 0): True}.get((removed, made))
        if right != there or (removed == 0) != (not (last / f"{k}").exists()):
            raise Broken(f"round {k}: rmdir {removed}, make {made}, there: {there}")

    def prepare(k):
        (first / f"{k}").mkdir()

    return contest(race, prepare, [lambda k: os.rmdir(first / f"{k}"), make], judge)


TESTS = [exclusive, mkdir, link, remove, rmdir]
