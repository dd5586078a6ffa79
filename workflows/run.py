#!/usr/bin/python3
"""Runs a real workflow on Tidefs and on a local disk, and compares what came out.

The input is made up once and cached.  Then the workflow runs under `tidefs run`, with its
work folder in the mount, and again in a folder on disk.  Montage's mosaics must have the
same pixels, bit by bit; BLAST's merged matches must equal the unsplit search on disk.
Prints a table of the stages and where the results are.  Exit status 0 only when all agree,
1 when something failed or differs, 2 for wrong usage.
"""

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scenario import SCENARIOS, Scenario
from stages import Failure, finish, format_bytes, positive

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
# The programs of the workflows use Debian's numpy, which another Python may not have.
PYTHON = "/usr/bin/python3"
# For a workflow of half a minute: it is not quiet for the usual three quarters of one, nodes come
# before writers meet full ones, and leave when a third of the memory is free.
ELASTIC = ["--policy", "nso+asi", "--scale-out-at", "90", "--scale-in-at", "65", "--quiet-period", "1"]
# How long `tidefs run` may take to end its command, its nodes and its mount.
STOP_SECONDS_MAX = 60


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidefs"


def input_name(scenario: Scenario) -> str:
    """A changed generator gets another name, so an old input is never taken for its work."""
    generator, *arguments = scenario.generator
    digest = hashlib.sha256((HERE / generator).read_bytes() + repr(arguments).encode())
    return f"{Path(generator).parent}-{digest.hexdigest()[:12]}"


def make_input(scenario: Scenario) -> Path:
    """The folder of the scenario's input, made now if it is not in the cache."""
    folder = cache_folder() / "input" / input_name(scenario)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"making the input {folder}", flush=True)
    # The final name appears only when all is there.
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        call([PYTHON, str(HERE / scenario.generator[0]), str(new), *scenario.generator[1:]])
        try:
            new.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder


def call(command: list[str]) -> None:
    """Runs a program to its end; it gets the time to clean up when we are told to stop."""
    child = subprocess.Popen(command)
    try:
        status = child.wait()
    except KeyboardInterrupt:
        child.terminate()
        child.wait(STOP_SECONDS_MAX)
        raise
    if status != 0:
        raise Failure(f"exit status {status} of: {shlex.join(command)}")


def tidefs_command(options, scenario: Scenario, mount: Path, report: Path) -> list[str]:
    command = [str(options.tidefs), "run", "--mount", str(mount)]
    if options.store == "valkey":
        nodes = options.nodes or scenario.nodes
        memory = options.node_memory or scenario.node_memory
        command += ["--nodes", nodes, "--node-memory", memory]
        if ".." in nodes:
            command += ELASTIC
    return [*command, "--report", str(report), "--"]


def workflow_command(options, scenario: Scenario, source: Path, output: Path) -> list[str]:
    return [
        PYTHON,
        str(HERE / scenario.program[0]),
        *scenario.program[1:],
        *("--input", str(source), "--output", str(output), "--jobs", str(options.jobs)),
    ]


