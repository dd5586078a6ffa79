"""Names and attributes: what one mount changed, every mount sees (promises 7 and 8)."""

import os
from pathlib import Path

from race import RENAME_EXCHANGE, Race, register, rename


def exists(path: Path) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def mode(race: Race) -> int:
    """`chmod` is seen at once."""
    (race.views[0] / "f").touch()

    def look(view, _):
        seen = os.stat(view / "f").st_mode & 0o777
        return f"mode {seen:o}", lambda n: n == 0 or n & 0o777 == seen

    return register(race, lambda view, n: os.chmod(view / "f", n & 0o777), look)


def times(race: Race) -> int:
    """`utimensat` is seen at once."""
    (race.views[0] / "f").touch()

    def look(view, _):
        seen = os.stat(view / "f").st_mtime_ns
        return f"modification time {seen}", lambda n: n == 0 or n * 1000 == seen

    return register(race, lambda view, n: os.utime(view / "f", ns=(n, n * 1000)), look)


def size(race: Race) -> int:
    """`truncate` is seen at once."""
    (race.views[0] / "f").touch()

    def look(view, _):
        seen = os.stat(view / "f").st_size
        return f"size {seen}", lambda n: n * 7919 % 100_003 == seen

    return register(race, lambda view, n: os.truncate(view / "f", n * 7919 % 100_003), look)


def growth(race: Race) -> int:
    """A size that was seen on a mount does not go back there, and none is missed after a close."""
    (race.views[0] / "f").touch()
    # A record never crosses a page: a kernel that writes by itself shows the size page by page.
    record = b"x" * 512

    def step(view, n):
        with open(view / "f", "ab", buffering=0) as file:
            file.write(record)

    def look(view, _):
        seen = os.stat(view / "f").st_size
        return f"size {seen}", lambda n: n * len(record) == seen

    return register(race, step, look, apart=True)


def extended(race: Race) -> int:
    """`setxattr` is seen at once."""
    (race.views[0] / "f").touch()
    os.setxattr(race.views[0] / "f", "user.n", b"0")

    def look(view, _):
        seen = int(os.getxattr(view / "f", "user.n"))
        return f"attribute {seen}", lambda n: n == seen

    return register(race, lambda v, n: os.setxattr(v / "f", "user.n", b"%d" % n), look)


def links(race: Race) -> int:
    """The number of names follows `link` and `unlink`."""
    (race.views[0] / "f").touch()

    def step(view, n):
        if n % 2:
            os.link(view / "f", view / "another")
        else:
            os.unlink(view / "another")

    def look(view, _):
        seen = os.stat(view / "f").st_nlink
        return f"{seen} links", lambda n: 1 + n % 2 == seen

    return register(race, step, look)


def coming_and_going(race: Race) -> int:
    """A name that is made is there and one that is removed is not, also where it was missed or
    there before."""

    def step(view, n):
        if n % 2:
            os.close(os.open(view / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        else:
            os.unlink(view / "f")

    def look(view, _):
        seen = exists(view / "f")
        return f"there: {seen}", lambda n: n % 2 == seen

    return register(race, step, look)


def directories(race: Race) -> int:
    """The same for a directory, and for its parent's count of links."""

    def step(view, n):
        if n % 2:
            os.mkdir(view / "d")
        else:
            os.rmdir(view / "d")

    def look(view, chance):
        seen = exists(view / "d") if chance.random() < 0.5 else os.stat(view).st_nlink - 2
        return f"there: {seen}", lambda n: n % 2 == seen

    return register(race, step, look)


def exchange(race: Race) -> int:
    """Two names exchange their files at one instant, in two directories or in one."""
    view = race.views[0]
    (view / "there").mkdir()
    place = race.chance.choice(["x{}", "there/x{}"]).format(race.chance.randrange(100))
    names = ["y", place]
    for number, name in enumerate(names):
        (view / name).write_bytes(b"%d" % number)

    def step(view, _):
        rename(view / "y", view / place, RENAME_EXCHANGE)

    def look(view, chance):
        number = chance.randrange(2)
        seen = int((view / names[number]).read_bytes())
        return f"{names[number]} is file {seen}", lambda n: (number + n) % 2 == seen

    return register(race, step, look)


def moves(race: Race) -> int:
    """A file has one name at every instant, whichever directory it moves to."""
    view = race.views[0]
    (view / "there").mkdir()
    names = [f"there/{n}" if n % 3 == 0 else f"{n}" for n in range(7)]
    (view / names[0]).touch()

    def step(view, n):
        os.rename(view / names[(n - 1) % 7], view / names[n % 7])

    def look(view, chance):
        number = chance.randrange(7)
        seen = exists(view / names[number])
        return f"{names[number]} there: {seen}", lambda n: (n % 7 == number) == seen

    return register(race, step, look)


def directory_moves(race: Race) -> int:
    """The same for a directory, seen by what is inside."""
    view = race.views[0]
    (view / "d0").mkdir()
    (view / "d0/inside").touch()

    def step(view, n):
        os.rename(view / f"d{(n - 1) % 3}", view / f"d{n % 3}")

    def look(view, chance):
        number = chance.randrange(3)
        seen = exists(view / f"d{number}/inside")
        return f"d{number}/inside there: {seen}", lambda n: (n % 3 == number) == seen

    return register(race, step, look)


def replacing(race: Race) -> int:
    """A file that is replaced by `rename` is always there, whole, and never an older one."""
    (race.views[0] / "f").write_bytes(b"0\n")

    def step(view, n):
        (view / "new").write_bytes(b"%d\n" % n * (1 + n % 300))
        os.rename(view / "new", view / "f")

    def look(view, chance):
        if chance.random() < 0.2:
            os.stat(view / "f")
            return "a file", lambda n: True
        lines = (view / "f").read_bytes().split(b"\n")
        seen = int(lines[0] or b"-1")
        whole = len(lines) == 2 + (seen % 300 if seen else 0) and len(set(lines[:-1])) == 1
        return f"{len(lines)} lines of file {seen}", lambda n: whole and n == seen

    return register(race, step, look)


def symlinks(race: Race) -> int:
    """The same for a symbolic link."""
    os.symlink("0", race.views[0] / "link")

    def step(view, n):
        os.symlink(str(n), view / "new")
        os.rename(view / "new", view / "link")

    def look(view, _):
        seen = int(os.readlink(view / "link"))
        return f"target {seen}", lambda n: n == seen

    return register(race, step, look)


TESTS = [mode, times, size, growth, extended, links, coming_and_going, directories, exchange]
TESTS += [moves, directory_moves, replacing, symlinks]
