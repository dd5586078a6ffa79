"""Names and attributes that are left alone for a while, looked at all the time, and changed then: whatever a
mount keeps of what is at rest, it does not answer from it any more."""

import functools
import os
import signal
import time

import names
from race import Broken, Race, register, rename

# How long things are left alone at most between two changes: most of it longer than mounts keep away from what
# somebody has changed, and long enough for many looks.
REST_SECONDS = 0.6
DIRECTORIES = 12
# What a change may take that has to wait for a mount which does not answer, on a busy machine.
CHANGE_SECONDS_MAX = 20


def rested(test):
    """The same race, with a rest before each change."""

    @functools.wraps(test)
    def slowly(race: Race) -> int:
        race.rest_seconds = REST_SECONDS
        return test(race)

    return slowly


def tree(race: Race) -> int:
    """Of many directories that are walked through all the time, one changes now and then."""
    race.rest_seconds = REST_SECONDS
    for number in range(DIRECTORIES):
        (race.views[0] / f"d{number}").mkdir()
        (race.views[0] / f"d{number}/f0").touch()

    def step(view, n):
        rename(view / f"d{n % DIRECTORIES}/f{(n - 1) // DIRECTORIES}",
               view / f"d{n % DIRECTORIES}/f{(n - 1) // DIRECTORIES + 1}", 0)

    def look(view, chance):
        number = chance.randrange(DIRECTORIES)
        found = sorted(os.listdir(view / f"d{number}"))
        os.stat(view / f"d{number}")

        def names_after(n):
            # Directory d has been changed n // D times, once more if n % D is d or beyond it; d0 comes last.
            return [f"f{(n + DIRECTORIES - (number or DIRECTORIES)) // DIRECTORIES}"]

        def fits(n):
            if found == names_after(n):
                return True
            # Of a name that is moved meanwhile a listing may have the old one, the new one, both or none.
            moved = sorted(names_after(n - 1) + names_after(n)) if n > 0 else []
            return n % DIRECTORIES == number and found in ([], moved)

        return f"{found} in d{number}", fits

    return register(race, step, look)


def held(race: Race) -> int:
    """What is looked at without its name, so that only the kernel is asked: `chmod` is seen at once."""
    race.rest_seconds = REST_SECONDS
    names = ("f", "d", ".")
    (race.views[0] / "f").touch()
    (race.views[0] / "d").mkdir()
    # Descriptors of each process that looks: those of files would be open files otherwise.
    places = {}

    def mode(view, name: str) -> int:
        if (os.getpid(), view, name) not in places:
            places[os.getpid(), view, name] = os.open(view / name, os.O_PATH)
        return os.fstat(places[os.getpid(), view, name]).st_mode & 0o77

    def step(view, n):
        name = names[n % len(names)]
        os.chmod(view / name, 0o700 | n // len(names) & 0o77)

    def look(view, chance):
        number = chance.randrange(len(names))
        seen = mode(view, names[number])

        def fits(n):
            # The last of the changes until n that was made to this name.
            last = n - (n - number) % len(names)
            return last <= 0 or last // len(names) & 0o77 == seen

        return f"mode {seen:o} of {names[number]}", fits

    return register(race, step, look)


def look_around(view) -> list[tuple]:
    """What a program sees of a directory with all that is in it."""
    seen = []
    for name in sorted(os.listdir(view)):
        stat = os.lstat(view / name)
        seen.append((name, stat.st_mode, stat.st_size, stat.st_nlink))
    seen.append((".", os.stat(view).st_mtime_ns))
    seen.append(("missing", names.exists(view / "made")))
    return seen


def change(view) -> None:
    (view / "made").write_text("made")
    os.unlink(view / "f0")
    os.chmod(view / "f1", 0o400)
    os.truncate(view / "f2", 100)
    os.rename(view / "f3", view / "moved")
    os.link(view / "f4", view / "linked")
    (view / "f5").write_text("written")
    (view / "d").mkdir()


def silent(race: Race) -> int:
    """A mount that is stopped or killed after it has looked at names holds up who changes them for a moment
    only; when it goes on it sees them at once. Only where a mount is a process of its own."""
    rounds = 0
    for number, kill in enumerate((False, True)):
        with race.mounted.one_more() as extra:
            if extra is None:
                return 0
            name = f"{race.name}/{number}"
            view = race.views[0] / str(number)
            there = extra.mount / name
            view.mkdir()
            for file in range(6):
                (view / f"f{file}").write_text("before")
            begun = time.monotonic()
            while time.monotonic() - begun < 2:
                look_around(there)
            os.kill(extra.server, signal.SIGKILL if kill else signal.SIGSTOP)
            try:
                begun = time.monotonic()
                change(view)
                seconds = time.monotonic() - begun
                if seconds > CHANGE_SECONDS_MAX:
                    raise Broken(f"changes took {seconds:.1f} s beside a mount that is silent")
            finally:
                if not kill:
                    os.kill(extra.server, signal.SIGCONT)
            views = [there] if not kill else []
            expected = look_around(view)
            for other in views + [each / str(number) for each in race.views]:
                seen = look_around(other)
                if seen != expected:
                    raise Broken(f"{other} shows {seen} and not {expected}")
            rounds += 1
    return rounds


def slow(test):
    """Each of them takes some seconds."""
    test.seconds_min = 30
    return test


TESTS = [rested(test) for test in names.TESTS] + [tree, held, slow(silent)]
