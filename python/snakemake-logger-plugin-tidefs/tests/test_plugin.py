"""The interface's own tests, and real workflows on a real mount whose file system is told of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase
from snakemake_interface_logger_plugins.tests import TestLogHandlerBase

import tidefs
from snakemake_logger_plugin_tidefs import LogHandler
from snakemake_logger_plugin_tidefs.feed import Feed, Job
from snakemake_scheduler_plugin_tidefs import Scheduler
from tidefs import _program

PART_BYTES = 3_000_000
PLUGINS = ["--logger", "tidefs", "--scheduler", "tidefs"]


class TestLogger(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self) -> type[LogHandler]:
        return LogHandler

    def get_log_handler_settings(self) -> LogHandlerSettingsBase:
        return LogHandlerSettingsBase()


@pytest.fixture(scope="module")
def running() -> Iterator[tidefs.FileSystem]:
    with tidefs.run(nodes="1..3", node_memory="128MiB", policy="forecast") as fs:
        yield fs


def snakemake(fs: tidefs.FileSystem, place: Path, *words: str, **environment: str) -> Any:
    variables = {**os.environ, "TIDEFS_STATE": str(fs.state), "TIDEFS_MOUNT": str(fs.mount), **environment}
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *words]
    return subprocess.run(command, cwd=place, env=variables, capture_output=True, text=True, timeout=240)


def told(fs: tidefs.FileSystem) -> Any:
    return _program.call_json(["workflow", f"--state={fs.state}"], 30)


def place(fs: tidefs.FileSystem, name: str, snakefile: str) -> Path:
    folder = fs.mount / name
    folder.mkdir()
    (folder / "Snakefile").write_text(textwrap.dedent(snakefile))
    return folder


PARTS = f"""
    rule all:
        input: "sum"
    rule part:
        input: "in"
        output: temp("part-{{n}}")
        resources: disk_mb=100, runtime=10
        shell: "head -c {PART_BYTES} /dev/zero > {{output}}"
    rule sum:
        input: expand("part-{{n}}", n=range(6))
        output: "sum"
        shell: "cat {{input}} > {{output}}"
