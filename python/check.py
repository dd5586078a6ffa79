#!/usr/bin/env python3
"""Tests the Python package with every Python from 3.9 on that is installed, each in an environment
of its own below --environments. Says which versions it did not find.

With the newest one, or the only one given, it also tries pandas, pyarrow, dask and zarr (--ecosystem)
and checks the types.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSIONS = ["3.9", "3.10", "3.11", "3.12", "3.13"]
# No test waits for longer than its own deadlines; what hangs is ended.
LIMIT_SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", required=True, type=Path, help="the program to test with")
    parser.add_argument("--python", action="append", help="this interpreter; may be repeated (default: all found)")
    parser.add_argument("--environments", type=Path, default=HERE.parent / "target" / "python")
    parser.add_argument("--ecosystem", action="store_true", help="pandas, pyarrow, dask and zarr, too")
    options = parser.parse_args()

    pythons = options.python or found()
    environment = {**os.environ, "TIDEFS_BINARY": str(options.tidefs.resolve())}
    for variable in ("TIDEFS_STATE", "TIDEFS_MOUNT", "PYTHONPATH"):
        environment.pop(variable, None)
    failed = []
    for python in pythons:
        whole = options.ecosystem and python == pythons[-1]
        if not check(python, options.environments, whole, environment):
            failed.append(python)
    if failed:
        print(f"failed with {', '.join(failed)}", file=sys.stderr)
    return 1 if failed or not pythons else 0


def found() -> list:
    """An interpreter of each version, oldest first; which there are not is said."""
    pythons = []
    for version in VERSIONS:
        name = f"python{version}"
        if shutil.which(name) and subprocess.run([name, "-V"], capture_output=True).returncode == 0:
            pythons.append(name)
        else:
            print(f"Python {version} is not installed: not tested", file=sys.stderr)
    return pythons


def check(python: str, environments: Path, whole: bool, environment: dict) -> bool:
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    print(f"Python {version}{' with pandas, pyarrow, dask and zarr' if whole else ''}", flush=True)
    place = environments / version
    inside = place / "bin" / "python"
    if not inside.exists():
        run([python, "-m", "venv", str(place)], environment)
    extras = "test,ecosystem" if whole else "test"
    tools = ["mypy"] if whole else []
    run([str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", f"{HERE}[{extras}]", *tools], environment)
    if whole:
        run([str(inside), "-m", "mypy"], environment)
    tests = [] if whole else ["--ignore=tests/test_ecosystem.py"]
    command = [str(inside), "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=HERE, env=environment, timeout=LIMIT_SECONDS).returncode == 0


def run(command: list, environment: dict) -> None:
    subprocess.run(command, cwd=HERE, env=environment, check=True, timeout=LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
