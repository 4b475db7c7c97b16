"""
The files of a checkpoint, on any file system that Spark reaches.

Spark needs some 20 short processes for one file in a folder of this machine, which takes 50 to 250
ms while executors start, and queues that move wait for it. So Python writes there by itself.
"""

import contextlib
import errno
import os
import uuid
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
"""The setting with which users choose how Spark writes files of checkpoints."""
_UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""What a file system answers that cannot do something at all."""


class CheckpointStore(Protocol):
    """Small files below the checkpoint's location. Each name is relative to that."""

    @property
    def location(self) -> str:
        """Name the location for people."""

    def list_names(self, folder: str) -> list[str]:
        """List the files of a folder; none if there is no folder."""

    def read(self, name: str) -> bytes:
        """Read a file. Raise a `FileNotFoundError` if there is none with this name."""

    def make_folder(self, name: str) -> None:
        """Make a folder, unless it exists."""

    def create(self, name: str, text: bytes) -> None:
        """
        Write a file that lasts, whole or not at all.

        Raise a `FileExistsError` if there is one with this name, whoever has written it.
        """

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def move(self, name: str, folder: str) -> None:
        """Move a file or folder into a folder, if it exists."""


def open_store(context: SparkContext, checkpoint: str) -> CheckpointStore:
    """Open the store of a checkpoint. Touch nothing yet."""
    local = find_local(checkpoint)
    is_users_choice = context.getConf().get(MANAGER) is not None
    if local is None or is_users_choice or not _is_local(context, checkpoint):
        return HadoopStore(context, checkpoint)
    return LocalStore(local)


def _is_local(context: SparkContext, checkpoint: str) -> bool:
    """Whether Spark too would look on this machine: a plain path may be in another file system."""
    jvm: Any = context._jvm
    path = jvm.org.apache.hadoop.fs.Path(checkpoint)
    scheme = path.getFileSystem(context._jsc.hadoopConfiguration()).getUri().getScheme()
    return bool(scheme == "file")


def find_local(path: str) -> Path | None:
    """Return the folder of a path or URL; None if it is not a path of a file system."""
    plain = path.removeprefix("file:") if path.startswith("file:/") else path
    return Path("/", plain.lstrip("/")) if plain.startswith("/") else None


class HadoopStore:
    """Writes by Spark's own manager of checkpoint files."""

    def __init__(self, context: SparkContext, checkpoint: str) -> None:
        """Touch nothing yet."""
        jvm: Any = context._jvm
        self._jvm = jvm
        self.location = checkpoint.rstrip("/")
        settings = jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
        if manager := context.getConf().get(MANAGER):
            settings.set(MANAGER, manager)
        managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self._manager = managers.create(self._make_path(""), settings)
        self._settings = settings

    def list_names(self, folder: str) -> list[str]:
        """List the files of a folder; none if there is no folder."""
        path = self._make_path(folder)
        if not self._manager.exists(path):
            return []
        return [each.getPath().getName() for each in self._manager.list(path)]

    def read(self, name: str) -> bytes:
        """Read a file."""
        path = self._make_path(name)
        if not self._manager.exists(path):
            raise FileNotFoundError(f"{self.location}/{name}")
        stream = self._manager.open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def make_folder(self, name: str) -> None:
        """Make a folder, unless it exists."""
        self._manager.mkdirs(self._make_path(name))

    def create(self, name: str, text: bytes) -> None:
        """Write a file that lasts, whole or not at all."""
        try:
            stream = self._manager.createAtomic(self._make_path(name), False)
            try:
                stream.write(bytearray(text))
                stream.hsync()
            except BaseException:
                stream.cancel()
                raise
            stream.close()
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in str(error.java_exception):
                raise
            raise FileExistsError(f"{self.location}/{name}") from error

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        self._manager.delete(self._make_path(name))

    def move(self, name: str, folder: str) -> None:
        """Move a file or folder into a folder, if it exists."""
        source = self._make_path(name)
        system = source.getFileSystem(self._settings)
        if not system.exists(source):
            return
        system.mkdirs(self._make_path(folder))
        if not system.rename(source, self._make_path(f"{folder}/{name}")):
            raise OSError(f"{self.location}/{name} cannot be moved to {folder}")

    def _make_path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location}/{name}")


class LocalStore:
    """Writes into a folder of this machine."""

    def __init__(self, root: Path) -> None:
        """Touch nothing yet."""
        self._root = root
        self.location = str(root)

    def list_names(self, folder: str) -> list[str]:
        """List the files of a folder; none if there is no folder."""
        try:
            return [each.name for each in (self._root / folder).iterdir()]
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """Read a file."""
        return (self._root / name).read_bytes()

    def make_folder(self, name: str) -> None:
        """Make a folder, unless it exists."""
        (self._root / name).mkdir(parents=True, exist_ok=True)

    def create(self, name: str, text: bytes) -> None:
        """Write a file that lasts, whole or not at all."""
        path = self._root / name
        written = path.with_name(f".{path.name}.{uuid.uuid4()}")
        try:
            with written.open("xb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            _publish(written, path)
        finally:
            written.unlink(missing_ok=True)
        sync_folder(path.parent)

    def delete(self, name: str) -> None:
        """Delete a file, if it exists, and the checksum that Hadoop may have written for it."""
        path = self._root / name
        for each in (path, path.with_name(f".{path.name}.crc")):
            each.unlink(missing_ok=True)

    def move(self, name: str, folder: str) -> None:
        """Move a file or folder into a folder, if it exists, with Hadoop's checksum."""
        for each in (f".{name}.crc", name):
            with contextlib.suppress(FileNotFoundError):
                (self._root / each).stat()
                self.make_folder(folder)
                (self._root / each).rename(self._root / folder / each)


def _publish(written: Path, path: Path) -> None:
    """Give a file its name. Of two drivers that do so at the same time, one gets an error."""
    try:
        os.link(written, path)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # A file system without hard links: the look and the rename are two steps here.
        if path.exists():
            raise FileExistsError(str(path)) from None
        written.rename(path)


def sync_folder(folder: Path) -> None:
    """Let what has happened in a folder last, where the file system can do that."""
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def sync(path: Path) -> None:
    """Let a file or folder last."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