"""


def test_what_a_workflow_does_is_told(running: tidefs.FileSystem) -> None:
    folder = place(running, "told", PARTS)
    (folder / "in").write_text("x")
    ran = snakemake(running, folder, *PLUGINS, "--quiet", "all")
    assert ran.returncode == 0, ran.stderr
    assert "tidefs:" not in ran.stderr, ran.stderr
    seen = told(running)
    assert (seen["tasks"], seen["tasks_finished"], seen["tasks_running"]) == (8, 8, 0)
    assert seen["files"] == 8
    assert seen["written_bytes"] == 12 * PART_BYTES
    assert seen["removed_bytes"] == 6 * PART_BYTES


@pytest.mark.parametrize("quiet", ["progress", "rules"])
def test_a_quiet_workflow_is_told_of_to_its_end(running: tidefs.FileSystem, quiet: str) -> None:
    folder = place(running, f"quiet-{quiet}", PARTS)
    (folder / "in").write_text("x")
    ran = snakemake(running, folder, *PLUGINS, "--quiet", quiet)
    assert ran.returncode == 0, ran.stderr
    seen = told(running)
    assert (seen["tasks"], seen["tasks_finished"]) == (8, 8)
    assert seen["written_bytes"] == 12 * PART_BYTES


def test_a_profile_is_all_that_is_said(running: tidefs.FileSystem, tmp_path: Path) -> None:
    folder = place(running, "profile", PARTS)
    (folder / "in").write_text("x")
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    write = [sys.executable, "-m", "snakemake_logger_plugin_tidefs"]
    for _ in range(2):
        subprocess.run(write, env=environment, check=True, timeout=60)
    ran = snakemake(running, folder, "--profile", "tidefs", XDG_CONFIG_HOME=str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert told(running)["tasks_finished"] == 8
    profile = tmp_path / "snakemake" / "tidefs" / "profile.yaml"
    profile.write_text("cores: 1\n")
    assert subprocess.run(write, env=environment, timeout=60, capture_output=True).returncode == 1
    assert profile.read_text() == "cores: 1\n"


def test_jobs_of_a_checkpoint_are_told_of_when_there_are_any(running: tidefs.FileSystem) -> None:
    folder = place(
        running,
        "checkpoint",
        """
        def made(wildcards):
            folder = checkpoints.split.get().output[0]
            return [f"done-{name}" for name in sorted(os.listdir(folder)) if name[0] != "."]
        rule all:
            input: made
        checkpoint split:
            output: directory("pieces")
            shell: "mkdir {output} && for n in 1 2 3; do echo $n > {output}/$n; done"
        rule done:
            input: "pieces/{n}"
            output: "done-{n}"
            shell: "cp {input} {output}"
        """,
    )
    ran = snakemake(running, folder, *PLUGINS)
    assert ran.returncode == 0, ran.stderr
    assert "tidefs:" not in ran.stderr, ran.stderr
    seen = told(running)
    assert seen["tasks_finished"] == seen["tasks"] == 5
    assert seen["written_bytes"] == 12


@pytest.fixture(scope="module")
def deleting() -> Iterator[tidefs.FileSystem]:
    with tidefs.run(delete_dead=True) as fs:
        yield fs


def are_gone(*files: Path) -> bool:
    for _ in range(100):
        if not any(file.exists() for file in files):
            return True
        time.sleep(0.1)
    return False


def test_what_no_job_reads_again_is_deleted_where_that_is_asked_for(deleting: tidefs.FileSystem) -> None:
    folder = place(deleting, "dead", PARTS.replace('temp("part-{n}")', '"part-{n}"'))
    (folder / "in").write_text("x")
    ran = snakemake(deleting, folder, *PLUGINS)
    assert ran.returncode == 0, ran.stderr
    assert are_gone(*(folder / f"part-{n}" for n in range(6)))
    assert told(deleting)["removed_bytes"] == 6 * PART_BYTES
    # What was asked for, and what no job wrote.
    assert (folder / "sum").stat().st_size == 6 * PART_BYTES and (folder / "in").exists()


def test_what_its_author_has_protected_stays(deleting: tidefs.FileSystem) -> None:
    folder = place(
        deleting,
        "protected",
        """
        rule all:
            input: "last"
        rule make:
            output: protected("kept"), "plain"
            shell: "echo 1 > kept; echo 2 > plain"
        rule use:
            input: "kept", "plain"
            output: "last"
            shell: "cat {input} > {output}"
        """,
    )
    ran = snakemake(deleting, folder, *PLUGINS)
    assert ran.returncode == 0, ran.stderr
    assert are_gone(folder / "plain")
    assert (folder / "kept").read_text() == "1\n"


def test_while_a_checkpoint_has_not_run_all_is_kept_for_what_it_may_show(deleting: tidefs.FileSystem) -> None:
    folder = place(
        deleting,
        "later",
        """
        def made(wildcards):
            folder = checkpoints.split.get().output[0]
            return [f"done-{name}" for name in sorted(os.listdir(folder)) if name[0] != "."]
        rule all:
            input: made
        rule base:
            output: "base"
            shell: "echo base > {output}"
        rule first:
            input: "base"
            output: "first"
            shell: "cp {input} {output}"
        checkpoint split:
            input: "first"
            output: directory("pieces")
            shell: "sleep 1; mkdir {output} && for n in 1 2 3; do echo $n > {output}/$n; done"
        rule done:
            input: "pieces/{n}", "base"
            output: "done-{n}"
            shell: "cat {input} > {output}"
        """,
    )
    ran = snakemake(deleting, folder, *PLUGINS)
    assert ran.returncode == 0, ran.stderr
    assert "tidefs:" not in ran.stderr, ran.stderr
    assert all((folder / f"done-{n}").read_text() == f"{n}\nbase\n" for n in (1, 2, 3))
    assert are_gone(folder / "base")


def test_jobs_that_snakemake_runs_in_another_snakemake_are_told_of_by_the_first(running: tidefs.FileSystem) -> None:
    folder = place(
        running,
        "directives",
        """
        rule all:
            input: "b"
        rule a:
            output: "a"
            run: open(output[0], "w").write("12")
        rule b:
            input: "a"
            output: "b"
            run: open(output[0], "w").write("345")
        """,
    )
    ran = snakemake(running, folder, *PLUGINS)
    assert ran.returncode == 0, ran.stderr
    assert "tidefs:" not in ran.stderr, ran.stderr
    seen = told(running)
    assert (seen["tasks"], seen["tasks_finished"], seen["written_bytes"]) == (3, 3, 5)


def test_a_job_that_fails_and_is_tried_again_is_told_of(running: tidefs.FileSystem) -> None:
    folder = place(
        running,
        "retries",
        """
        rule all:
            input: "made"
        rule make:
            output: "made"
            retries: 2
            shell: "echo x >> ../tried; test $(wc -l < ../tried) = 2 && echo made > {output}"
        """,
    )
    ran = snakemake(running, folder, *PLUGINS)
    assert ran.returncode == 0, ran.stderr
    assert "tidefs:" not in ran.stderr, ran.stderr
    seen = told(running)
    assert (seen["tasks"], seen["tasks_finished"], seen["written_bytes"]) == (2, 2, 5)


def test_where_nothing_follows_the_workflow_runs_all_the_same() -> None:
    with tidefs.run() as fs:
        folder = place(fs, "alone", PARTS)
        (folder / "in").write_text("x")
        ran = snakemake(fs, folder, *PLUGINS)
        assert ran.returncode == 0, ran.stderr
        said = [line for line in ran.stderr.splitlines() if "tidefs: the workflow is not followed" in line]
        assert len(said) == 1 and "nothing follows a workflow here" in said[0], ran.stderr


def test_what_goes_wrong_here_stops_no_workflow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def needrun_jobs(self) -> Any:
            raise KeyError("no such thing")

    scheduler = Scheduler.__new__(Scheduler)
    scheduler.feed, scheduler.dag = Feed(tmp_path), Broken()
    scheduler.__post_init__()
    for _ in range(2):
        assert scheduler.select_jobs([], [], {}, {}) is None
    assert capsys.readouterr().err.count("the workflow is not followed") == 1


def test_what_lies_elsewhere_has_no_name(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    feed = Feed(mount=tmp_path / "mount")
    (tmp_path / "mount" / "real").write_text("x")
    (tmp_path / "link").symlink_to("mount/real")
    assert feed.name(str(tmp_path / "mount" / "a" / "b")) == "a/b"
    assert feed.name(str(tmp_path / "link")) == "real"
    assert feed.name(str(tmp_path / "other")) is None


def test_a_graph_is_told_once_and_whole(tmp_path: Path) -> None:
    feed, tellings = Feed(mount=tmp_path), []
    feed._tell = lambda is_graph, lines: tellings.append((is_graph, lines))  # type: ignore[method-assign]
    (tmp_path / "in").write_text("1234")
    make = Job("1", "make", reads=["in"], writes=["out"], temporary=["out"])
    feed.graph([make], ["out", "of no job"], 4)
    feed.graph([make], ["out"], 4)
    feed.started("1")
    assert [is_graph for is_graph, _ in tellings] == [True, False]
    lines = [json.loads(line) for line in tellings[0][1]]
    assert lines[1:] == [{"target": "out"}, {"slots": 4}, {"file": {"name": "in", "bytes": 4}}]
    assert "bytes_most" not in lines[0]["task"]
    # Another job: what has happened is told again with it.
    feed.graph([make, Job("2", "use", reads=["out"])], [], 4)
    is_graph, lines = tellings[-1]
    assert is_graph and json.loads(lines[-1]) == {"started": "1"}
