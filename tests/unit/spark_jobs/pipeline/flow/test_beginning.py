"""What a flow begins with (a journal, a checkpoint of batches, or nothing), and what it skips."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mq_client.errors import NoBrokerError, UsageError
from mq_client.values import MessageQueue, Offsets
from spark_jobs import journal as offsets
from spark_jobs import options
from spark_jobs.pipeline.checkpoint.journal import (
    CheckpointState,
    JobJournal,
    JournalTakenError,
    Pending,
    PlannedBatch,
)
from spark_jobs.pipeline.checkpoint.stores import LocalStore
from spark_jobs.pipeline.flow.beginning import FlowBeginner, FlowBeginning
from spark_jobs.pipeline.flow.sinks.files import FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from spark_jobs.planning import SeenOffsets
from tests.flows import FakeJournal, write_sparks_logs

A, B, OTHER = (
    MessageQueue("orders", "broker-a", 0),
    MessageQueue("orders", "broker-b", 0),
    MessageQueue("bills", "broker-a", 0),
)
NOW = Offsets(5, 30, 0)


@dataclass
class FakeBrokers:
    """Answers with these ends. The brokers in `silent` do not answer."""

    ends: Mapping[MessageQueue, Offsets]
    silent: frozenset[str] = frozenset()

    def find_all(self) -> dict[MessageQueue, int]:
        return {queue: each.max for queue, each in self.ends.items()}

    def find_others(self, known: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {queue: each.min for queue, each in self.ends.items() if queue not in known}

    def observe(self, known: Mapping[MessageQueue, int]) -> SeenOffsets:
        assert OTHER not in known, "a topic that is not read is not asked for"
        answering = {q for q in known.keys() | self.ends.keys() if q.broker not in self.silent}
        return SeenOffsets(
            {queue: each for queue, each in self.ends.items() if queue in answering},
            frozenset((queue.topic, queue.broker) for queue in answering),
            dict.fromkeys(self.silent, NoBrokerError("down")),
        )


def make_state(ends: Mapping[MessageQueue, int], **changed: Any) -> CheckpointState:
    parts = {"query": "q", "group": "billing", "epoch": 3, "batch": 7, **changed}
    return CheckpointState(offsets=offsets.write_offsets(ends), **parts)


def begin(
    folder: Path, journal: FakeJournal | JobJournal, brokers: FakeBrokers, *, skip: str = "",
    loses: bool = False, is_scheduled: bool = False, is_popping: bool = False,
) -> FlowBeginning:  # fmt: skip
    source = {"nameServers": "n:1", "topics": "orders", "group": "billing"}
    reading = options.parse_reading(
        {**source, "failOnDataLoss": str(not loses).lower()}, is_stream=True
    )
    entries: Any = journal
    asked: Any = brokers

    def open_sinks(query: str, term: int) -> SeparateSinks:
        return SeparateSinks(FileSink(SinkFolders(str(folder), query, term), "json"))

    return FlowBeginner(
        entries, asked, reading, open_sinks, skip, is_scheduled, is_popping=is_popping
    ).begin()


def test_a_new_flow_begins_where_the_brokers_say_and_writes_it_down(tmp_path: Path) -> None:
    journal = FakeJournal()
    found = begin(tmp_path, journal, FakeBrokers({A: NOW}))
    assert journal.entries == [found.state]
    assert offsets.read_offsets(found.state.offsets) == {A: 30}
    again = begin(tmp_path, journal, FakeBrokers({A: Offsets(5, 99, 0)}))
    assert again.state == found.state, "brokers are not asked again"


def test_a_flow_that_pops_has_no_offsets_and_forgets_those_of_another_balance(
    tmp_path: Path,
) -> None:
    """The positions at the brokers count. Old offsets would be sent to them."""
    journal = FakeJournal()
    unused: Any = None
    found = begin(tmp_path, journal, unused, is_popping=True)
    assert (found.state.offsets, journal.entries) == ({}, [found.state])
    before = make_state({A: 10}, aside=offsets.write_offsets({B: 3}))
    later = begin(tmp_path, FakeJournal([before]), unused, is_popping=True)
    assert (later.state.offsets, later.state.aside, later.state.batch) == ({}, {}, 7)


def test_folders_that_a_driver_has_left_are_moved_first(tmp_path: Path) -> None:
    folders = SinkFolders(str(tmp_path), "q", 1)
    hidden = folders.name_hidden("session", 1)
    Path(hidden).mkdir(parents=True)
    pending = folders.plan_move(hidden, 7)
    begin(tmp_path, FakeJournal([make_state({A: 10}, pending=[pending])]), FakeBrokers({A: NOW}))
    assert Path(pending.place).exists()


def test_a_driver_that_was_frozen_can_commit_nothing_once_another_one_has_begun(
    tmp_path: Path,
) -> None:
    """The accepted commits of the frozen driver name folders that the new driver deletes."""
    store = LocalStore(tmp_path)
    frozen = JobJournal(store)
    frozen.append(make_state({A: 10}))
    begin(tmp_path, JobJournal(store), FakeBrokers({A: NOW}))
    with pytest.raises(JournalTakenError):
        frozen.append(make_state({A: 12}))


def test_rows_of_a_planned_batch_stay_if_another_driver_commits_it(tmp_path: Path) -> None:
    """The driver of batches was frozen, and goes on before the flow has taken the journal."""
    folder = tmp_path / "query=q/batch=8"
    folder.mkdir(parents=True)
    journal = FakeJournal([make_state({A: 10}, planned=[PlannedBatch(8, 3, "", {}, [])])])
    journal.failures = [JournalTakenError("not ours")]
    with pytest.raises(JournalTakenError):
        begin(tmp_path, journal, FakeBrokers({A: NOW}))
    assert folder.exists()
    begin(tmp_path, journal, FakeBrokers({A: NOW}))
    assert not folder.exists()


def test_a_flow_uses_no_number_of_a_batch_of_any_lane(tmp_path: Path) -> None:
    """Batches 7 and 9 of two lanes are planned, and batch 8 is committed: its rows stay."""
    folders = [tmp_path / f"query=q/batch={number}" for number in (7, 8, 9)]
    for folder in folders:
        folder.mkdir(parents=True)
    planned = [PlannedBatch(number, 3, "", {}, [], lane=number % 4) for number in (9, 7)]
    journal = FakeJournal([make_state({A: 10}, batch=8, planned=planned)])
    found = begin(tmp_path, journal, FakeBrokers({A: NOW}))
    assert (found.state.batch, found.state.planned) == (9, [])
    assert [folder.exists() for folder in folders] == [False, True, False]


def test_a_checkpoint_of_batches_is_taken_over_after_the_last_committed_batch(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / f"query=q/batch={number}" for number in (4, 5)]
    for folder in folders:
        folder.mkdir(parents=True)
    aside = {"aside": offsets.write_offsets({OTHER: 2}), "skip": "May"}
    journal = FakeJournal(
        files=write_sparks_logs("billing", {A: 10, B: 20}, {A: 12, B: 25}, **aside)
    )
    found = begin(tmp_path, journal, FakeBrokers({A: NOW}))
    assert found.state == make_state({A: 10, B: 20, OTHER: 2}, epoch=4, batch=5, skip="May")
    assert [each.batch for each in journal.entries] == [4, 5]
    assert journal.entries[-1] == found.state
    assert [folder.exists() for folder in folders] == [True, False], "its rows are read again"
    assert all(name.startswith("taken-over/") for name in journal.files)


def test_a_new_value_of_skip_moves_the_queues_past_their_losses_once(tmp_path: Path) -> None:
    journal = FakeJournal([make_state({A: 1, B: 40, OTHER: 2}, pending=[Pending("w", "p")])])
    brokers = FakeBrokers({A: NOW, B: NOW})
    found = begin(tmp_path, journal, brokers, skip="May")
    assert found.state == make_state({A: 5, B: 30, OTHER: 2}, skip="May")
    assert journal.entries[-1] == found.state
    assert found.lost_below == {A: 30, B: 30}
    assert found.skipped is not None
    report = found.skipped.report()
    assert (report.value, report.messages) == ("May", 4)
    assert report.lost == (
        "orders@broker-a 0: 4 messages, offsets 1 to 4; orders@broker-b 0: it ends at 30, but was "
        "read up to 40: the topic was recreated, or the broker lost messages"
    )
    again = begin(tmp_path, journal, FakeBrokers({A: Offsets(9, 30, 0)}), skip="May")
    assert again == FlowBeginning(found.state), "the value is used up"


def test_a_request_to_skip_waits_until_every_broker_answers(tmp_path: Path) -> None:
    journal = FakeJournal([make_state({A: 1, B: 1})])
    with pytest.raises(NoBrokerError):
        begin(tmp_path, journal, FakeBrokers({A: NOW}, frozenset({"broker-b"})), skip="May")
    assert journal.entries[-1] == make_state({A: 1, B: 1}), "nothing is skipped"


def test_a_job_that_may_lose_messages_begins_after_its_losses(tmp_path: Path) -> None:
    journal = FakeJournal([make_state({A: 1, B: 1}, skip="May")])
    silent = frozenset({"broker-b"})
    found = begin(tmp_path, journal, FakeBrokers({A: NOW, B: NOW}, silent), skip="May", loses=True)
    assert found == FlowBeginning(make_state({A: 5, B: 1}, skip="May"))
    assert begin(tmp_path, journal, FakeBrokers({A: NOW}, silent), skip="May", loses=True) == found
    assert len(journal.entries) == 4, "the beginnings write one each, and the loss one"
    assert journal.entries[-1] == found.state, "without a loss nothing is changed"


def test_a_scheduled_run_ends_where_the_queues_end_now_and_begins_new_ones(tmp_path: Path) -> None:
    journal = FakeJournal([make_state({A: 10, OTHER: 2})])
    brokers = FakeBrokers({A: NOW, B: Offsets(7, 9, 0)})
    found = begin(tmp_path, journal, brokers, is_scheduled=True)
    assert found.until == {A: 30, B: 9}
    assert offsets.read_offsets(found.state.offsets) == {A: 10, B: 7, OTHER: 2}
    assert journal.entries[-1] == found.state
    assert begin(tmp_path, journal, brokers, is_scheduled=True) == found
    silent = FakeBrokers({A: NOW}, frozenset({A.broker}))
    with pytest.raises(NoBrokerError):
        begin(tmp_path, journal, silent, is_scheduled=True)
    assert begin(tmp_path, journal, brokers).until is None


def test_a_scheduled_run_refuses_a_queue_that_was_made_anew(tmp_path: Path) -> None:
    journal = FakeJournal([make_state({A: 99})])
    with pytest.raises(UsageError, match=r"was read up to 99, but ends at 30.*to skip"):
        begin(tmp_path, journal, FakeBrokers({A: NOW}), is_scheduled=True)
