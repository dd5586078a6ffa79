"""Parsl apps whose files are on a mount."""

from __future__ import annotations

from pathlib import Path

import parsl
import pytest
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import ThreadPoolExecutor

import tidefs
from tidefs.parsl_staging import TidefsStaging

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_an_app_reads_and_writes_where_the_files_lie(running: tidefs.Run, tmp_path: Path) -> None:
    staging = TidefsStaging(mount=str(running.mount))
    executor = ThreadPoolExecutor(storage_access=[staging])
    config = Config(executors=[executor], run_dir=str(tmp_path), usage_tracking=0)
    (running / "input").write_text("bytes")

    @parsl.python_app
    def shout(inputs=(), outputs=()):
        with open(inputs[0]) as given, open(outputs[0], "w") as made:
            made.write(given.read().upper())

    with parsl.load(config):
        made = shout(inputs=[File("tidefs://input")], outputs=[File("tidefs://made/deep/output")])
        made.result(timeout=60)
        assert made.outputs[0].result(timeout=60).scheme == "tidefs"
    assert (running / "made/deep/output").read_text() == "BYTES"


def test_other_files_are_left_to_others(running: tidefs.Run) -> None:
    staging = TidefsStaging(mount=str(running.mount))
    assert staging.can_stage_in(File("tidefs://a")) and staging.can_stage_out(File("tidefs://a"))
    assert not staging.can_stage_in(File("/a")) and not staging.can_stage_out(File("ftp://b/a"))


def test_a_directory_that_is_no_mount_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tidefs.NotMounted):
        TidefsStaging(mount=str(tmp_path))
