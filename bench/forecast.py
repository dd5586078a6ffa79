#!/usr/bin/python3
"""What a forecast saves beside thresholds: node-seconds of real Snakemake workflows on mounts whose nodes change.

Five workflows of different shapes (`bench/forecasts`: short, wide, long, with declared sizes five times too large,
with none declared) run with Tidefs's plug-ins under each policy in turn, the order turned from round to round.  Each
line is a run.  Within a round the node-seconds of the forecast are divided by the least of the other policies; the
median over rounds counts for a workflow, and beside it stand the lowest and the highest, and the same of the time
that the workflow took.  The last line is the median of the workflows.

    bench/forecast.py --python target/python/3.11/bin/python --rounds 3
    bench/forecast.py --python target/python/3.11/bin/python --small

With --check it fails when that median is above 0.9, or a workflow's ratio above 1.05.  The interpreter has Snakemake
and Tidefs's plug-ins; `make python` makes one.  Jobs wait in place of computing, but Snakemake, mount and nodes
need processors: figures of a busy machine say so by their load.
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

WORKFLOWS = PROJECT / "bench" / "forecasts"
SHAPES = ("short", "wide", "long", "declared", "untold")
FORECAST = "forecast"
POLICIES = (FORECAST, "nso", "nso+asi")
GOAL_MEDIAN, GOAL_EACH = 0.9, 1.05
RUN_SECONDS_MAX = 600
NODES = ("--nodes", "1..4", "--node-memory", "128MiB")


def run(options: argparse.Namespace, scratch: Path, shape: str, policy: str) -> dict:
    """One run; its report."""
    job = f"{sys.executable} {WORKFLOWS / 'job.py'} --seed {options.seed}"
    snakemake = [
        options.python, "-m", "snakemake", "--snakefile", WORKFLOWS / f"{shape}.smk",
        "--logger", "tidefs", "--scheduler", "tidefs", "--quiet", "rules", "progress", "--cores", options.cores,
        "--config", f"job={job}", "--directory",
    ]  # fmt: skip
    script = 'exec "$@" "$TIDEFS_MOUNT"'
    command = [
        options.tidefs, "run", *NODES, "--policy", policy, "--mount", scratch / "mount", "--report", scratch / "report",
        "--", "sh", "-c", script, "sh", *snakemake,
    ]  # fmt: skip
    command = [str(word) for word in command]
    environment = {**os.environ, "TIDEFS_BINARY": str(options.tidefs)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, cwd=scratch, env=environment
    )
    lost = policy == FORECAST and "the workflow is not followed" in done.stderr
    if done.returncode != 0 or lost:
        raise SystemExit(f"{' '.join(command)} ends with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return json.loads((scratch / "report" / "report.json").read_text())


def facts(report: dict) -> dict:
    names = ("node_seconds", "wall_seconds", "peak_used_bytes", "peak_nodes", "reconfiguring_seconds", "decisions")
    timeline = [{name: row[name] for name in ("t", "used_bytes", "nodes")} for row in report["timeline"]]
    return {name: report[name] for name in names} | {"timeline": timeline}


def measured(options: argparse.Namespace) -> list[dict]:
    rows = []
    for number in range(options.rounds):
        turn = number % len(options.policies)
        for shape in options.workflows:
            for policy in options.policies[turn:] + options.policies[:turn]:
                with tempfile.TemporaryDirectory(prefix="tidefs-forecast-") as scratch:
                    row = facts(run(options, Path(scratch), shape, policy))
                rows.append({"round": number, "workflow": shape, "policy": policy, **row})
                print(
                    f"{shape:<9} {policy:<9} {row['node_seconds']:7.1f} node-seconds  {row['wall_seconds']:6.1f} s  "
                    f"peak {row['peak_used_bytes'] / 1e6:6.1f} MB on {row['peak_nodes']} nodes",
                    flush=True,
                )
    return rows


def ratios(rows: list[dict], shape: str, figure: str) -> list[float]:
    """Of a workflow, in each round: the forecast's figure over that of the policy with the fewest node-seconds."""
    found = []
    for number in sorted({row["round"] for row in rows}):
        held = {row["policy"]: row for row in rows if (row["round"], row["workflow"]) == (number, shape)}
        forecast = held.pop(FORECAST)
        best = min(held.values(), key=lambda row: row["node_seconds"])
        found.append(forecast[figure] / best[figure])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--python", type=Path, required=True, help="with Snakemake and the plug-ins")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workflows", type=lambda text: text.split(","), default=list(SHAPES))
    parser.add_argument("--policies", type=lambda text: text.split(","), default=list(POLICIES))
    parser.add_argument("--small", action="store_true", help="one round, beside nso+asi alone")
    parser.add_argument("--seed", type=int, default=1, help="of sizes and times of jobs")
    parser.add_argument("--cores", type=int, default=4, help="jobs at a time")
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.tidefs, options.python = options.tidefs.resolve(), options.python.absolute()
    if options.small:
        options.rounds, options.policies = 1, [FORECAST, "nso+asi"]
    if FORECAST not in options.policies or len(options.policies) < 2:
        parser.error("--policies wants forecast and at least one other")
    where = about.look(options.tidefs)
    rows = measured(options)
    medians = []
    for shape in options.workflows:
        held, took = (ratios(rows, shape, figure) for figure in ("node_seconds", "wall_seconds"))
        medians.append(statistics.median(held))
        print(
            f"{shape:<9} node-seconds {medians[-1]:.2f} of the best threshold policy's ({min(held):.2f} to "
            f"{max(held):.2f}), time {statistics.median(took):.2f} ({min(took):.2f} to {max(took):.2f})"
        )
    whole = statistics.median(medians)
    print(f"median {whole:.2f} (goal: {GOAL_MEDIAN}), highest {max(medians):.2f} (goal: {GOAL_EACH})")
    settings = {name: getattr(options, name) for name in ("rounds", "policies", "seed", "cores")}
    ratio = dict(zip(options.workflows, medians))
    about.keep(options.results, "forecast", where, {"settings": settings, "ratios": ratio, "runs": rows})
    return int(options.check and (whole > GOAL_MEDIAN or max(medians) > GOAL_EACH))


if __name__ == "__main__":
    sys.exit(main())
