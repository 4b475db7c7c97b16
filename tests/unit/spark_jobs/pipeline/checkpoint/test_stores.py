"""Files of a checkpoint in a folder. tests/real/spark/test_flow_journal.py has more, with Spark."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_jobs.pipeline.checkpoint.stores import LocalStore, find_local


def test_of_many_writers_of_one_name_one_writes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.make_folder("flow")

    def create(number: int) -> bool:
        try:
            store.create("flow/0", b"%d" % number)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        wrote = list(threads.map(create, range(8)))
    assert sum(wrote) == 1
    assert store.read("flow/0") == b"%d" % wrote.index(True)
    assert store.list_names("flow") == ["0"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    store = LocalStore(tmp_path)
    store.make_folder("flow")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="full"):
            store.create("flow/0", b"one")
    assert store.list_names("flow") == []
    store.create("flow/0", b"one")
    assert store.read("flow/0") == b"one"


def test_files_and_folders_are_moved_with_their_checksums(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.make_folder("offsets")
    for name in ("metadata", ".metadata.crc", "offsets/0"):
        store.create(name, b"x")
    for name in ("metadata", "offsets", "commits"):
        store.move(name, "aside")
    assert sorted(store.list_names("aside")) == [".metadata.crc", "metadata", "offsets"]
    assert store.list_names("") == ["aside"]


def test_a_store_without_hard_links_gives_no_name_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links")

    monkeypatch.setattr(os, "link", refuse)
    store = LocalStore(tmp_path)
    store.make_folder("flow")
    store.create("flow/0", b"one")
    with pytest.raises(FileExistsError):
        store.create("flow/0", b"two")
    assert (store.read("flow/0"), store.list_names("flow")) == (b"one", ["0"])


@pytest.mark.parametrize("path", ["s3a://bucket/rows", "hdfs://host/rows", "rows"])
def test_a_path_that_pods_do_not_share_as_a_folder_is_not_one(path: str) -> None:
    assert find_local(path) is None


@pytest.mark.parametrize("path", ["/data/rows", "file:/data/rows", "file:///data/rows"])
def test_a_path_may_be_a_url(path: str) -> None:
    assert find_local(path) == Path("/data/rows")
