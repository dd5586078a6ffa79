#!/usr/bin/python3
"""Writes bench/RESULTS.md: the figures of the last whole run, with its commit and machine.

Takes what the benches keep in bench/results: the newest whole run of `make bench`, and the newest run
each of those that are apart from it, if there is one.  No figure is typed in by hand.

    make bench && bench/results.py
    bench/results.py --of bench/results/2026-11-21-0123456789.json
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
# Without these a run is not whole; not everybody has the server of `elastic_redis`.
SUBJECTS = {"embedded", "valkey", "sealed", "valkey4", "tmpfs", "null", "raw", "elastic"}
APART = ("growth", "local", "mounts", "moved", "network", "tenants")
VERDICTS = {"goal": "met", "half_goal": "half met", "missed": "MISSED", "not_judged": "not judged"}
GIB = 1 << 30


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def plain(name: str) -> str:
    return name.replace("_", " ")


def is_whole(report: dict) -> bool:
    found = {subject for row in report["figures"] for subject in row["subjects"]}
    return found >= SUBJECTS and report["extent"]["rounds"] >= 5 and bool(report["planning"] and report["planning_quality"])


def newest(folder: Path) -> tuple[Path | None, dict[str, Path]]:
    """Of the whole runs, and of each bench that is apart."""
    whole, apart = None, {}
    for file in sorted(folder.glob("*.json"), key=lambda it: it.stat().st_mtime):
        report = json.loads(file.read_text())
        if "about" not in report:
            whole = file if is_whole(report) else whole
        elif report.get("bench") in APART and has_rows(report):
            apart[report["bench"]] = file
    return whole, apart


def has_rows(report: dict) -> bool:
    try:
        return bool(PARTS[report["bench"]](report))
    except KeyError:
        # Kept by the bench as it was before.
        return False


def main_run(report: dict) -> str:
    machine, subjects = report["machine"], sorted(SUBJECTS | {"elastic_redis"})
    text = (
        f"Commit {report['commit']}, {report['date']}: {machine['cpu']}, {machine['cores']} processors, "
        f"{machine['memory_bytes'] // GIB} GiB, Linux {machine['kernel']}; {report['extent']['rounds']} "
        f"rounds; load {machine['load']:.1f} before and {report['load_after']:.1f} after.\n\n"
    )
    stores = sorted(report["stores"].items())
    text += table(["subject", "store"], [[plain(it), store] for it, store in stores]) + "\n"
    rows = [
        [
            plain(it["figure"]),
            plain(it["subject"]) + (f" / {plain(it['floor'])}" if it["floor"] else ""),
            number(it["judged"]),
            f"{number(it['ratio']['min'])} to {number(it['ratio']['max'])}",
            ("at least " if it["bound"] == "at_least" else "at most ") + number(it["goal"]),
            VERDICTS[it["verdict"]],
        ]
        for it in report["ratios"]
    ]
    text += table(["ratio", "of", "judged", "range", "goal", ""], rows) + "\n"
    rows = [
        [plain(row["figure"]), row["unit"]]
        + [number(row["subjects"].get(it, {}).get("median")) for it in subjects]
        for row in report["figures"]
    ]
    text += table(["median", "unit", *map(plain, subjects)], rows) + "\n"
    rows = [
        [it["case"], number(it["milliseconds"]["median"]), number(it["goal"]), VERDICTS[it["verdict"]]]
        for it in report["planning"]
    ]
    text += table(["plan", "ms", "at most", ""], rows) + "\n"
    rows = [
        [
            it["case"],
            number(it["judged"]),
            ("at least " if it["bound"] == "at_least" else "at most ") + number(it["goal"]),
            VERDICTS[it["verdict"]],
        ]
        for it in report["planning_quality"]
    ]
    return text + table(["plans, quality", "judged", "goal", ""], rows)


def apart_run(report: dict) -> str:
    about = report["about"]
    text = (
        f"Commit {about['commit']}, {about['date']}: {about['processor']}, {about['processors']} "
        f"processors, {about['memory_bytes'] // GIB} GiB, Linux {about['kernel']}, "
        f"{about.get('server', 'no server')}; load {about['load_before']:.1f} before and "
        f"{about['load_after']:.1f} after.\n\n"
    )
    text += "".join(f"{part}\n" for part in PARTS[report["bench"]](report))
    missed = report.get("missed", [])
    return text + ("Missed: " + "; ".join(missed) + ".\n" if missed else "All goals are met.\n")


def by_row(of: str, found: dict) -> str:
    columns = list(next(iter(found.values())))
    rows = [[str(row), *(number(values[it]) for it in columns)] for row, values in found.items()]
    return table([of, *map(plain, columns)], rows)


def growth(report: dict) -> list[str]:
    parts = []
    if report["nodes"]["judged"]:
        parts += [by_row("nodes, part of the round's best", report["nodes"]["judged"])]
        parts += [by_row("nodes, processor", report["nodes"]["processor"])]
    for subject, found in report["directories"].items():
        parts += [
            by_row(f"{subject}: files, {plain(what)}", rows)
            for what, rows in found.items()
            if what.endswith(("_us", "_judged"))
        ]
    return parts


def of_rows(rows: list[dict]) -> list[str]:
    def shown(value: object) -> str:
        return number(value) if isinstance(value, float) else str(value)

    if not rows:
        return []
    return [table([plain(it) for it in rows[0]], [[shown(it) for it in row.values()] for row in rows])]


def network(report: dict) -> list[str]:
    kept = ("cloud", "write_ratio", "read_ratio")
    return of_rows([{it: cloud[it] for it in kept} for cloud in report["clouds"]])


def tenants(report: dict) -> list[str]:
    found = report["typical"]
    rows = [
        {"tenant": name} | {mode: 100 * slower for mode, slower in each.items()}
        for name, each in found.items()
    ]
    modes = list(next(iter(found.values())))
    mean = {mode: statistics.mean(row[mode] for row in rows) for mode in modes}
    return of_rows([*rows, {"tenant": "mean"} | mean])


def mounts(report: dict) -> list[str]:
    rounds = report["rounds"]
    figures = [
        {"subject": who, "operation": operation}
        | {what: statistics.median(it["figures"][who][operation][what] for it in rounds) for what in figure}
        for who, operations in rounds[0]["figures"].items()
        for operation, figure in operations.items()
    ]
    judged = [{it: row[it] for it in ("goal", "min", "max", "met")} for row in report["judged"]]
    return of_rows(figures) + of_rows(judged)


PARTS = {
    "growth": growth,
    "local": lambda report: of_rows(report["rows"]),
    "mounts": mounts,
    "moved": lambda report: of_rows(report["rows"]),
    "network": network,
    "tenants": tenants,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=PROJECT / "bench/results")
    parser.add_argument("--of", type=Path, help="the run to take, whole or not")
    parser.add_argument("--page", type=Path, default=PROJECT / "bench/RESULTS.md")
    options = parser.parse_args()
    whole, apart = newest(options.results)
    whole = options.of or whole
    if whole is None:
        print(f"there is no whole run in {options.results}; make bench makes one", file=sys.stderr)
        return 1
    text = "# Results\n\nWritten by `bench/results.py` from what the benches keep; "
    text += "[README.md](README.md) says what each figure is.\n\n## make bench\n\n"
    text += main_run(json.loads(whole.read_text()))
    for name, file in sorted(apart.items()):
        text += f"\n## {name.capitalize()}\n\n{apart_run(json.loads(file.read_text()))}"
    options.page.write_text(text)
    print(f"written to {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
