"""One round of a play: what is drawn is noted step by step, and whatever is awaited has an end."""

import contextlib
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

# What one command may take on a machine that does much else; none comes near it.
COMMAND_SECONDS_MAX = 120
# A program that was killed needs time to give back its memory.
END_SECONDS_MAX = 10
# The base of state directories where nothing else is asked for: a small file system in memory here.
BASE = Path("/var/tmp") / f"tidefs-{os.getuid()}"
BASE_BYTES = 48 << 20
OURS = "fuse.tidefs"
# After the name of a program that the kernel is taking apart.
ENDS = ", which ends"
STEPS_FILE = "steps"


class Broken(Exception):
    """What must hold did not; the words say how."""


class Play:
    """Draws from one seed, does it, and remembers what was done."""

    def __init__(self, name: str, seed: str, tidefs: Path, scratch: Path):
        self.draw, self.tidefs, self.scratch = random.Random(f"{seed}/{name}"), tidefs, scratch
        self.steps: list[str] = []
        self.begun = time.monotonic()

    def note(self, step: str) -> None:
        self.steps.append(f"{time.monotonic() - self.begun:6.2f} s  {step}")
        with (self.scratch / STEPS_FILE).open("a") as file:
            print(self.steps[-1], file=file)

    def call(self, *words: object, **environment: str | None) -> subprocess.CompletedProcess:
        """Any command; a variable that is `None` is unset."""
        settings = {**os.environ, **environment}
        settings = {name: value for name, value in settings.items() if value is not None}
        return subprocess.run(
            [str(word) for word in words],
            env=settings,
            cwd=self.scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS_MAX,
        )

    def must(self, *words: object, status: int = 0, **environment: str | None) -> str:
        """The same, which has to end with this status; what it says."""
        done = self.call(*words, **environment)
        holds(done.returncode == status, f"{words[1:] or words} ends with {told(done)}")
        return done.stdout

    def pause(self, most: float) -> None:
        # The instant is the play's subject, not something that is waited for.
        time.sleep(self.draw.uniform(0, most))


def told(done: subprocess.CompletedProcess) -> str:
    return f"{done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}".strip()


def holds(fact: object, otherwise: str) -> None:
    if not fact:
        raise Broken(otherwise)


def until(what: str, there: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not there():
        holds(time.monotonic() < end, f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)


def table() -> dict[str, list[tuple[str, str]]]:
    """Type and source of what is mounted on each path; the last one covers the others."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, source = right.split()[:2]
        found.setdefault(left.split()[4], []).append((kind, source))
    return found


def living() -> dict[int, str]:
    """Programs of file systems that run here; there are no others' in this name space."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            # Whoever ends while he is looked at has ended.
            with contextlib.suppress(OSError):
                if words := program(process):
                    found[int(process.name)] = words
    return found


def program(process: Path) -> str | None:
    """Of a process that is one of ours, until the last of its threads is gone: files are open till then."""
    words = (process / "cmdline").read_bytes().split(b"\0")
    title, _, rest = (process / "stat").read_text().rpartition(")")
    if rest.split()[0] in "ZX" and len(list((process / "task").iterdir())) < 2:
        return None
    # One that is being taken apart has no words any more.
    name = (
        os.path.basename(words[0].split(b" ")[0]).decode(errors="replace")
        or title.partition("(")[2]
    )
    is_ours = name in ("tidefs", "exe") or name.endswith("-server")
    return (
        (b" ".join(words).decode(errors="replace").strip() or f"{name}{ENDS}") if is_ours else None
    )


def ends(words: str) -> bool:
    return words.endswith(ENDS)


def nobody_lives() -> None:
    """But for those that are on their way out of the kernel, which is soon over."""
    holds(
        not (there := [it for it in living().values() if not ends(it)]),
        f"processes live on: {there}",
    )
    until("the end of processes", lambda: not living(), END_SECONDS_MAX)


def is_over() -> None:
    """Nothing of a file system is left: no process, no mount, no state but logs of those that died."""
    nobody_lives()
    left = [str(path) for path in BASE.glob("*") if path.name != "logs-of-the-dead"]
    left += [at for at, layers in table().items() if any(kind == OURS for kind, _ in layers)]
    holds(not left, f"there is left: {left}")
