"""Snakemake's input and output on a mount of Tidefs.

A query such as `tidefs://results/a.csv` is a path below the mount. Nothing is copied to read it, and
nothing to write it where Snakemake's local storage lies on the mount as well.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.io import (
    IOCacheStorageInterface,
    Mtime,
    get_constant_prefix,
)
from snakemake_interface_storage_plugins.settings import StorageProviderSettingsBase
from snakemake_interface_storage_plugins.storage_object import (
    StorageObjectGlob,
    StorageObjectRead,
    StorageObjectTouch,
    StorageObjectWrite,
)
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

from tidefs import TidefsError
from tidefs.fsspec_filesystem import TidefsFileSystem

PREFIX = "tidefs://"


@dataclass
class StorageProviderSettings(StorageProviderSettingsBase):
    mount: Optional[str] = field(
        default=None,
        metadata={
            "help": "Where Tidefs is mounted (default: $TIDEFS_MOUNT, or the mount of the file system "
            "that runs)",
            "env_var": False,
            "required": False,
        },
    )


class StorageProvider(StorageProviderBase):
    def __post_init__(self) -> None:
        mount = self.settings.mount if self.settings is not None else None
        try:
            self.file_system = TidefsFileSystem(mount=mount)
        except TidefsError as error:
            raise WorkflowError(str(error)) from error

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        return [
            ExampleQuery(
                query=f"{PREFIX}results/a.csv",
                type=QueryType.ANY,
                description="A file or directory, from the mount on",
            )
        ]

    def rate_limiter_key(self, query: str, operation: Operation) -> Any:
        raise NotImplementedError("rates are not limited")

    def default_max_requests_per_second(self) -> float:
        raise NotImplementedError("rates are not limited")

    def use_rate_limiter(self) -> bool:
        return False

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        rest = query[len(PREFIX) :].strip("/")
        reason = None
        if not query.startswith(PREFIX):
            reason = f"it must begin with {PREFIX}"
        elif not rest or ".." in rest.split("/"):
            reason = "it must name a file or directory of the mount"
        return StorageQueryValidationResult(query=query, valid=reason is None, reason=reason)

    def list_objects(self, query: Any) -> Iterable[str]:
        """All files below a directory, or the file itself."""
        path = self.file_system._strip_protocol(query)
        return [self.query_of(one) for one in self.file_system.find(path)]

    def query_of(self, path: str) -> str:
        return PREFIX + path.lstrip("/")


class StorageObject(
    StorageObjectRead, StorageObjectWrite, StorageObjectGlob, StorageObjectTouch
):
    def __post_init__(self) -> None:
        # A pattern has its wildcards still in it; it is a path all the same.
        self.path = Path(self.provider.file_system.local_path(self.query))

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        key = self.cache_key()
        if key in cache.exists_in_storage:
            return
        try:
            row = os.stat(self.path)
        except FileNotFoundError:
            cache.exists_in_storage[key] = False
            return
        cache.exists_in_storage[key] = True
        cache.mtime[key] = Mtime(storage=row.st_mtime)
        cache.size[key] = row.st_size

    def get_inventory_parent(self) -> Optional[str]:
        parent = self.provider.query_of(os.path.dirname(self.local_suffix()))
        return None if parent == PREFIX else parent

    def local_suffix(self) -> str:
        stripped: str = self.provider.file_system._strip_protocol(self.query)
        return stripped.lstrip("/")

    def cleanup(self) -> None:
        """Nothing is kept beside the local path, which Snakemake removes."""

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def mtime(self) -> float:
        return os.stat(self.path).st_mtime

    def size(self) -> int:
        return 0 if self.path.is_dir() else os.stat(self.path).st_size

    def local_footprint(self) -> int:
        """What is read is not copied."""
        return 0

    def retrieve_object(self) -> None:
        local = self.local_path()
        if local.is_symlink() or local.is_file():
            local.unlink()
        elif local.is_dir():
            shutil.rmtree(local)
        local.symlink_to(self.path, target_is_directory=self.path.is_dir())

    def store_object(self) -> None:
        local = self.local_path()
        if local.is_symlink() and local.resolve() == self.path.resolve():
            # A job has written through the link.
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        if local.is_dir():
            shutil.copytree(local, self.path, symlinks=True, copy_function=link_or_copy)
        else:
            # Others see the former file or the new one, and never a part.
            partial = self.path.with_name(f".{self.path.name[:200]}.part")
            partial.unlink(missing_ok=True)
            link_or_copy(local, partial)
            os.replace(partial, self.path)

    def remove(self) -> None:
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink()
        # The link that was made to read it leads nowhere now.
        local = self.local_path()
        if local.is_symlink() and not local.exists():
            local.unlink()

    def list_candidate_matches(self) -> Iterable[str]:
        return self.provider.list_objects(get_constant_prefix(self.query))

    def touch(self) -> None:
        os.utime(self.path)


def link_or_copy(source: Any, target: Any) -> None:
    """The same file under another name where both are on the mount; else a copy with its times."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
