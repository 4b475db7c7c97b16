"""Assignments that are too long for a status are split into named slices and joined again."""

import random
from typing import Any

import pytest

from contract.kinds.groups import MOST_ASSIGNED, Assigned, GroupStatus, OwnedQueues
from contract.names import SLICE
from evenkeel import crds, manifests, planning
from evenkeel.cluster import assignment_slices
from evenkeel.cluster.watch.cluster_cache import ClusterCache
from evenkeel.objects import ConsumerGroup, Key

MANY = 4000


def group(assignments: list[Assigned], epoch: int = 3) -> ConsumerGroup:
    metadata = {"name": "billing", "namespace": "team", "uid": "u"}
    spec = {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}}
    found = manifests.read_group({"kind": "ConsumerGroup", "metadata": metadata, "spec": spec})
    return ConsumerGroup(found.head, found.spec, GroupStatus(epoch=epoch, assignments=assignments))


def assignments(rng: random.Random, count: int) -> list[Assigned]:
    """Make assignments of about 200 bytes each."""
    return [
        Assigned(
            f"c-{number}",
            queues=[
                OwnedQueues("t" * rng.randint(1, 60), "broker-a", str(rng.randint(0, 999)))
                for _ in range(3)
            ],
        )
        for number in range(count)
    ]


def test_what_fits_stays_in_the_status(rng: random.Random) -> None:
    found = group(assignments(rng, 100))
    assert assignment_slices.cut_assignments(found, found.status) == []
    assert assignment_slices.name_slices(found.status, []) == found.status


@pytest.mark.parametrize(("count", "is_cut"), [(1000, False), (1001, True)])
def test_more_consumers_than_a_status_takes_are_cut_however_short(
    count: int, *, is_cut: bool
) -> None:
    short = group([Assigned(f"c-{number}") for number in range(count)])
    cut = assignment_slices.cut_assignments(short, short.status)
    assert bool(cut) is is_cut
    assert [each for part in cut for each in assignment_slices.read(part) or ()] == (
        short.status.assignments if is_cut else []
    )
    limits = crds.build_definition(next(it for it in crds.KINDS if it.plural == "consumergroups"))
    assert f"'maxItems': {MOST_ASSIGNED}" in str(limits)


def test_slices_put_together_are_what_was_cut(rng: random.Random) -> None:
    found = group(assignments(rng, MANY))
    cut = assignment_slices.cut_assignments(found, found.status)
    assert len(cut) > 1
    by_key = {Key("team", each["metadata"]["name"]): assignment_slices.read(each) for each in cut}
    assert len(by_key) == len(cut)
    named = assignment_slices.name_slices(found.status, cut)
    assert not planning.is_whole(named)
    bare = ConsumerGroup(found.head, found.spec, named)
    again = assignment_slices.join_slices(bare, by_key.get)
    assert again.status.assignments == found.status.assignments
    by_key.popitem()
    assert assignment_slices.join_slices(bare, by_key.get) is bare


def test_a_slice_is_no_larger_than_it_may_be_and_never_changes(rng: random.Random) -> None:
    found = group(assignments(rng, MANY))
    for each in assignment_slices.cut_assignments(found, found.status):
        assert len(each["data"][SLICE]) < assignment_slices.MOST_BYTES + 10_000
        assert each["immutable"] is True


def test_another_content_has_another_name(rng: random.Random) -> None:
    def texts(found: ConsumerGroup) -> dict[str, str]:
        cut = assignment_slices.cut_assignments(found, found.status)
        return {each["metadata"]["name"]: each["data"][SLICE] for each in cut}

    one = assignments(rng, MANY)
    first, less = texts(group(one)), texts(group(one[1:]))
    assert first == texts(group(list(one)))
    assert first.keys() != less.keys()
    assert all(first[name] == less[name] for name in first.keys() & less.keys())
    assert not first.keys() & texts(group(one, epoch=4)).keys()


def body(document: dict[str, Any], version: int) -> dict[str, Any]:
    metadata = {**document["metadata"], "uid": f"u{version}", "resourceVersion": str(version)}
    return {**document, "metadata": metadata}


def test_a_group_is_whole_as_soon_as_its_last_slice_was_heard_of(rng: random.Random) -> None:
    found = group(assignments(rng, MANY))
    cut = assignment_slices.cut_assignments(found, found.status)
    known = ClusterCache()
    status = {"epoch": 3, "slices": [each["metadata"]["name"] for each in cut]}
    spec = {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}}
    named = {"kind": "ConsumerGroup", "metadata": {"name": "billing", "namespace": "team"}}
    known.groups.take(body({**named, "spec": spec, "status": status}, 1))
    for number, each in enumerate(cut):
        heard_of = known.find_group(found.head.key)
        assert heard_of is not None
        assert not planning.is_whole(heard_of.status)
        known.config_maps.take(body(each, number + 2))
    whole = known.find_group(found.head.key)
    assert whole is not None
    assert whole.status.assignments == found.status.assignments
    assert known.find_group(found.head.key) is whole
    assert known.list_groups() == [whole]
    assert len(known.list_slices(found.head.key)) == len(cut)


def test_a_config_map_that_is_no_slice_holds_a_report() -> None:
    known = ClusterCache()
    labels = {"evenkeel.dev/group": "billing"}
    metadata = {"name": "billing-driver", "namespace": "team", "labels": labels}
    known.config_maps.take({"metadata": metadata, "data": {"report.json": "{}"}})
    assert known.find_report(Key("team", "billing-driver")) == "{}"
    assert known.list_slices(Key("team", "billing")) == []
    assert ClusterCache().find_report(Key("team", "billing-driver")) is None
