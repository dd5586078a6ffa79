"""File systems that the tests share: one in the memory of a process, one on two nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidefs


@pytest.fixture(scope="session", params=["embedded", "nodes"])
def running(request: pytest.FixtureRequest) -> Iterator[tidefs.Run]:
    sizes = {} if request.param == "embedded" else {"nodes": 2, "node_memory": "192MiB"}
    with tidefs.run(**sizes) as file_system:
        yield file_system