def new_folder(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def run_both(options, scenario: Scenario, scratch: Path, output: Path) -> None:
    source = make_input(scenario)
    on_tidefs, on_disk = new_folder(output / "tidefs"), new_folder(output / "disk")

    inner = workflow_command(options, scenario, source, on_tidefs)
    outer = tidefs_command(options, scenario, scratch / "tide", output / "report")
    print(f"\nOn Tidefs ({options.store} store):", flush=True)
    print(f"$ {shlex.join([*outer, *inner])}", flush=True)
    call([*outer, *inner])

    print("\nOn the local disk:", flush=True)
    inner = workflow_command(options, scenario, source, on_disk)
    work = scratch / "work"
    call([*inner, "--work", str(work)])
    # Room for what the comparison itself may need.
    shutil.rmtree(work)

    print_table(read_stages(on_tidefs), read_stages(on_disk))
    if options.store == "valkey" and ".." in (options.nodes or scenario.nodes):
        print(f"\n{changes_of_nodes(options, scenario, output / 'report')}")
    reference = scenario.reference
    if reference:
        on_disk = new_folder(output / "reference")
        print("\nThe reference, on the local disk:", flush=True)
        inner = workflow_command(options, scenario, source, on_disk)
        call([*inner, *reference, "--work", str(scratch / "reference")])
    print(f"\n{scenario.compare(on_tidefs, on_disk)}")


def changes_of_nodes(options, scenario: Scenario, report: Path) -> str:
    """What became of the number of nodes; a Failure where it changed less than it should have."""
    done = json.loads((report / "report.json").read_text())["reconfigurations"]
    lines, counts = [], {"commission": 0, "decommission": 0}
    for each in done:
        before, after = each["nodes_before"], each["nodes_after"]
        verb = "grew" if after > before else "shrank" if after < before else "spread anew"
        lines.append(
            f"{verb} from {before} to {after} nodes after {each['started_at']:.1f} s, in "
            f"{each['seconds']:.1f} s: {format_bytes(each['bytes_moved'])} moved, of at least "
            f"{format_bytes(each['bytes_minimum'])} ({each['reason']})"
        )
        if each["outcome"] == "completed" and each["kind"] in counts:
            counts[each["kind"]] += 1
    said = "\n".join(lines) or "The number of nodes did not change."
    as_planned = options.nodes is None and options.node_memory is None
    enough = counts["commission"] >= scenario.grows and counts["decommission"] >= scenario.shrinks
    if as_planned and not enough:
        raise Failure(
            f"the file system grew {counts['commission']} times and shrank "
            f"{counts['decommission']} times; at least {scenario.grows} and {scenario.shrinks} "
            f"were expected\n{said}"
        )
    return said


def read_stages(folder: Path) -> list[dict]:
    return json.loads((folder / "stages.json").read_text())


def print_table(on_tidefs: list[dict], on_disk: list[dict]) -> None:
    counts = ("tasks", "files", "bytes")
    line = "{:<18}{:>7}{:>7}{:>12}{:>12}{:>10}"
    print("\n" + line.format("stage", "tasks", "files", "bytes", "Tidefs s", "disk s"))
    for ours, theirs in zip(on_tidefs, on_disk, strict=True):
        for key in ("name", "tasks", "files"):
            if ours[key] != theirs[key]:
                raise Failure(
                    f"stage {ours['name']}: {key} {ours[key]} on Tidefs, {theirs[key]} on disk"
                )
        print(row(line, ours["name"], *(ours[c] for c in counts), ours, theirs))
    totals = [sum(stage[count] for stage in on_tidefs) for count in counts]
    seconds = [{"seconds": sum(s["seconds"] for s in run)} for run in (on_tidefs, on_disk)]
    print(row(line, "total", *totals, *seconds))


def row(line, name, tasks, files, size, ours, theirs) -> str:
    return line.format(
        name,
        tasks,
        files,
        format_bytes(size),
        f"{ours['seconds']:.2f}",
        f"{theirs['seconds']:.2f}",
    )


def check_options(parser, options) -> None:
    if not (options.tidefs.is_file() and os.access(options.tidefs, os.X_OK)):
        parser.error(
            f"there is no program {options.tidefs}; build it (cargo build --release) "
            "or name another with --tidefs"
        )
    if not options.disk.is_dir():
        parser.error(f"--disk {options.disk} is not a folder")


def check_room(scenario: Scenario, disk: Path) -> None:
    free = shutil.disk_usage(disk).free
    if free < scenario.disk_bytes:
        raise Failure(
            f"{disk} has {format_bytes(free)} free but the run on disk needs "
            f"{format_bytes(scenario.disk_bytes)}; name another folder with --disk, "
            "or use --size small"
        )


def parse() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    workflows = sorted({name for name, _ in SCENARIOS})
    parser.add_argument("--workflow", choices=workflows, default="montage")
    parser.add_argument("--store", choices=("valkey", "embedded"), default="valkey")
    parser.add_argument("--size", choices=("small", "normal"), default="normal")
    parser.add_argument(
        "--nodes",
        metavar="N | MIN..MAX",
        help="nodes of the Valkey store; default: what suits the size",
    )
    parser.add_argument("--node-memory", metavar="SIZE", help="default: what the size needs")
    parser.add_argument("--tidefs", type=Path, default=PROJECT / "target/release/tidefs")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count(), help="tasks at a time")
    parser.add_argument("--output", type=Path, default=Path("out"), help="folder of the results")
    parser.add_argument(
        "--disk",
        type=Path,
        # Not /tmp, which lies in memory on many machines.
        default=Path("/var/tmp"),
        help="folder for the run on disk",
    )
    return parser, parser.parse_args()


def main() -> None:
    parser, options = parse()
    check_options(parser, options)
    options.tidefs = options.tidefs.resolve()
    scenario = SCENARIOS[options.workflow, options.size]
    output = options.output.resolve() / f"{options.workflow}-{options.store}"

    def run() -> None:
        check_room(scenario, options.disk)
        with tempfile.TemporaryDirectory(prefix="tidefs-run-", dir=options.disk) as scratch:
            run_both(options, scenario, Path(scratch), output)

    finish(f"workflow {options.workflow}", run)
    print(f"Results: {output}")
    print(f"Report: {output / 'report' / 'report.html'}")


if __name__ == "__main__":
    main()
