"""Folders of rows in a folder that all pods share."""

import contextlib
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

from spark_jobs.pipeline.checkpoint.stores import sync, sync_folder

SUCCESS = "_SUCCESS"
"""The empty file that marks a complete folder. Spark uses the same name."""


class LocalFiles:
    """Moves a folder in one step of the file system, so readers see all of its rows or none."""

    def write(self, folder: str, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a folder with one file. Both survive a power failure."""
        path = Path(folder)
        shutil.rmtree(path, ignore_errors=True)  # what a failed attempt has left
        path.mkdir(parents=True)
        with (path / name).open("wb") as file:
            write(file)
        (path / SUCCESS).touch()
        for each in (path / name, path):
            sync(each)

    def move(self, written: str, place: str) -> None:
        """
        Move a folder.

        Raise `FileNotFoundError` if the folder is missing, and `FileExistsError` if the place is
        taken.
        """
        try:
            Path(written).rename(place)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            raise FileExistsError(place) from error
        # The move must survive a power failure: the next journal entry does not name the folder.
        sync_folder(Path(place).parent)

    def exists(self, folder: str) -> bool:
        """Whether there is such a folder."""
        return Path(folder).exists()

    def list_folders(self, parent: str) -> list[str]:
        """List the names of the folders in a folder; none if it is missing."""
        try:
            return [each.name for each in Path(parent).iterdir()]
        except FileNotFoundError:
            return []

    def delete(self, folder: str) -> None:
        """Delete a folder, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
