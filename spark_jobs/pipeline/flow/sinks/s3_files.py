"""
Folders of rows in a bucket of S3, or of a store that speaks its protocol.

A bucket has no folders, only names, and cannot rename. So a folder is moved by a copy inside the
store, and then the hidden one is deleted. A folder has one file with rows, and a copy is one step:
so readers see all of its rows or none here too.

| The driver dies | It leaves | The next driver |
|---|---|---|
| before the copy | the hidden file | copies it |
| before the hidden file is deleted | the same file twice | finds them equal, and deletes it |
| after that | the file in its place | has nothing to do |
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import IO

from pyarrow.fs import FileSelector, FileType, S3FileSystem, resolve_s3_region

from spark_jobs.pipeline.flow.sinks.local_files import SUCCESS

_URL = re.compile(r"s3[an]?://(?P<bucket>[^/]+)/*(?P<key>.*)", re.DOTALL)
OPTIONS = ("access_key", "secret_key", "session_token", "region", "endpoint_override", "scheme")
"""The options that Arrow's file system has for it. Without keys, it looks where AWS's tools do."""


def is_s3(path: str) -> bool:
    """Whether a path names something in a bucket."""
    return _URL.fullmatch(path) is not None


class S3Files:
    """Copies a folder, and deletes the hidden one."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Ask nothing yet."""
        self._options = tuple(options.items())

    def write(self, folder: str, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a folder with one file. It replaces that of an attempt that has failed."""
        system, path = self._find(folder)
        with system.open_output_stream(f"{path}/{name}") as file:
            write(file)

    def move(self, written: str, place: str) -> None:
        """
        Move a folder.

        Raise `FileNotFoundError` if it is not there, and `FileExistsError` if the place is taken.
        """
        system, source = self._find(written)
        _, target = self._find(place)
        files = _list(system, source)
        if not files:
            raise FileNotFoundError(written)
        there = [each for each in _list(system, target) if each != SUCCESS]
        if there and not (there == files and _are_equal(system, source, target, files)):
            raise FileExistsError(place)
        for name in files:
            system.copy_file(f"{source}/{name}", f"{target}/{name}")
        with system.open_output_stream(f"{target}/{SUCCESS}"):
            pass
        system.delete_dir(source)

    def exists(self, folder: str) -> bool:
        """Whether there is a file in it."""
        return bool(_list(*self._find(folder)))

    def list_folders(self, parent: str) -> list[str]:
        """List the names of the folders in a folder; none if it is missing."""
        return _list(*self._find(parent), FileType.Directory)

    def delete(self, folder: str) -> None:
        """Delete a folder, if there is one."""
        system, path = self._find(folder)
        if system.get_file_info(path).type is not FileType.NotFound:
            system.delete_dir(path)

    def _find(self, url: str) -> tuple[S3FileSystem, str]:
        """Find the bucket's file system, and the path in it."""
        found = _URL.fullmatch(url)
        assert found is not None, "checked by `is_s3`"
        return _connect(found["bucket"], self._options), f"{found['bucket']}/{found['key']}"


@functools.cache
def _connect(bucket: str, options: tuple[tuple[str, str], ...]) -> S3FileSystem:
    given = dict(options)
    if not given.keys() & {"region", "endpoint_override"}:
        given["region"] = resolve_s3_region(bucket)
    return S3FileSystem(**given)


def _list(system: S3FileSystem, folder: str, kind: FileType = FileType.File) -> list[str]:
    found = system.get_file_info(FileSelector(folder, allow_not_found=True))
    return sorted(each.base_name for each in found if each.type is kind)


def _are_equal(system: S3FileSystem, source: str, target: str, names: list[str]) -> bool:
    return all(
        _read(system, f"{source}/{name}") == _read(system, f"{target}/{name}") for name in names
    )


def _read(system: S3FileSystem, path: str) -> bytes:
    with system.open_input_stream(path) as file:
        return bytes(file.read())
