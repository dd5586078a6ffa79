"""What each workflow does at each size: its input, its programs, and what must agree."""

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Sequence

from montage.fits import difference
from stages import Failure


@dataclass(frozen=True)
class Scenario:
    """One workflow at one size.

    `generator` and `program` are a script of this folder and its arguments.  `reference`
    are further arguments for a run on disk whose results are the right ones; where there
    are none, the first run on disk is the reference.  `compare` takes the results on
    Tidefs and the reference, and says what agreed or raises Failure.
    """

    generator: Sequence[str]
    program: Sequence[str]
    # As `tidefs run --nodes` takes them.
    nodes: str
    node_memory: str
    # What the run on disk fills at most, input and results included.
    disk_bytes: int
    compare: Callable[[Path, Path], str]
    reference: Sequence[str] = ()
    # How often the file system grows and shrinks at least, with these nodes on any machine.
    grows: int = 0
    shrinks: int = 0


def compare_mosaics(on_tidefs: Path, on_disk: Path) -> str:
    mosaic, picture = on_tidefs / "mosaic.fits", on_tidefs / "mosaic.png"
    found = difference(mosaic, on_disk / "mosaic.fits")
    if found:
        raise Failure(f"the mosaics differ: {found}\n  {mosaic}\n  {on_disk / 'mosaic.fits'}")
    if picture.read_bytes() != (on_disk / picture.name).read_bytes():
        raise Failure(f"the pictures differ: {picture} and {on_disk / picture.name}")
    return f"The mosaics' pixels are identical.\nPicture: {picture}"


def compare_matches(on_tidefs: Path, reference: Path) -> str:
    for version in ("4", "5"):
        name = f"matches.v{version}.tsv"
        ours, theirs = (folder / name for folder in (on_tidefs, reference))
        if ours.read_bytes() != theirs.read_bytes():
            raise Failure(f"the matches differ from the unsplit search: {ours} and {theirs}")
        if ours.stat().st_size == 0:
            raise Failure(f"the search found nothing at all: {ours}")
    count = len(ours.read_text().splitlines())
    return f"All {count} matches equal the unsplit search, in both database formats."


def montage(
    tiles: int, side: int, nodes: str, node_memory: str, disk_bytes: int, **changes: int
) -> Scenario:
    """Each stage's input is removed when the stage has read it, so what is in use rises and falls."""
    grid = str(tiles)
    return Scenario(
        generator=["montage/tiles.py", "--nx", grid, "--ny", grid, "--size", str(side)],
        program=["montage/montage.py", "--delete-dead"],
        nodes=nodes,
        node_memory=node_memory,
        disk_bytes=disk_bytes,
        compare=compare_mosaics,
        **changes,
    )


def blast(sequences: int, queries: int, pieces: int, node_memory: str, disk_bytes: int):
    return Scenario(
        generator=["blast/sequences.py", "--sequences", f"{sequences}", "--queries", f"{queries}"],
        program=["blast/blast.py", "--database-pieces", str(pieces), "--query-pieces", "4"],
        nodes="4",
        node_memory=node_memory,
        disk_bytes=disk_bytes,
        compare=compare_matches,
        reference=["--database-pieces", "1", "--query-pieces", "1"],
    )


SCENARIOS = {
    # Over within five seconds: whether usage is low for one of them depends on the machine.
    ("montage", "small"): montage(4, 256, "1..6", "32MiB", 100_000_000, grows=1),
    # Grows for the projected tiles and for their differences, shrinks when those are fitted and
    # removed, and grows again for the mosaic.
    ("montage", "normal"): montage(
        10, 512, "2..8", "128MiB", 2_500_000_000, grows=2, shrinks=1
    ),
    ("blast", "small"): blast(2000, 64, 4, "64MiB", 100_000_000),
    ("blast", "normal"): blast(20_000, 256, 16, "256MiB", 500_000_000),
}
