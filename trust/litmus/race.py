"""Programs that run at the same time on the mounts of one file system, for a bounded time."""

import ctypes
import multiprocessing
import os
import queue
import random
import sys
import time
import traceback
from pathlib import Path

from mounted import Mounted

FORK = multiprocessing.get_context("fork")
# Beyond its time a program may take this long to come to its end.
END_SECONDS_MAX = 60
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
AT_FDCWD = -100
LIBC = ctypes.CDLL(None, use_errno=True)


class Broken(Exception):
    """A promise was broken; the words say how."""


def rename(old: Path, new: Path, flags: int) -> None:
    if LIBC.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(old), None, str(new))


class Race:
    """A folder of its own on each mount, and programs that race there."""

    def __init__(self, name: str, mounted: Mounted, seconds: float, seed: int, early_ns: int = 0):
        self.name, self.mounted, self.seconds, self.seed = name, mounted, seconds, seed
        # How much too early what is written may be dated.
        self.early_ns = early_ns
        # How long things are left alone at most before each change.
        self.rest_seconds = 0.0
        self.chance = random.Random(f"{seed}/{name}")
        self.views = [mount / name for mount in mounted.mounts]
        self.views[0].mkdir()
        # How many steps the one who changes things has begun, and ended.
        self.begun = FORK.Value("q", 0, lock=False)
        self.ended = FORK.Value("q", 0, lock=False)
        self.over = FORK.Event()
        self.deadline = 0.0

    def goes_on(self, done: int) -> bool:
        """For a program that has done something so many times: once at least, on any machine."""
        return (done == 0 or time.monotonic() < self.deadline) and not self.over.is_set()

    def run(self, *programs) -> list:
        """Runs programs side by side; each is given a source of chance and answers what it did."""
        reports = FORK.Queue()
        self.deadline = time.monotonic() + self.seconds
        processes = [
            FORK.Process(target=self.report, args=(number, program, reports), daemon=True)
            for number, program in enumerate(programs)
        ]
        for process in processes:
            process.start()
        answers, failures = {}, []
        end = self.deadline + END_SECONDS_MAX
        try:
            while len(answers) < len(programs):
                number, failure, answer = reports.get(timeout=max(0.1, end - time.monotonic()))
                answers[number] = answer
                failures += [failure] if failure else []
        except queue.Empty:
            failures.append(f"{len(programs) - len(answers)} programs hang")
        finally:
            self.over.set()
            for process in processes:
                process.join(timeout=1 if failures else END_SECONDS_MAX)
                process.kill()
        if failures:
            raise Broken("\n".join(failures))
        return [answers[number] for number in range(len(programs))]

    def report(self, number: int, program, reports) -> None:
        # A program of its own: it neither prints what is left in a buffer nor cleans up for others.
        failure, answer = None, None
        try:
            answer = program(random.Random(f"{self.seed}/{self.name}/{number}"))
        except Broken as broken:
            failure = str(broken)
        except BaseException:
            failure = traceback.format_exc(limit=-4)
        if failure:
            self.over.set()
        reports.put((number, failure, answer))
        reports.close()
        reports.join_thread()
        sys.stdout.flush()
        os._exit(0)


def register(race: Race, step, look, apart: bool = False, lookers: int = 2) -> int:
    """One program takes a thing from state to state; others look at it through every mount.

    `step(view, n)` brings it from state n - 1 to n. `look(view, chance)` answers what was seen, and
    whether it fits a state. What is seen must fit a state that the thing had between the beginning
    and the end of the look, and never one before a state that was seen earlier: by the same
    looker through any mount, or through the same mount where the mounts are taken `apart`.
    """

    def change(chance) -> int:
        n = 0
        view = chance.choice(race.views)
        while race.goes_on(n):
            n += 1
            time.sleep(chance.random() * race.rest_seconds)
            race.begun.value = n
            step(view, n)
            race.ended.value = n
        return n

    def watch(chance) -> int:
        seen = {view: 0 for view in race.views}
        looks = 0
        while race.goes_on(looks):
            view = chance.choice(race.views)
            known = seen[view] if apart else max(seen.values())
            least = max(known, race.ended.value)
            what, fits = look(view, chance)
            most = race.begun.value
            state = next((n for n in range(least, most + 1) if fits(n)), None)
            if state is None:
                raise Broken(
                    f"{what} through {view} fits none of the states {least} to {most}; "
                    f"{known} was seen before"
                )
            seen[view] = state
            looks += 1
        return looks

    counts = race.run(change, *[watch] * lookers)
    if min(counts) == 0:
        raise Broken(f"nothing was tried: {counts}")
    return sum(counts)


def contest(race: Race, prepare, actions, judge) -> int:
    """Programs try one action each at the same moment, round after round.

    `prepare(k)` makes ready; `actions` are called with k; `judge(k, results)` is given what each
    answered, or its OSError.
    """
    gate = FORK.Barrier(len(actions))
    results = FORK.Array("i", len(actions), lock=False)
    rounds = FORK.Value("q", 0, lock=False)
    goes_on = FORK.Value("b", 1, lock=False)

    def player(number: int):
        def play(_) -> int:
            k = 0
            while True:
                if number == 0:
                    goes_on.value = race.goes_on(k)
                    if goes_on.value:
                        prepare(k)
                gate.wait(END_SECONDS_MAX)
                if not goes_on.value:
                    return k
                try:
                    actions[number](k)
                    results[number] = 0
                except OSError as error:
                    results[number] = error.errno
                gate.wait(END_SECONDS_MAX)
                if number == 0:
                    judge(k, list(results))
                    rounds.value = k + 1
                k += 1

        return play

    race.run(*[player(number) for number in range(len(actions))])
    if rounds.value == 0:
        raise Broken("no round was played")
    return rounds.value * len(actions)
