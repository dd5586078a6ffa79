"""Where and of what figures are, how much processor time serving took, and where figures are kept."""

import datetime
import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
COMMAND_SECONDS_MAX = 60
GIB = 1 << 30


def answer(*words: object) -> str | None:
    """What a command says; nothing is an answer too. `None` where it is not there or fails."""
    line = [str(word) for word in words]
    options = {"capture_output": True, "text": True, "timeout": COMMAND_SECONDS_MAX, "cwd": PROJECT}
    try:
        done = subprocess.run(line, check=False, **options)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def must(*words: object) -> None:
    """Runs a command; where it fails, the bench ends with what it says."""
    line = [str(word) for word in words]
    options = {"capture_output": True, "text": True, "timeout": 2 * COMMAND_SECONDS_MAX}
    done = subprocess.run(line, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}: {done.stdout}{done.stderr}")


def said(*words: object) -> str:
    return answer(*words) or "unknown"


def commit() -> str:
    """That the project is at; `-changed` unless it is known to be the same."""
    found = answer("git", "rev-parse", "--short=10", "HEAD")
    if not found:
        return "unknown"
    differs = answer("git", "status", "--porcelain", "--untracked-files=no")
    return found if differs == "" else f"{found}-changed"


def machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((it.partition(": ")[2] for it in lines if it.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0))
    return {"processor": model, "processors": cores, "memory_bytes": memory}


def look(tidefs: Path | None = None) -> dict[str, object]:
    """To be called before anything is measured; starts a small file system to learn its server."""
    about = machine() | {"kernel": platform.release(), "commit": commit()}
    if tidefs is not None:
        about |= {"tidefs": said(tidefs, "--version"), "server": server(tidefs)}
    now = datetime.datetime.now(datetime.timezone.utc)
    return about | {"date": f"{now:%Y-%m-%d}", "load_before": os.getloadavg()[0]}


def server(tidefs: Path) -> str:
    """What nodes run where nothing else is asked for, with its version."""
    with tempfile.TemporaryDirectory(prefix="ta", dir="/tmp") as folder:
        tide = (tidefs, "--state", f"{folder}/s")
        said(*tide, "up", "--nodes", "1", "--node-memory", "64MiB", "--mount", f"{folder}/m")
        try:
            status = said(*tide, "status", "--json")
        finally:
            said(*tide, "down")
    return "unknown" if status == "unknown" else json.loads(status)["store"]


def keep(folder: Path, name: str, about: dict, report: dict) -> Path:
    """Writes a report where the others are; answers where."""
    about = about | {"load_after": os.getloadavg()[0]}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    report = {"bench": name, "about": about, **report}
    file.write_text(json.dumps(report, indent=1, default=str) + "\n")
    print(f"load {about['load_before']:.1f} before and {about['load_after']:.1f} after")
    print(f"figures in {file}")
    return file


def used(state: Path) -> dict[str, list[float]]:
    """Seconds of processor time until now, of each process that serves a mount, and of each node's
    server, of a file system that `tidefs up` keeps below `state`."""
    each = {"mount": mounts(state), "nodes": nodes(state)}
    return {who: [seconds(it) for it in processes] for who, processes in each.items()}


def mounts(state: Path) -> list[int]:
    return sorted({json.loads(it.read_text())["owner"]["pid"] for it in state.rglob("mounts/*.json")})


def nodes(state: Path) -> list[int]:
    files = [json.loads(it.read_text()) for it in state.rglob("cluster.json")]
    return [node["process"]["pid"] for file in files for node in file["nodes"]]


def seconds(process: int) -> float:
    """In user and in system mode, of all threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def costs(before: dict, after: dict, amount: int, took: float) -> dict[str, float]:
    """Of moving `amount` bytes in `took` seconds: processor seconds a GiB of the mounts and of the
    nodes, and the part of the time in which the least busy node and the busiest one had a processor."""
    spent = {
        who: [late - early for early, late in zip(before[who], after[who])] for who in before
    }
    told = {who: sum(each) / (amount / GIB) for who, each in spent.items()}
    busy = [each / took for each in spent["nodes"]] or [0.0]
    return told | {"least_busy": min(busy), "busiest": max(busy)}
