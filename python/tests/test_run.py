"""`tidefs.run`: what starts, what is said of it, and what is left when it ends, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import tidefs


def is_mounted(path: str) -> bool:
    return any(line.split()[4] == path for line in Path("/proc/self/mountinfo").open())


def test_a_block_has_a_mount_and_leaves_a_report() -> None:
    with tidefs.run() as fs:
        (fs / "a.txt").write_text("data")
        assert (fs.mount / "a.txt").read_text() == "data"
        assert os.fspath(fs) == str(fs.mount)
        assert fs.status().store == "embedded"
        with pytest.raises(tidefs.ReportMissing):
            _ = fs.report
    assert not fs.mount.exists()
    assert fs.report.wall_seconds > 0
    assert fs.report.raw["command_status"] == 0
    assert "<iframe" in fs.report._repr_html_()
    assert "I/O errors" in str(fs.report)


def test_nodes_are_added_and_removed_by_hand() -> None:
    with tidefs.run(nodes="1..2", node_memory="96MiB", policy="static") as fs:
        assert [node.node_class for node in fs.status().nodes] == ["own"]
        fs.scale(2)
        status = fs.status()
        assert len(status.nodes) == 2
        assert status.memory_capacity_bytes > status.memory_used_bytes > 0
        assert "<table>" in status._repr_html_()
        fs.drain("1")
        assert len(fs.status().nodes) == 1
        assert fs.check()["clean"]
    kinds = [change["kind"] for change in fs.report.reconfigurations]
    assert kinds == ["commission", "decommission"]


def test_what_is_refused_says_why() -> None:
    with pytest.raises(tidefs.CommandFailed, match="--node-memory") as caught:
        with tidefs.run(nodes=1, node_memory="a lot"):
            pytest.fail("it must not start")
    assert caught.value.status != 0
    with pytest.raises(tidefs.CommandFailed, match="--no-such-option"):
        with tidefs.run(no_such_option=True):
            pytest.fail("it must not start")


def test_an_error_in_the_block_is_what_its_program_sees() -> None:
    with pytest.raises(KeyError):
        with tidefs.run() as fs:
            mount = fs.mount
            raise KeyError("mine")
    assert not is_mounted(str(mount))


def test_a_run_is_entered_once_and_has_no_mount_before() -> None:
    run = tidefs.run()
    with pytest.raises(RuntimeError):
        _ = run.mount
    with run:
        pass
    with pytest.raises(RuntimeError):
        run.__enter__()


def test_a_start_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = tmp_path / "tidefs"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setenv("TIDEFS_BINARY", str(hangs))
    with pytest.raises(tidefs.CommandTimedOut):
        with tidefs.run(start_timeout=0.2):
            pytest.fail("it must not start")


def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEFS_BINARY", "/nonexistent/tidefs")
    with pytest.raises(tidefs.ProgramNotFound, match="/nonexistent/tidefs"):
        with tidefs.run():
            pytest.fail("it must not start")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_program_dies(how: signal.Signals, tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import sys, time, tidefs
        with tidefs.run(nodes=1, node_memory="96MiB", mount=sys.argv[1]) as fs:
            print(fs.state, flush=True)
            time.sleep(60)
    """)
    mount = tmp_path / "mount"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(mount)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    with child.stdout:
        state = child.stdout.readline().strip()
    assert state and is_mounted(str(mount))
    child.send_signal(how)
    child.wait(timeout=60)
    # After a kill the file system ends by itself, a moment later.
    deadline = time.monotonic() + 60
    while (Path(state).exists() or mount.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(state).exists() and not mount.exists() and not is_mounted(str(mount))


def test_a_running_file_system_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEFS_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("TIDEFS_MOUNT", raising=False)
    with pytest.raises(tidefs.CommandFailed):
        tidefs.attach()
    with tidefs.run() as fs:
        assert tidefs.attach(fs.state).mount == fs.mount
        monkeypatch.setenv("TIDEFS_STATE", str(fs.state))
        assert tidefs.attach().mount == fs.mount
