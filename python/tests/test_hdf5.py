"""HDF5 files: whoever has one open keeps others from writing it, and a reader follows a writer (SWMR).

The writer is this process; the others are processes of their own. A reader follows on the writer's mount:
HDF5 overwrites in place what it has told readers, which those on other mounts see when they open the file
anew. `Dataset.refresh` is what readers call: h5py itself keeps the shape of a data set of a file
that is opened for reading, so its low-level `Dataset.id.refresh` shows no growth on any file system.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidefs

h5py = importlib.import_module("h5py")
np = importlib.import_module("numpy")

STEPS, STEP = 200, 200

FOLLOWER = """
import sys, time
import h5py
path, wanted = sys.argv[1], int(sys.argv[2])
end = time.monotonic() + 60
with h5py.File(path, "r", libver="latest", swmr=True) as file:
    data, seen = file["d"], 0
    print("follows", flush=True)
    while seen < wanted and time.monotonic() < end:
        data.refresh()
        assert data.shape[0] >= seen, f"shrank from {seen} to {data.shape[0]}"
        seen = data.shape[0]
        assert data[:].tolist() == list(range(seen)), f"another value among {seen}"
        time.sleep(0.01)
print(seen)
"""

OPENER = """
import sys
import h5py
try:
    h5py.File(sys.argv[1], sys.argv[2]).close()
except OSError as error:
    sys.exit(f"refused: {error}")
"""


@pytest.fixture
def mounts(running: tidefs.Run, tmp_path: Path) -> Iterator[list[Path]]:
    """Of one file system; the embedded store has one mount only."""
    if running.status().store == "embedded":
        yield [running.mount]
        return
    other, program = tmp_path / "other", os.environ["TIDEFS_BINARY"]
    other.mkdir()
    command = [program, "--state", str(running.state)]
    subprocess.run([*command, "mount", str(other)], check=True, timeout=60)
    try:
        yield [running.mount, other]
    finally:
        subprocess.run([*command, "umount", str(other)], check=True, timeout=60)


def test_a_reader_follows_a_writer(running: tidefs.Run) -> None:
    path = running.mount / "swmr.h5"
    with h5py.File(path, "w", libver="latest") as file:
        data = file.create_dataset("d", shape=(0,), maxshape=(None,), dtype="i8", chunks=(1000,))
        file.swmr_mode = True
        command = [sys.executable, "-c", FOLLOWER, str(path), str(STEPS * STEP)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None and reader.stdout.readline() == "follows\n"
            for end in range(STEP, STEPS * STEP + 1, STEP):
                data.resize((end,))
                data[end - STEP : end] = np.arange(end - STEP, end)
                data.flush()
            out, err = reader.communicate(timeout=90)
    assert (reader.returncode, out) == (0, f"{STEPS * STEP}\n"), err


def test_a_reader_on_another_mount_sees_what_was_closed(mounts: list[Path]) -> None:
    for place in mounts:
        with h5py.File(mounts[0] / "closed.h5", "w", libver="latest") as file:
            file["d"] = np.arange(STEPS * STEP)
        command = [sys.executable, "-c", FOLLOWER, str(place / "closed.h5"), str(STEPS * STEP)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=90)
        assert (ran.returncode, ran.stdout) == (0, f"follows\n{STEPS * STEP}\n"), ran.stderr


@pytest.mark.parametrize(("held", "wanted", "opens"), [("r", "r", True), ("r", "a", False), ("a", "r", False)])
def test_who_has_a_file_open_keeps_others_out(mounts: list[Path], held: str, wanted: str, opens: bool) -> None:
    for place in mounts:
        with h5py.File(mounts[0] / "locked.h5", "w") as file:
            file["a"] = 1
        command = [sys.executable, "-c", OPENER, str(place / "locked.h5"), wanted]
        with h5py.File(mounts[0] / "locked.h5", held):
            ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (ran.returncode == 0) == opens, ran.stderr
        assert opens or "unable to lock file" in ran.stderr.lower(), ran.stderr
        subprocess.run(command, check=True, timeout=60)
