"""Two drivers at one journal, and older and newer entries; more in tests/real/spark."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from mq_client.errors import UsageError
from spark_jobs.pipeline.checkpoint.journal import (
    KEPT,
    JobJournal,
    JournalTakenError,
    PlannedBatch,
)
from spark_jobs.pipeline.checkpoint.stores import LocalStore
from tests.flows import at, wake_up_after_others


def test_an_equal_entry_of_another_driver_is_not_ones_own(tmp_path: Path) -> None:
    """Two drivers that begin write the same state."""
    one, other = JobJournal(LocalStore(tmp_path)), JobJournal(LocalStore(tmp_path))
    one.append(at(1))
    with pytest.raises(JournalTakenError):
        other.append(at(1))


def test_a_name_that_is_free_again_is_not_given_to_a_driver_that_was_frozen(tmp_path: Path) -> None:
    frozen = wake_up_after_others(LocalStore(tmp_path))
    with pytest.raises(JournalTakenError):
        frozen.append(at(1))
    assert JobJournal(LocalStore(tmp_path)).read_newest() == at(KEPT + 2)


def test_an_old_entry_that_cannot_be_deleted_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    journal = JobJournal(LocalStore(tmp_path))
    monkeypatch.setattr(LocalStore, "delete", refuse)
    for number in range(KEPT + 2):
        journal.append(at(number))
    assert journal.number == KEPT + 1


def test_an_image_that_does_not_know_batches_refuses_an_entry_with_one(tmp_path: Path) -> None:
    """It knows version 1 only, and would go on where the batch begins, with another number."""
    planned = [PlannedBatch(5, 1, "", {}, [])]
    for number, (state, version) in enumerate(
        [(at(1), 1), (replace(at(1), planned=planned), 2), (replace(at(1), aside={"t": {}}), 2)]
    ):
        journal = JobJournal(LocalStore(tmp_path))
        journal.read_newest()
        journal.append(state)
        assert json.loads((tmp_path / f"flow/{number}").read_bytes())["version"] == version
        assert journal.read_newest() == state


def test_an_entry_of_a_newer_image_is_refused(tmp_path: Path) -> None:
    JobJournal(LocalStore(tmp_path)).append(at(1))
    entry = tmp_path / "flow/0"
    entry.write_text(json.dumps({**json.loads(entry.read_bytes()), "version": 3, "offsets": 7}))
    with pytest.raises(UsageError, match="version 3, and this image knows none above 2"):
        JobJournal(LocalStore(tmp_path)).read_newest()
