#!/usr/bin/env python3
"""Builds the small examples for Rust and C as people do who have the library and not this workspace, and runs them.

The one for Rust is copied out and depends on the crate by its path; the one for C is compiled with the header and
library where a package puts them. Both must end with the buckets spread over two servers.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXPECTED = "server-2: 12 buckets\nserver-3: 12 buckets\n"
# Compiling takes a minute on a busy machine; a program takes none.
BUILD_SECONDS, RUN_SECONDS = 900, 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True, help="libtidefs_rescale.so, as cargo builds it")
    parser.add_argument("--target", type=Path, default=ROOT / "target" / "outside", help="where Cargo builds")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="outside-") as folder:
        for name, build in {"c": in_c, "rust": in_rust}.items():
            program = build(Path(folder) / name, options)
            ran = subprocess.run([program], capture_output=True, text=True, timeout=RUN_SECONDS)
            good = (ran.returncode, ran.stdout) == (0, EXPECTED)
            print(f"{name}: {'as expected' if good else ran}", flush=True)
            wrong += not good
    return 1 if wrong else 0


def in_c(folder: Path, options: argparse.Namespace) -> Path:
    """As below /usr/local: include has the header, lib the library."""
    (folder / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    shutil.copy(ROOT / "crates/rescale-c/include/tidefs_rescale.h", folder / "include")
    shutil.copy(options.library, folder / "lib")
    source = shutil.copy(HERE / "c/shelves.c", folder)
    build = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", folder / "include", source, "-o", folder / "shelves"]
    build += ["-pthread", "-L", folder / "lib", f"-Wl,-rpath,{folder / 'lib'}", "-ltidefs_rescale"]
    subprocess.run(build, check=True, cwd=folder, timeout=BUILD_SECONDS)
    return folder / "shelves"


def in_rust(folder: Path, options: argparse.Namespace) -> Path:
    shutil.copytree(HERE / "rust", folder)
    manifest = folder / "Cargo.toml"
    inside, crate = "../../crates/rescale", ROOT / "crates/rescale"
    assert inside in manifest.read_text(), manifest
    manifest.write_text(manifest.read_text().replace(inside, str(crate)))
    # The same versions of others' crates, which are on this machine already.
    shutil.copy(ROOT / "Cargo.lock", folder)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(options.target.resolve())}
    subprocess.run(["cargo", "build", "--quiet"], check=True, cwd=folder, env=environment, timeout=BUILD_SECONDS)
    return options.target.resolve() / "debug" / "rescaled-shelves"


if __name__ == "__main__":
    sys.exit(main())
