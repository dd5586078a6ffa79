"""What became of each death of a host that had a file system: a line of JSON in a file, added as soon as it is known.

Deaths are tried in pieces, each with a seed of its own.  A piece has passed when as many deaths as it has have, in the
last try of it, with one program.
"""

import json
import os
from pathlib import Path


class Deaths:
    """Those of one program, in pieces of so many."""

    def __init__(self, path: Path, program: str, times: int):
        self.path, self.of, self.times = path, {"program": program, "times": times}, times

    def add(self, seed: int, number: int, asked: str | None, seconds: float | None, failure: str | None) -> None:
        """`number`: of the piece's, from 1 on; `seconds`: until a manager had decided."""
        seconds = seconds and round(seconds, 1)
        line = self.of | {"seed": seed, "death": number, "asked": asked, "seconds": seconds, "failure": failure}
        with self.path.open("a") as file:
            file.write(json.dumps(line | {"load": round(os.getloadavg()[0], 1)}) + "\n")

    def pieces(self) -> dict[int, list[dict]]:
        """By seed, the deaths of the last try."""
        found = {}
        for line in lines(self.path):
            if self.of.items() <= line.items():
                found[line["seed"]] = [*(found.get(line["seed"], []) if line["death"] > 1 else []), line]
        return found

    def has_passed(self, piece: list[dict]) -> bool:
        return len(piece) == self.times and not any(line["failure"] for line in piece)

    def begin_anew(self) -> None:
        """What was measured before is kept beside it."""
        before = self.path.with_name(f"{self.path.name}.before")
        self.path.replace(before)
        print(f"heirs: all pieces in {before} passed with this program; they are tried again")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tells(found: list[dict]) -> int:
    """Of these deaths: how many, how many of them failed, and the seconds.  Answers with how many failed."""
    seconds = sorted(line["seconds"] for line in found if line["seconds"] is not None)
    failed = [line for line in found if line["failure"]]
    said = f"{len(found)} deaths, {len(failed)} failed"
    if seconds:
        said += f"; a manager decided after {seconds[len(seconds) // 2]:.1f} s in the middle, {seconds[-1]:.1f} s at most"
        loads = sorted(line["load"] for line in found)
        said += f", at a load of {loads[len(loads) // 2]:.1f} in the middle, {loads[-1]:.1f} at most"
    print(f"heirs: {said}")
    for line in failed:
        print(f"heirs: --times {line['times']} --seed {line['seed']}, death {line['death']}: {line['failure']}")
    return len(failed)


def sums(path: Path) -> int:
    """By program, of all that the file has.  Answers with how many failed."""
    of = {}
    for line in lines(path):
        of.setdefault(line["program"], []).append(line)
    failed = 0
    for program, found in of.items():
        print(f"heirs: {program}:")
        failed += tells(found)
    return failed
