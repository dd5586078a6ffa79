#!/usr/bin/env python3
"""Tests the Python packages with every Python from 3.9 on that is installed, each in an environment
of its own below --environments. Says which versions it did not find.

With the newest one, or the only one given, it also tries pandas, pyarrow, dask, zarr and Parsl, the
plug-ins for Snakemake and the examples of docs/engines (--ecosystem), and checks the types.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESCALE = HERE / "tidefs-rescale"
PLUGINS = [HERE / "snakemake-storage-plugin-tidefs", HERE / "snakemake-logger-plugin-tidefs"]
# Tests that want more than fsspec.
ECOSYSTEM = ["test_ecosystem.py", "test_hdf5.py", "test_pages.py", "test_parsl.py"]
VERSIONS = ["3.9", "3.10", "3.11", "3.12", "3.13"]
# No test waits for longer than its own deadlines; what hangs is ended.
LIMIT_SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", required=True, type=Path, help="the program to test with; libtidefs_rescale.so beside it")
    parser.add_argument("--python", action="append", help="this interpreter; may be repeated (default: all found)")
    parser.add_argument("--environments", type=Path, default=HERE.parent / "target" / "python")
    parser.add_argument("--ecosystem", action="store_true", help="pandas, pyarrow, dask, zarr, Parsl and Snakemake, too")
    options = parser.parse_args()

    pythons = options.python or found()
    library = options.tidefs.resolve().with_name("libtidefs_rescale.so")
    named = {"TIDEFS_BINARY": str(options.tidefs.resolve()), "TIDEFS_RESCALE_LIBRARY": str(library)}
    environment = {**os.environ, **named}
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
    print(f"Python {version}{' with its ecosystem' if whole else ''}", flush=True)
    place = environments / version
    inside = place / "bin" / "python"
    if not inside.exists():
        run([python, "-m", "venv", str(place)], environment)
    packages = [f"{HERE}[test,ecosystem]" if whole else f"{HERE}[test]", f"{RESCALE}[test]"]
    packages += [f"{plugin}[test]" for plugin in PLUGINS] if whole else []
    tools = ["mypy"] if whole else []
    editable = [word for package in packages for word in ("--editable", package)]
    quiet = ["--quiet", "--disable-pip-version-check"]
    run([str(inside), "-m", "pip", "install", *quiet, *editable, *tools], environment)
    tested = [(HERE, [] if whole else [f"--ignore=tests/{name}" for name in ECOSYSTEM]), (RESCALE, [])]
    tested += [(plugin, []) for plugin in PLUGINS] if whole else []
    good = True
    for folder, left_out in tested:
        if whole:
            run([str(inside), "-m", "mypy"], environment, folder)
        command = [str(inside), "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *left_out]
        ran = subprocess.run(command, cwd=folder, env=environment, timeout=LIMIT_SECONDS)
        good = good and ran.returncode == 0
    return good


def run(command: list, environment: dict, folder: Path = HERE) -> None:
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
