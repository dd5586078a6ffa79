"""The examples of the pages on workflow engines, as a reader of a page would try them from top to bottom.

Blocks with `file=NAME` are files of an empty directory, and blocks marked `run` are run there by a shell that
ends at the first failure. Each page starts from the same inputs, below `data/`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "engines"
BLOCK = re.compile(r"^```(\w+) (run|file=(\S+))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INPUTS = {"a": range(0, 4000, 4), "b": range(1, 4000, 4), "c": range(2, 4000, 4), "d": range(3, 4000, 4)}
# What the examples of a page leave where the reader is.
LEAVES = {
    "snakemake": ["kept/merged.txt", "kept-too/merged.txt"],
    "parsl": ["kept/merged.txt"],
    "dask": ["kept/frame/part.0.parquet"],
    "scripts": ["kept/merged.txt", "kept-too"],
}
NOT_TRIED = ["nextflow"]


def test_each_page_is_tried_or_says_that_it_is_not() -> None:
    assert sorted(page.stem for page in PAGES.glob("*.md")) == sorted([*LEAVES, *NOT_TRIED])
    for name in NOT_TRIED:
        text = (PAGES / f"{name}.md").read_text()
        assert "**Not tried:**" in text and not BLOCK.search(text)


@pytest.mark.parametrize("name", LEAVES)
def test_the_examples_of_a_page(name: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for letter, numbers in INPUTS.items():
        lines = "".join(f"{number}\n" for number in reversed(numbers))
        (tmp_path / "data" / f"{letter}.txt").write_text(lines)
    ran = 0
    for _, kind, file, text in BLOCK.findall((PAGES / f"{name}.md").read_text()):
        if file:
            (tmp_path / file).write_text(text)
            continue
        done = shell(text, tmp_path)
        assert done.returncode == 0, f"{kind} {text}\n{done.stdout}\n{done.stderr}"
        ran += 1
    assert ran
    for left in LEAVES[name]:
        assert (tmp_path / left).is_file()
        if left.endswith("merged.txt"):
            assert (tmp_path / left).read_text().split() == [str(number) for number in range(4000)]


def shell(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    program = Path(os.environ["TIDEFS_BINARY"])
    commands = directory / ".bin"
    commands.mkdir(exist_ok=True)
    if not (commands / "tidefs").exists():
        (commands / "tidefs").symlink_to(program)
    home = directory / ".home"
    home.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TIDEFS_STATE": str(directory / ".state"),
    }
    set_up = "python -m snakemake_logger_plugin_tidefs\n" if "--profile tidefs" in script else ""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", set_up + script],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=120,
    )
