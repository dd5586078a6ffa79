"""fsspec's own suite for file systems, whole."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import fsspec.tests.abstract as abstract
import pytest

import tidefs
from tidefs.fsspec_filesystem import TidefsFileSystem


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, running: tidefs.Run) -> TidefsFileSystem:
        return TidefsFileSystem(mount=running.mount, auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, fs: TidefsFileSystem) -> Iterator[str]:
        path = f"/suite-{uuid.uuid4().hex}"
        fs.mkdir(path)
        yield path
        fs.rm(path, recursive=True)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass
