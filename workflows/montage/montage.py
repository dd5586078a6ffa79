#!/usr/bin/python3
"""Runs the Montage mosaic workflow, task by task as a workflow engine would.

Tiles are projected onto one plane, the differences of every two that overlap are made and
then fitted, a background model follows from the fits, every tile is corrected by it, and the corrected
tiles are added up to a mosaic and a picture.

The work folder is the one given, or `montage` inside the mount of `tidefs run`:

    tidefs run --nodes 4 --node-memory 256MiB -- \\
        workflows/montage/montage.py --input TILES --output RESULTS
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from fits import read_header
from stages import Stages, Task, copy_tasks, finish, positive, work_folder

PICTURE_SIDE_MAX = 1200  # pixels

# Everything lies in the work folder and every program runs there: Montage writes the
# names it is given into its tables, and those must not depend on where the folder lies.
RAW, PROJECTED, DIFFERENCE, FIT, CORRECTED = map(
    Path, ("raw", "projected", "difference", "fit", "corrected")
)
REGION = Path("region.hdr")
TILE_LIST, FIT_LIST = Path("tile_list.tbl"), Path("fit_list.tbl")
MOSAIC, SMALL, PICTURE = map(Path, ("mosaic.fits", "mosaic_small.fits", "mosaic.png"))


def complains(output: str) -> bool:
    """Montage's programs may print an error and exit with 0."""
    return 'stat="ERROR"' in output or 'stat="ABORT"' in output


def area_of(image: Path) -> Path:
    """The file of pixel areas that Montage keeps beside every projected image."""
    return image.with_name(f"{image.stem}_area.fits")


def with_area(image: Path) -> list[Path]:
    return [image, area_of(image)]


def table(name: str) -> Path:
    return Path(f"{name}.tbl")


def table_rows(path: Path) -> list[list[str]]:
    """The rows of a table of Montage's, its header lines left out."""
    return [
        line.split() for line in path.read_text().splitlines() if line and line[0] not in "|\\"
    ]


def write_table(path: Path, columns: dict[str, str], rows: list[list[str]]) -> None:
    """Writes a table as Montage reads it: `columns` are names and types, all cells padded."""
    widths = [
        max(len(column), len(kind), *(len(row[i]) for row in rows)) + 2
        for i, (column, kind) in enumerate(columns.items())
    ]
    lines = [
        "|" + "|".join(f"{word:^{width}}" for word, width in zip(words, widths)) + "|"
        for words in (columns.keys(), columns.values())
    ]
    lines += [" " + " ".join(f"{cell:>{w}}" for cell, w in zip(row, widths)) for row in rows]
    path.write_text("\n".join(lines) + "\n")


def list_tiles(work: Path, names: list[str]) -> None:
    """Fixes the order of the tiles.

    Left alone, mImgtbl numbers them in the order in which the folder lists them, and the
    background model's last digits depend on those numbers.
    """
    write_table(work / TILE_LIST, {"fname": "char"}, [[name] for name in names])


def describe(folder: Path, result: Path) -> Task:
    return Task(["mImgtbl", "-t", TILE_LIST, folder, result], [result])


def describe_region() -> list[Task]:
    return [
        describe(RAW, table("raw")),
        Task(["mMakeHdr", table("raw"), REGION], [REGION]),
    ]


def project(program: str, names: list[str]) -> list[Task]:
    return [
        Task(
            [program, RAW / name, PROJECTED / name, REGION],
            with_area(PROJECTED / name),
            dead=[RAW / name],
        )
        for name in names
    ]


def find_overlaps() -> list[Task]:
    return [
        describe(PROJECTED, table("projected")),
        Task(["mOverlaps", table("projected"), table("overlaps")], [table("overlaps")]),
    ]


def make_differences(work: Path) -> list[Task]:
    """One task per overlap."""
    tasks = []
    for _, _, plus, minus, difference in table_rows(work / table("overlaps")):
        image = DIFFERENCE / difference
        pair = [PROJECTED / plus, PROJECTED / minus]
        tasks.append(Task(["mDiff", *pair, image, REGION], with_area(image)))
    return tasks


