"""
Folders of rows in a bucket of S3, or of a store that speaks its protocol.

A bucket has no folders, only names, and names cannot be changed. So a folder is moved in three
steps: copy its file, delete the hidden file, and write `_SUCCESS`. Each folder has only one file
with rows, so readers see either all rows of a folder or none.

| The driver dies | It leaves | The next driver |
|---|---|---|
| before the copy | the hidden file | copies it |
| before the hidden file is deleted | the same file twice | finds them equal, and deletes it |
| before `_SUCCESS` is written | the file in its place | writes `_SUCCESS` |
| after that | a complete folder | has nothing to do |
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import IO

from pyarrow.fs import FileInfo, FileSelector, FileType, S3FileSystem, resolve_s3_region

from mq_client.errors import UsageError
from spark_jobs.pipeline.flow.sinks.local_files import SUCCESS

_URL = re.compile(r"s3[an]?://(?P<bucket>[\w.-]+)(?P<key>(/.*)?)", re.ASCII | re.DOTALL)
_KEYS = ("access_key", "secret_key")
OPTIONS = (*_KEYS, "session_token", "region", "endpoint_override", "scheme")
"""Options of Arrow's file system. Without keys, Arrow looks for them where AWS's tools do."""
_SILENT_SECONDS = 30.0
"""Time limit of a request: a store may be silent while it copies. Arrow's own limit is 3 s."""


def is_s3(path: str) -> bool:
    """Whether a path begins with a scheme of S3. The rest of the path may still be invalid."""
    return path.startswith(("s3://", "s3a://", "s3n://"))


def check(field: str, path: str, options: Mapping[str, str]) -> None:
    """Refuse a path or options that can never work. `field` names the sink."""
    found = _URL.fullmatch(path)
    parts = found["key"].strip("/").split("/") if found else [".."]
    if parts != [""] and not {"", ".", ".."}.isdisjoint(parts):
        raise UsageError(f"{field}.path {path!r} is not s3://BUCKET or s3://BUCKET/NAME/NAME")
    for name, text in options.items():
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            raise UsageError(f"{field}.options: {name} is unknown; a path in S3 has {known}")
        if not text:
            raise UsageError(f"{field}.options: {name} is empty; leave it out, or give a value")
    given = [name for name in _KEYS if name in options]
    if len(given) == 1 or ("session_token" in options and not given):
        raise UsageError(f"{field}.options: {' and '.join(_KEYS)} must be given together")
    if options.get("scheme", "https") not in ("http", "https"):
        raise UsageError(f"{field}.options: scheme must be http or https")


class S3Files:
    """Moves a folder in steps: copies it, and deletes the hidden one."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Send no request yet."""
        self._options = tuple(options.items())

    def write(self, folder: str, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a folder with one file. It replaces the file of a failed attempt."""
        system, path = self._find(folder)
        with system.open_output_stream(f"{path}/{name}") as file:
            write(file)

    def move(self, written: str, place: str) -> None:
        """
        Move a folder.

        Raise `FileNotFoundError` if the folder is missing, and `FileExistsError` if the place is
        taken.
        """
        system, source = self._find(written)
        _, target = self._find(place)
        files, there = _list(system, source), _list(system, target)
        rows = [name for name in there if name != SUCCESS]
        if files:
            if not rows:
                for name in files:
                    system.copy_file(f"{source}/{name}", f"{target}/{name}")
            elif rows != files or not _are_equal(system, source, target, files):
                raise FileExistsError(place)
            system.delete_dir(source)
        elif not rows or SUCCESS in there:
            raise FileNotFoundError(written)
        with system.open_output_stream(f"{target}/{SUCCESS}"):
            pass

    def exists(self, folder: str) -> bool:
        """Whether there is a file in the folder."""
        return bool(_list(*self._find(folder)))

    def list_folders(self, parent: str) -> list[str]:
        """List the names of the folders in a folder; none if it is missing."""
        return _list(*self._find(parent), FileType.Directory)

    def delete(self, folder: str) -> None:
        """Delete a folder, if there is one."""
        system, path = self._find(folder)
        if _look(system, path):
            system.delete_dir(path)

    def _find(self, url: str) -> tuple[S3FileSystem, str]:
        """Find the bucket's file system, and the path in it."""
        found = _URL.fullmatch(url)
        assert found is not None, "checked by `check`"
        bucket = found["bucket"]
        return _connect(bucket, self._options), f"{bucket}/{found['key'].strip('/')}".rstrip("/")


@functools.cache
def _connect(bucket: str, options: tuple[tuple[str, str], ...]) -> S3FileSystem:
    given = dict(options)
    if not given.keys() & {"region", "endpoint_override"}:
        given["region"] = resolve_s3_region(bucket)
    # With delayed open, one request writes a file. Otherwise a dying task leaves parts of the file.
    return S3FileSystem(**given, request_timeout=_SILENT_SECONDS, allow_delayed_open=True)


def _list(system: S3FileSystem, folder: str, kind: FileType = FileType.File) -> list[str]:
    return sorted(each.base_name for each in _look(system, folder) if each.type is kind)


def _look(system: S3FileSystem, folder: str) -> list[FileInfo]:
    found: list[FileInfo] = system.get_file_info(FileSelector(folder, allow_not_found=True))
    bucket = folder.partition("/")[0]
    if not found and system.get_file_info(bucket).type is FileType.NotFound:
        # A missing folder counts as moved. So a missing bucket must not look like a missing folder.
        raise OSError(f"there is no bucket {bucket}")
    return found


def _are_equal(system: S3FileSystem, source: str, target: str, names: list[str]) -> bool:
    return all(
        _read(system, f"{source}/{name}") == _read(system, f"{target}/{name}") for name in names
    )


def _read(system: S3FileSystem, path: str) -> bytes:
    with system.open_input_stream(path) as file:
        return bytes(file.read())
