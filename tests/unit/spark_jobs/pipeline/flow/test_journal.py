"""Two drivers at one journal. tests/real/spark/test_flow_journal.py has more, with Spark."""

from pathlib import Path

import pytest

from spark_jobs.pipeline.flow.journal import KEPT, FlowJournal, JournalTakenError
from spark_jobs.pipeline.flow.stores import LocalStore
from tests.flows import at, wake_up_after_others


def test_an_equal_entry_of_another_driver_is_not_ones_own(tmp_path: Path) -> None:
    """If two drivers begin, both write the same state."""
    one, other = FlowJournal(LocalStore(tmp_path)), FlowJournal(LocalStore(tmp_path))
    one.append(at(1))
    with pytest.raises(JournalTakenError):
        other.append(at(1))


def test_a_name_that_is_free_again_is_not_given_to_a_driver_that_was_frozen(tmp_path: Path) -> None:
    frozen = wake_up_after_others(LocalStore(tmp_path))
    with pytest.raises(JournalTakenError):
        frozen.append(at(1))
    assert FlowJournal(LocalStore(tmp_path)).read_newest() == at(KEPT + 2)


def test_an_old_entry_that_cannot_be_deleted_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    journal = FlowJournal(LocalStore(tmp_path))
    monkeypatch.setattr(LocalStore, "delete", refuse)
    for number in range(KEPT + 2):
        journal.append(at(number))
    assert journal.number == KEPT + 1