def fit_differences(work: Path) -> list[Task]:
    """One task per difference.  Also writes the list of fits, which the model reads."""
    tasks = []
    fits = []
    for first, second, _, _, difference in table_rows(work / table("overlaps")):
        fit = f"fit.{int(first):06d}.{int(second):06d}.txt"
        fits.append([first, second, fit])
        image = DIFFERENCE / difference
        tasks.append(
            Task(["mFitplane", "-s", FIT / fit, image], [FIT / fit], dead=with_area(image))
        )
    write_table(work / FIT_LIST, {"cntr1": "int", "cntr2": "int", "stat": "char"}, fits)
    return tasks


def model_background() -> list[Task]:
    fits, corrections = table("fits"), table("corrections")
    return [
        Task(["mConcatFit", FIT_LIST, fits, FIT], [fits]),
        Task(["mBgModel", table("projected"), fits, corrections], [corrections]),
    ]


def correct(names: list[str]) -> list[Task]:
    """mBackground finds a tile in the tables only by its bare name, in the tile's folder."""
    tables = [Path("..", table(name)) for name in ("projected", "corrections")]
    return [
        Task(
            ["mBackground", "-t", name, Path("..", CORRECTED, name), *tables],
            with_area(CORRECTED / name),
            cwd=PROJECTED,
            dead=with_area(PROJECTED / name),
        )
        for name in names
    ]


def add_up(names: list[str]) -> list[Task]:
    corrected = table("corrected")
    return [
        describe(CORRECTED, corrected),
        Task(
            ["mAdd", "-p", CORRECTED, corrected, REGION, MOSAIC],
            with_area(MOSAIC),
            dead=[area_of(MOSAIC), *(path for name in names for path in with_area(CORRECTED / name))],
        ),
    ]


def draw(work: Path) -> list[Task]:
    keywords, _ = read_header(work / MOSAIC)
    side = max(int(keywords["NAXIS1"]), int(keywords["NAXIS2"]))
    factor = -(-side // PICTURE_SIDE_MAX)
    stretch = ["-ct", "0", "-gray", SMALL, "-2s", "max", "gaussian-log"]
    return [
        Task(["mShrink", MOSAIC, SMALL, str(factor)], [SMALL]),
        Task(["mViewer", *stretch, "-out", PICTURE], [PICTURE]),
    ]


def run(stages: Stages, tiles: list[Path], output: Path, program: str) -> None:
    work = stages.folder
    names = [tile.name for tile in tiles]
    for folder in (RAW, PROJECTED, DIFFERENCE, FIT, CORRECTED):
        (work / folder).mkdir()
    list_tiles(work, names)
    stages.run("stage in", copy_tasks(tiles, work / RAW))
    stages.run("region", describe_region(), in_order=True)
    stages.run("projection", project(program, names))
    stages.run("overlaps", find_overlaps(), in_order=True)
    stages.run("differences", make_differences(work))
    stages.run("fits", fit_differences(work))
    stages.run("background model", model_background(), in_order=True)
    stages.run("correction", correct(names))
    stages.run("co-addition", add_up(names), in_order=True)
    stages.run("picture", draw(work), in_order=True)
    stages.run("stage out", copy_tasks([work / MOSAIC, work / PICTURE], output))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n\n")[0],
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--input", type=Path, required=True, help="folder of FITS tiles")
    parser.add_argument("--output", type=Path, required=True, help="where mosaic and picture go")
    parser.add_argument("--work", type=Path, help="empty folder to work in")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count(), help="tasks at a time")
    parser.add_argument("--exact", action="store_true", help="project exactly: 36 times the work")
    parser.add_argument("--delete-dead", action="store_true", help="remove what is not read again")
    options = parser.parse_args()

    tiles = sorted(options.input.glob("*.fits"))
    if len(tiles) < 2:
        sys.exit(f"{options.input} holds no tiles; workflows/montage/tiles.py makes some")
    options.output.mkdir(parents=True, exist_ok=True)
    work = work_folder(options.work, "montage")
    stages = Stages(work, options.jobs, options.delete_dead, complains)
    program = "mProject" if options.exact else "mProjectPP"
    finish("montage", lambda: run(stages, tiles, options.output, program))
    stages.save(options.output / "stages.json")


if __name__ == "__main__":
    main()
