"""What a play that does not end was doing: its steps, and where the kernel has each of its processes.

Asked from outside: what waits in the kernel for ever tells nothing of itself.
"""

import contextlib
from pathlib import Path

from play import BASE, STEPS_FILE


def tell(folder: Path, first: int) -> None:
    """Of the play in this folder, in the name spaces of this process's descendants."""
    for steps in folder.glob(f"*/{STEPS_FILE}"):
        print(f"DOES NOT END: {steps}\n{steps.read_text()}")
    inside = descendants(first)
    for pid in inside:
        for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
            # Whoever ends meanwhile is not what hangs.
            with contextlib.suppress(OSError):
                print(waits(task))
    for pid in inside[-1:]:
        place = Path(f"/proc/{pid}/root{BASE}")
        for log in [*place.glob("*/log"), *place.glob("logs-of-the-dead/*")]:
            print(f"{log}:\n{log.read_text(errors='replace')[-4_000:]}", flush=True)


def descendants(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += descendants(int(child))
    return found


def waits(task: Path) -> str:
    """One thread's process, name, state and the functions of the kernel that it is in."""
    state = (task / "stat").read_text().rpartition(")")[2].split()[0]
    calls = [it.split()[-1].partition("+")[0] for it in (task / "stack").read_text().splitlines()]
    name = (task / "comm").read_text().strip()
    return f"{task.parts[2]}/{task.name} {name} {state}: {' '.join(calls[:6])}"
