"""The interface's own tests, and a workflow whose files are all on a mount."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.tests import TestStorageBase

import tidefs
from snakemake_storage_plugin_tidefs import StorageProvider, StorageProviderSettings


@pytest.fixture(scope="module")
def mount() -> Iterator[Path]:
    with tidefs.run() as running:
        yield running.mount


class TestStorage(TestStorageBase):
    __test__ = True
    files_only = False
    touch = True

    @pytest.fixture(autouse=True)
    def _mount(self, mount: Path) -> None:
        self.mount = mount

    def get_storage_provider_cls(self) -> type[StorageProvider]:
        return StorageProvider

    def get_storage_provider_settings(self) -> StorageProviderSettings:
        return StorageProviderSettings(mount=str(self.mount))

    def get_query(self, tmp_path: Any) -> str:
        return "tidefs://suite/test"

    def get_query_not_existing(self, tmp_path: Any) -> str:
        return "tidefs://suite/none"


@pytest.mark.parametrize("query", ["results/a", "s3://a", "tidefs://", "tidefs://a/../../b"])
def test_queries_that_name_nothing_are_refused(query: str) -> None:
    assert not StorageProvider.is_valid_query(query)
    assert StorageProvider.is_valid_query("tidefs://a/{sample}.csv")


def test_a_directory_that_is_no_mount_is_refused(tmp_path: Path) -> None:
    settings = StorageProviderSettings(mount=str(tmp_path))
    with pytest.raises(WorkflowError, match="not on a mount"):
        StorageProvider(local_prefix=tmp_path / "local", logger=None, settings=settings)


@pytest.mark.parametrize("local_is_on_the_mount", [False, True])
def test_a_workflow_has_all_its_files_on_the_mount(
    mount: Path, tmp_path: Path, local_is_on_the_mount: bool
) -> None:
    place = "inside" if local_is_on_the_mount else "outside"
    (tmp_path / "Snakefile").write_text(
        textwrap.dedent(f"""
            rule all:
                input: "{place}/sum"
            rule part:
                output: "{place}/part-{{n}}"
                shell: "echo {{wildcards.n}} > {{output}}"
            rule sum:
                input: expand("{place}/part-{{n}}", n=range(5))
                output: "{place}/sum"
                shell: "cat {{input}} > {{output}}"
        """)
    )
    local = mount / f".local-{place}" if local_is_on_the_mount else tmp_path / "local"
    command = [
        sys.executable, "-m", "snakemake", "--cores", "2",
        "--default-storage-provider", "tidefs", "--default-storage-prefix", "tidefs://",
        "--storage-tidefs-mount", str(mount), "--local-storage-prefix", str(local),
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert (mount / place / "sum").read_text().split() == ["0", "1", "2", "3", "4"]
    assert not (mount / place / "sum").is_symlink()
    assert sorted(os.listdir(mount / place)) == [f"part-{n}" for n in range(5)] + ["sum"]
