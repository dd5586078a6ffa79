"""Parsl's files on a mount of Tidefs: `File("tidefs://a/b")` is the file `a/b` of the mount.

Nothing is copied: an app reads and writes where the file lies, so the mount must be at the same place
on all hosts that run apps, as `tidefs mount` makes it.

    Config(executors=[ThreadPoolExecutor(storage_access=[TidefsStaging()])])
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any, Optional

from parsl.data_provider.staging import Staging
from parsl.utils import RepresentationMixin

from .fsspec_filesystem import TidefsFileSystem


class TidefsStaging(Staging, RepresentationMixin):
    """Takes files whose scheme is `tidefs`.

    `mount` is where the file system is mounted; without it `$TIDEFS_MOUNT`, or the mount of the file
    system that runs. Raises NotMounted where it is not mounted.
    """

    def __init__(self, mount: Optional[str] = None) -> None:
        self.mount = mount
        self._file_system = TidefsFileSystem(mount=mount)

    def can_stage_in(self, file: Any) -> bool:
        return bool(file.scheme == "tidefs")

    def can_stage_out(self, file: Any) -> bool:
        return bool(file.scheme == "tidefs")

    def stage_in(self, dm: Any, executor: str, file: Any, parent_fut: Optional[Future[Any]]) -> None:
        file.local_path = self._file_system.local_path(file.url)

    def stage_out(self, dm: Any, executor: str, file: Any, app_fu: Future[Any]) -> None:
        file.local_path = self._file_system.local_path(file.url)
        os.makedirs(os.path.dirname(file.local_path), exist_ok=True)
