#!/usr/bin/python3
"""How much memory a Snakemake workflow takes with and without `--delete-dead`.

Montage runs as a workflow of Snakemake (`workflows/montage/Snakefile`, where no file is marked as temporary) on a
mount, with Tidefs's plug-ins, with the option and without it in turn.  Each line is a run: the peak of the memory
in use, what was deleted, and the time of the run.  The last line is the ratio of the medians of the peaks.  It
fails when two mosaics differ or, with --check, when the peak falls by less than 40 per cent.

    bench/dead_files.py --python target/python/3.11/bin/python --tiles 16

The interpreter has Snakemake, numpy and Tidefs's plug-ins; `make python` makes one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "trust"))

import about  # noqa: E402
from mounted import TIDEFS  # noqa: E402

MONTAGE = PROJECT / "workflows" / "montage"
GOAL = 0.6
RUN_SECONDS_MAX = 1_800
NODES = ("--nodes", "1..8", "--node-memory", "256MiB")


def make_tiles(folder: Path, tiles: int) -> None:
    side = round(tiles**0.5)
    command = [MONTAGE / "tiles.py", folder, "--nx", str(side), "--ny", str(side), "--size", "512"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def run(options: argparse.Namespace, scratch: Path, tiles: Path, name: str, deletes: bool) -> dict:
    """One run; its report."""
    folder = scratch / name
    folder.mkdir()
    snakemake = [
        options.python, "-m", "snakemake", "--snakefile", MONTAGE / "Snakefile",
        "--logger", "tidefs", "--scheduler", "tidefs", "--quiet", "rules", "progress", "--cores", str(options.cores),
        "--config", f"input={tiles}", "--directory",
    ]  # fmt: skip
    script = 'exec "$@" "$TIDEFS_MOUNT"'
    command = [
        options.tidefs, "run", *NODES, "--mount", folder / "mount", "--report", folder / "report",
        "--stage-out", f"mosaic.*:{folder / 'out'}", *(["--delete-dead"] if deletes else []),
        "--", "sh", "-c", script, "sh", *snakemake,
    ]  # fmt: skip
    command = [str(word) for word in command]
    environment = {**os.environ, "TIDEFS_BINARY": str(options.tidefs)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, cwd=scratch, env=environment
    )
    if done.returncode != 0 or deletes and "tidefs: the workflow is not followed" in done.stderr:
        raise SystemExit(f"{' '.join(command)} ends with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return json.loads((folder / "report" / "report.json").read_text())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--python", type=Path, required=True, help="with Snakemake and the plug-ins")
    parser.add_argument("--tiles", type=int, default=16, help="of the sky, a square number")
    parser.add_argument("--repeats", type=int, default=1, help="runs with the option, and without it")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.tidefs, options.python = options.tidefs.resolve(), options.python.absolute()
    where, rows = about.look(options.tidefs), []
    peaks: dict[bool, list[int]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="tidefs-dead-") as made:
        scratch = Path(made)
        tiles = scratch / "tiles"
        make_tiles(tiles, options.tiles)
        mosaics = set()
        for number in range(options.repeats * 2):
            deletes = number % 2 == 0
            report = run(options, scratch, tiles, f"run-{number}", deletes)
            peaks[deletes].append(report["peak_used_bytes"])
            dead = report["dead_files"] or {"deleted": 0, "deleted_bytes": 0}
            print(
                f"{'with' if deletes else 'without':<8} peak {report['peak_used_bytes'] / 1e6:8.1f} MB   "
                f"deleted {dead['deleted']:5} files, {dead['deleted_bytes'] / 1e6:8.1f} MB   "
                f"{report['wall_seconds']:6.1f} s",
                flush=True,
            )
            rows.append({"deletes": deletes, "peak": report["peak_used_bytes"], **dead})
            mosaics.add((scratch / f"run-{number}" / "out" / "mosaic.fits").read_bytes())
    ratio = statistics.median(peaks[True]) / statistics.median(peaks[False])
    about.keep(options.results, "dead_files", where, {"tiles": options.tiles, "runs": rows})
    print(f"the peak with --delete-dead is {ratio:.2f} of the one without (goal: {GOAL})")
    if len(mosaics) != 1:
        print("dead_files: mosaics differ", file=sys.stderr)
        return 1
    return int(options.check and ratio > GOAL)


if __name__ == "__main__":
    sys.exit(main())
