"""What fsspec's own suite does not ask: names, ranges, many files at once, transactions, refusals."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import fsspec
import pytest

import tidefs
from tidefs.fsspec_filesystem import TidefsFileSystem


@pytest.fixture
def fs(running: tidefs.Run) -> TidefsFileSystem:
    return running.fsspec


@pytest.fixture
def folder(running: tidefs.Run, request: pytest.FixtureRequest) -> Path:
    # Without brackets, which would be a pattern.
    path = running.mount / request.node.name.translate({ord(letter): "_" for letter in "[]/"})
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("given", "stripped"),
    [
        ("tidefs://a/b", "/a/b"),
        ("tidefs:///a/b/", "/a/b"),
        ("a", "/a"),
        ("/", "/"),
        ("", "/"),
        ("tidefs://", "/"),
        ("/a//b/./c", "/a/b/c"),
        ("tidefs://../../etc/passwd", "/etc/passwd"),
    ],
)
def test_names(given: str, stripped: str) -> None:
    assert TidefsFileSystem._strip_protocol(given) == stripped
    assert TidefsFileSystem._strip_protocol(stripped) == stripped


def test_urls_find_the_file_system(running: tidefs.Run, folder: Path) -> None:
    url = f"tidefs://{folder.name}/x.txt"
    with fsspec.open(url, "w", mount=str(running.mount)) as file:
        file.write("through a URL")
    assert (folder / "x.txt").read_text() == "through a URL"


def test_ranges(fs: TidefsFileSystem, folder: Path) -> None:
    (folder / "x").write_bytes(bytes(range(100)))
    path = f"/{folder.name}/x"
    whole = bytes(range(100))
    for start, end in [(0, 10), (90, 200), (-10, None), (5, -5), (50, 20), (None, 3), (200, 300)]:
        assert fs.cat_file(path, start, end) == whole[start:end]
    assert fs.cat_ranges([path] * 3, [0, 10, 20], [5, 15, 25]) == [whole[0:5], whole[10:15], whole[20:25]]


def test_many_files_at_once(fs: TidefsFileSystem, folder: Path, tmp_path: Path) -> None:
    bytes_of = {f"/{folder.name}/{n:03}": bytes([n]) * (n + 1) for n in range(200)}
    fs.pipe(bytes_of)
    assert fs.cat(list(bytes_of)) == bytes_of
    fs.get(f"/{folder.name}/", str(tmp_path / "out") + "/", recursive=True)
    assert len(list((tmp_path / "out").iterdir())) == 200
    fs.put(str(tmp_path / "out") + "/", f"/{folder.name}/back/", recursive=True)
    assert fs.du(f"/{folder.name}/back") == sum(map(len, bytes_of.values()))
    fs.rm(f"/{folder.name}/*", recursive=True)
    assert fs.ls(f"/{folder.name}") == []


def test_a_transaction_shows_all_its_files_or_none(fs: TidefsFileSystem, folder: Path) -> None:
    path = f"/{folder.name}/x"
    with fs.transaction:
        with fs.open(path, "wb") as file:
            file.write(b"whole")
        assert not fs.exists(path)
    assert fs.cat_file(path) == b"whole"
    with pytest.raises(KeyError), fs.transaction:
        with fs.open(path, "wb") as file:
            file.write(b"half")
        raise KeyError("given up")
    assert fs.cat_file(path) == b"whole"
    assert os.listdir(folder) == ["x"]


def test_links_lead_to_the_same_file_on_every_mount(fs: TidefsFileSystem, folder: Path) -> None:
    (folder / "x").write_bytes(b"abc")
    fs.symlink(f"/{folder.name}/x", f"/{folder.name}/link")
    assert os.readlink(folder / "link") == "x"
    info = fs.info(f"/{folder.name}/link")
    assert (info["islink"], info["type"], info["size"]) == (True, "file", 3)
    (folder / "x").unlink()
    assert fs.info(f"/{folder.name}/link")["type"] == "other"
    assert fs.lexists(f"/{folder.name}/link") and not fs.exists(f"/{folder.name}/link")


def test_a_file_system_may_be_sent_to_another_process(fs: TidefsFileSystem, folder: Path) -> None:
    (folder / "x").write_bytes(b"abc")
    there = pickle.loads(pickle.dumps(fs))
    assert there.mount == fs.mount and there.cat_file(f"/{folder.name}/x") == b"abc"


def test_nothing_is_written_where_nothing_is_mounted(tmp_path: Path) -> None:
    with pytest.raises(tidefs.NotMounted, match=str(tmp_path)):
        TidefsFileSystem(mount=tmp_path)
    with pytest.raises(ValueError):
        TidefsFileSystem(mount=tmp_path, threads=0)


def test_nothing_is_written_where_something_was_mounted(tmp_path: Path) -> None:
    place, state = tmp_path / "place", tmp_path / "state"
    place.mkdir()
    told = {"mount": place, "state": state}
    with tidefs.run(**told) as first:
        named, found = first.fsspec, TidefsFileSystem(state=os.fspath(first.state))
        for fs in (named, found):
            fs.pipe_file("/x", b"1")
        opened = named.open("/y", "wb")
        opened.close()
    for fs in (named, found):
        for write in (lambda: fs.pipe_file("/x", b"2"), lambda: fs.open("/x", "wb"), lambda: fs.ls("/")):
            with pytest.raises(tidefs.NotMounted):
                write()
    assert not place.exists() or not os.listdir(place)


def test_the_next_file_system_is_found_by_the_same_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEFS_STATE", os.fspath(tmp_path))
    for content in ("first", "second"):
        with tidefs.run() as fs:
            assert fsspec.filesystem("tidefs").ls("/") == []
            with fsspec.open("tidefs://x", "w") as file:
                file.write(content)
            assert (fs / "x").read_text() == content
    with pytest.raises(tidefs.NotMounted):
        fsspec.open("tidefs://x", "w").open()


def test_errors_are_pythons_own(fs: TidefsFileSystem, folder: Path) -> None:
    path = f"/{folder.name}"
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{path}/none")
    with pytest.raises(FileNotFoundError):
        fs.pipe_file(f"{path}/no/parent", b"")
    with pytest.raises(FileExistsError):
        fs.mkdir(path)
    with pytest.raises(IsADirectoryError):
        fs.rm(path)
    (folder / "x").write_bytes(b"1")
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{path}/x", b"2", mode="create")
    assert (folder / "x").read_bytes() == b"1"
