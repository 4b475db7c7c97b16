"""Which statuses `make bench-operator` accepts as an answer, and how it counts writes."""

import msgspec
import pytest

from benchmarks.operator import report, sizes
from benchmarks.operator.told import Object, Wanted
from evenkeel.objects import Key

WANTED = Wanted(frozenset({"a", "b"}), queues=4)


def told(owners: dict[str, str], generation: int = 1) -> Object:
    assignments = [
        {"consumer": name, "queues": [{"topic": "orders", "broker": "broker-a", "ids": ids}]}
        for name, ids in owners.items()
    ]
    metadata = {"name": "billing", "resourceVersion": "7", "generation": generation}
    status = {"observedGeneration": 1, "assignments": assignments}
    return msgspec.convert({"metadata": metadata, "status": status}, Object)


def test_an_answer_has_the_right_owners_of_all_queues() -> None:
    assert WANTED.is_shown_by(told({"a": "0-1", "b": "2,3"}))


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param({"a": "0-3"}, id="an owner is missing"),
        pytest.param({"a": "0-1", "b": "2", "c": "3"}, id="an owner is gone"),
        pytest.param({"a": "0-1", "b": "2"}, id="a queue has no owner"),
        pytest.param({"a": "0-2", "b": "2"}, id="a queue has two owners"),
    ],
)
def test_any_other_assignment_is_no_answer(owners: dict[str, str]) -> None:
    assert not WANTED.is_shown_by(told(owners))


def test_an_answer_to_an_older_spec_is_none() -> None:
    assert not WANTED.is_shown_by(told({"a": "0-1", "b": "2,3"}, generation=2))


def test_an_object_without_a_status_is_no_answer() -> None:
    bare = msgspec.convert({"metadata": {"resourceVersion": "7", "generation": 1}}, Object)
    assert not WANTED.is_shown_by(bare)


def test_percentiles_are_values_that_were_seen() -> None:
    values = [3.0, 1.0, 2.0, 4.0]
    assert [report.percentile(values, each) for each in (1, 50, 99, 100)] == [1, 2, 4, 4]


@pytest.mark.parametrize("size", [*sizes.MANY, sizes.ONE], ids=str)
def test_every_group_reads_a_topic_of_its_own_namespace(size: sizes.Size) -> None:
    topics = set(size.topic_keys())
    for group in size.group_keys():
        assert Key(group.namespace, size.topic_of(group)) in topics
    assert len(set(size.group_keys())) == size.groups
