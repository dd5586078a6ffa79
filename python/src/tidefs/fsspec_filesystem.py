"""Tidefs for fsspec: `tidefs://` paths lie below a mount and are read and written through it.

Single calls are system calls of the calling thread. Many files at once (`cat`, `pipe`, `get`, `put`,
`cat_ranges`, a zarr store) are served by a bounded number of threads, in which the kernel works
without Python's lock.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import posixpath
import shutil
import stat
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import LocalFileOpener
from fsspec.utils import isfilelike, stringify_path

from .errors import CommandFailed, NotMounted
from .instance import attach

Result = TypeVar("Result")
Info = dict[str, Any]

THREADS = 8
#: Bytes copied at once between a mount and another file system.
COPY_BYTES = 4 << 20


class TidefsFile(LocalFileOpener):  # type: ignore[misc]
    """An open file. In a transaction it is written beside its name, and gets it by a rename."""

    f: Any

    def _open(self) -> None:
        if self.autocommit or "w" not in self.mode or (self.f is not None and not self.f.closed):
            super()._open()
            return
        directory, name = os.path.split(self.path)
        # A long name leaves no room for more.
        handle, self.temp = tempfile.mkstemp(prefix=f".{name[:64]}.", dir=directory)
        self.f = os.fdopen(handle, self.mode)

    def commit(self) -> None:
        if self.autocommit:
            raise RuntimeError("a file outside of a transaction is there at once")
        self.f.close()
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(self.temp, 0o666 & ~mask)
        os.replace(self.temp, self.path)


class TidefsFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """A mount of Tidefs as a file system of fsspec.

    Parameters
    ----------
    mount: str
        Where it is mounted; without it `$TIDEFS_MOUNT`, or the mount of the file system that runs.
    state: str
        The state directory by which the mount is found where `mount` is not given.
    auto_mkdir: bool
        Whether writing a file makes the directories above it.
    threads: int
        How many threads serve operations on many files.

    Raises NotMounted where the directory does not lie on a mount of Tidefs, or does not any more, so
    that nothing is written to the disk beneath one that is gone. fsspec keeps one object for the same
    parameters: where its mount has gone, it goes on with the one that is found by them now.
    """

    protocol = "tidefs"
    root_marker = "/"
    local_file = False
    mirror_sync_methods = True

    def __init__(
        self,
        mount: Union[str, os.PathLike[str], None] = None,
        state: Optional[str] = None,
        auto_mkdir: bool = False,
        threads: int = THREADS,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if threads < 1:
            raise ValueError(f"threads must be 1 or more, not {threads}")
        self.auto_mkdir = auto_mkdir
        self._named, self._of = mount, state
        self._mount = self._found()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tidefs-fsspec")

    # The mount.

    @property
    def mount(self) -> str:
        """Where it is mounted; raises NotMounted where it is not any more."""
        directory, device = self._mount
        if _device(directory) != device:
            directory, _ = self._mount = self._found()
        return directory

    def _found(self) -> tuple[str, int]:
        """The mount that the parameters lead to now, and its device, which no other one has."""
        named = self._named
        if named is None and self._of is None:
            named = os.environ.get("TIDEFS_MOUNT")
        if named is None:
            try:
                named = attach(None if self._of is None else Path(self._of)).mount
            except CommandFailed as failed:
                raise NotMounted(None, failed.message) from failed
        directory = os.path.realpath(named)
        # Looked at first: what is mounted there afterwards has another device.
        device = _device(directory)
        if device is None or not _is_on_tidefs(directory):
            raise NotMounted(directory)
        return directory, device

    # Names.

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        for prefix in ("tidefs://", "tidefs:"):
            if path.startswith(prefix):
                path = path[len(prefix) :]
                break
        # `..` ends at the root: no path leads out of the mount.
        return posixpath.normpath("//" + path.lstrip("/"))[1:] if path else cls.root_marker

    @classmethod
    def _parent(cls, path: Any) -> str:
        parent: str = posixpath.dirname(cls._strip_protocol(path))
        return parent

    @property
    def fsid(self) -> str:
        return f"tidefs:{self.mount}"

    def local_path(self, path: Any) -> str:
        """Where a path lies on this machine, for programs that take no `tidefs://`."""
        stripped: str = self._strip_protocol(path)
        mount = self.mount
        return mount if stripped == "/" else mount + stripped

    def _prepared(self, path: Any) -> str:
        """The same, with the directories above it where they are wanted."""
        local = self.local_path(path)
        if self.auto_mkdir:
            os.makedirs(os.path.dirname(local), exist_ok=True)
        return local

    # What is there.

    def info(self, path: Any, **_: Any) -> Info:
        return _info(self._strip_protocol(path), self.local_path(path))

    def ls(self, path: Any, detail: bool = True, **_: Any) -> list[Any]:
        name, local = self._strip_protocol(path), self.local_path(path)
        try:
            with os.scandir(local) as rows:
                names = sorted(row.name for row in rows)
        except NotADirectoryError:
            return [self.info(name)] if detail else [name]
        paths = [posixpath.join(name, one) for one in names]
        return list(self._infos(paths)) if detail else paths

    def _infos(self, paths: list[str]) -> Iterator[Info]:
        for path in paths:
            try:
                yield self.info(path)
            except FileNotFoundError:
                # Removed since it was listed.
                continue

    def exists(self, path: Any, **_: Any) -> bool:
        return os.path.exists(self.local_path(path))

    def lexists(self, path: Any, **_: Any) -> bool:
        return os.path.lexists(self.local_path(path))

    def isfile(self, path: Any) -> bool:
        return os.path.isfile(self.local_path(path))

    def isdir(self, path: Any) -> bool:
        return os.path.isdir(self.local_path(path))

    def islink(self, path: Any) -> bool:
        return os.path.islink(self.local_path(path))

    def created(self, path: Any) -> datetime.datetime:
        return _moment(self.info(path)["created"])

    def modified(self, path: Any) -> datetime.datetime:
        return _moment(self.info(path)["mtime"])

    # Names that come and go.

    def mkdir(self, path: Any, create_parents: bool = True, **_: Any) -> None:
        local = self.local_path(path)
        if create_parents:
            os.makedirs(local)
        else:
            os.mkdir(local)

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        os.makedirs(self.local_path(path), exist_ok=exist_ok)

    def rmdir(self, path: Any) -> None:
        os.rmdir(self.local_path(path))

    def rm_file(self, path: Any) -> None:
        os.remove(self.local_path(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        wanted = path if isinstance(path, list) else [path]
        if any("*" in str(one) for one in wanted):
            wanted = self.expand_path(wanted)
        for one in wanted:
            local = self.local_path(one)
            if not os.path.isdir(local) or os.path.islink(local):
                os.remove(local)
            elif recursive:
                shutil.rmtree(local)
            else:
                raise IsADirectoryError(f"{one} is a directory: give recursive=True")

    def mv(self, path1: Any, path2: Any, recursive: bool = True, **_: Any) -> None:
        """Renames a file or a directory as `mv` does: into `path2` where that is a directory."""
        source, target = self.local_path(path1), self._prepared(path2)
        if os.path.isdir(target):
            target = os.path.join(target, os.path.basename(source))
        os.rename(source, target)

    mv_file = mv

    def link(self, src: Any, dst: Any, **_: Any) -> None:
        os.link(self.local_path(src), self._prepared(dst))

    def symlink(self, src: Any, dst: Any, **_: Any) -> None:
        """A link whose target is relative, so that it leads to the same file on every mount."""
        target = self._prepared(dst)
        os.symlink(os.path.relpath(self.local_path(src), os.path.dirname(target)), target)

    def chmod(self, path: Any, mode: int) -> None:
        os.chmod(self.local_path(path), mode)

    def touch(self, path: Any, truncate: bool = True, **_: Any) -> None:
        with open(self._prepared(path), "wb" if truncate else "ab") as file:
            os.utime(file.fileno())

    # Bytes.

    def _open(self, path: Any, mode: str = "rb", block_size: Any = None, **options: Any) -> TidefsFile:
        local = self.local_path(path) if "r" in mode else self._prepared(path)
        kept = {name: options[name] for name in ("autocommit", "compression") if name in options}
        return TidefsFile(local, mode, fs=self, **kept)

    def cat_file(
        self, path: Any, start: Optional[int] = None, end: Optional[int] = None, **_: Any
    ) -> bytes:
        with open(self.local_path(path), "rb", buffering=0) as file:
            if start is None and end is None:
                return file.readall()
            first, last = slice(start, end).indices(os.fstat(file.fileno()).st_size)[:2]
            return _read(file.fileno(), first, max(0, last - first))

    def pipe_file(self, path: Any, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        with open(self._prepared(path), "xb" if mode == "create" else "wb", buffering=0) as file:
            rest = memoryview(value).cast("B")
            while rest:
                rest = rest[file.write(rest) :]

    def cp_file(self, path1: Any, path2: Any, **_: Any) -> None:
        source = self.local_path(path1)
        if os.path.isdir(source):
            os.makedirs(self.local_path(path2), exist_ok=True)
        else:
            _copy(source, self._prepared(path2))

    def get_file(
        self, rpath: Any, lpath: Any, callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        source = self.local_path(rpath)
        if isfilelike(lpath):
            with open(source, "rb") as file:
                shutil.copyfileobj(file, lpath, COPY_BYTES)
        elif os.path.isdir(source):
            os.makedirs(lpath, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
            _copy(source, lpath, callback)

    def put_file(
        self,
        lpath: Any,
        rpath: Any,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **_: Any,
    ) -> None:
        target = self.local_path(rpath)
        if os.path.isdir(lpath):
            os.makedirs(target, exist_ok=True)
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _copy(lpath, target, callback, exclusive=mode == "create")

    # The same for many at once: each call goes to a thread.

    async def _in_thread(self, call: Callable[..., Result], *given: Any, **named: Any) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: call(*given, **named))

    async def _info(self, path: Any, **named: Any) -> Info:
        return await self._in_thread(self.info, path, **named)

    async def _ls(self, path: Any, detail: bool = True, **named: Any) -> list[Any]:
        return await self._in_thread(self.ls, path, detail=detail, **named)

    async def _cat_file(self, path: Any, start: Any = None, end: Any = None, **named: Any) -> bytes:
        return await self._in_thread(self.cat_file, path, start, end, **named)

    async def _pipe_file(self, path: Any, value: bytes, mode: str = "overwrite", **named: Any) -> None:
        await self._in_thread(self.pipe_file, path, value, mode, **named)

    async def _cp_file(self, path1: Any, path2: Any, **named: Any) -> None:
        await self._in_thread(self.cp_file, path1, path2, **named)

    async def _get_file(self, rpath: Any, lpath: Any, **named: Any) -> None:
        await self._in_thread(self.get_file, rpath, lpath, **named)

    async def _put_file(self, lpath: Any, rpath: Any, mode: str = "overwrite", **named: Any) -> None:
        await self._in_thread(self.put_file, lpath, rpath, mode=mode, **named)

    async def _rm_file(self, path: Any, **_: Any) -> None:
        await self._in_thread(self.rm_file, path)

    async def _rm(self, path: Any, recursive: bool = False, **named: Any) -> None:
        await self._in_thread(self.rm, path, recursive=recursive)

    async def _mv_file(self, path1: Any, path2: Any) -> None:
        await self._in_thread(self.mv, path1, path2)

    async def _mkdir(self, path: Any, create_parents: bool = True, **_: Any) -> None:
        await self._in_thread(self.mkdir, path, create_parents)

    async def _makedirs(self, path: Any, exist_ok: bool = False) -> None:
        await self._in_thread(self.makedirs, path, exist_ok)


def _device(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_dev
    except OSError:
        # It was removed, or whoever served it is gone.
        return None


def _is_on_tidefs(path: str) -> bool:
    """Whether a directory lies on a mount of Tidefs, as the kernel's table of mounts says."""
    found, length = "", -1
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for row in table:
            fields = row.split(" ")
            point = fields[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
            point = point.encode("latin-1").decode("utf-8", "surrogateescape")
            below = path == point or path.startswith(point.rstrip("/") + "/")
            # The last row of a directory is what is on top there.
            if below and len(point) >= length:
                found, length = fields[fields.index("-") + 1], len(point)
    return found == "fuse.tidefs"


def _info(name: str, local: str) -> Info:
    it = os.lstat(local)
    info: Info = {"name": name, "islink": stat.S_ISLNK(it.st_mode)}
    if info["islink"]:
        info["destination"] = os.readlink(local)
        try:
            it = os.stat(local)
        except FileNotFoundError:
            # A link that leads nowhere is listed as itself.
            pass
    kinds = ((stat.S_ISDIR, "directory"), (stat.S_ISREG, "file"))
    info["type"] = next((kind for test, kind in kinds if test(it.st_mode)), "other")
    info["size"], info["created"] = it.st_size, it.st_ctime
    for field in ("mode", "uid", "gid", "mtime", "ino", "nlink"):
        info[field] = getattr(it, f"st_{field}")
    return info


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)


def _read(descriptor: int, offset: int, length: int) -> bytes:
    """The bytes of a range; fewer where the file ends."""
    pieces = []
    while length > 0:
        piece = os.pread(descriptor, length, offset)
        if not piece:
            break
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _copy(source: str, target: str, callback: Any = DEFAULT_CALLBACK, exclusive: bool = False) -> None:
    """The bytes of a file in pieces, within the kernel."""
    with open(source, "rb", buffering=0) as from_file, open(
        target, "xb" if exclusive else "wb", buffering=0
    ) as to_file:
        callback.set_size(os.fstat(from_file.fileno()).st_size)
        offset = 0
        while copied := os.sendfile(to_file.fileno(), from_file.fileno(), offset, COPY_BYTES):
            offset += copied
            callback.relative_update(copied)
