"""`evenkeel drain`: which groups have the pods, what it writes, and when the pods are empty."""

import pytest

from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup
from evenkeel_cli.facts import draining
from tests.unit.evenkeel_cli.scenes import (
    JOB,
    after,
    annotated,
    by_message,
    group,
    members,
    running,
)

PODS = after(group(), members("pod-a", "pod-b"))
OF_A_JOB = after(group(job=JOB), running(slot_0="1", slot_1="2"))
LISTED = after(group(consumers={"static": [{"id": "a"}]}), None)


def sorted_out(
    *pods: str,
    groups: tuple[ConsumerGroup, ...] = (PODS, OF_A_JOB),
    undo: bool = False,
) -> list[list[str]]:
    return [names for _, names in draining.match_pods(groups, pods, undo=undo)]


def test_each_pod_is_found_in_its_group() -> None:
    assert sorted_out("pod-b", "billing-exec-1") == [["pod-b"], ["billing-exec-1"]]


def test_a_pod_that_reads_for_two_groups_is_found_in_both() -> None:
    assert sorted_out("pod-a", groups=(PODS, PODS)) == [["pod-a"], ["pod-a"]]


def test_a_list_names_its_consumers_itself() -> None:
    assert sorted_out("a", groups=(LISTED,)) == [["a"]]


@pytest.mark.parametrize(
    ("pod", "complaint"),
    [
        (
            "nobody",
            "has a pod nobody; the pods that read are: billing-exec-1, billing-exec-2, pod-a",
        ),
        (
            "billing-driver",
            "is the driver of ConsumerGroup billing: to restart it, use the command restart",
        ),
        ("billing-0", "a slot of ConsumerGroup billing, not a pod; its pod is billing-exec-1"),
    ],
)
def test_what_is_no_pod_that_reads_is_refused_with_what_there_is(pod: str, complaint: str) -> None:
    with pytest.raises(EvenkeelError, match=complaint):
        sorted_out("pod-a", pod, groups=(PODS, OF_A_JOB))


def test_a_member_by_message_has_no_queues_to_take_away() -> None:
    with pytest.raises(EvenkeelError, match=r"balanced by message, so it has no queues: delete"):
        sorted_out("a", groups=(by_message("a"),))


def test_the_executor_that_is_gone_from_an_empty_slot_is_no_pod_that_reads() -> None:
    lost = after(OF_A_JOB, running(slot_0="1"))
    with pytest.raises(EvenkeelError, match="no group in this namespace has a pod billing-exec-2"):
        sorted_out("billing-exec-2", groups=(lost,))


def test_a_drain_of_a_pod_that_is_gone_can_be_undone() -> None:
    found = annotated(PODS, drain="gone")
    assert sorted_out("gone", groups=(found,), undo=True) == [["gone"]]
    with pytest.raises(EvenkeelError):
        sorted_out("gone", groups=(found,))


def test_names_are_added_and_those_of_pods_that_are_gone_left_out() -> None:
    found = annotated(PODS, drain="gone, pod-a")
    assert draining.make_annotation(found, ["pod-b"], {"gone"}, undo=False) == "pod-a,pod-b"
    assert draining.make_annotation(found, ["pod-a"], {"gone"}, undo=True) is None
    assert draining.make_annotation(found, ["pod-a"], set(), undo=True) == "gone"


def test_what_becomes_of_a_pod_is_said() -> None:
    assert draining.describe_effect(PODS, "pod-a", undo=False) == (
        "its 4 queues go to other consumers, and it gets no new ones"
    )
    assert draining.describe_effect(annotated(PODS, drain="pod-b"), "pod-a", undo=False).startswith(
        "now all consumers are drained, so they keep their queues"
    )
    assert draining.describe_effect(OF_A_JOB, "billing-exec-2", undo=False) == (
        "executor 2 ends after its batch, and a new one takes billing-1 with its 4 queues"
    )
    assert draining.describe_effect(PODS, "pod-a", undo=True) == "it may get queues again"
    assert draining.describe_effect(PODS, "gone", undo=True) == "it no longer exists"


def test_a_pod_is_empty_when_the_operator_has_seen_the_drain_and_it_has_no_queues() -> None:
    assert not draining.is_done(PODS, ["pod-a"], undo=False)
    drained = after(annotated(PODS, drain="pod-a"), members("pod-a", "pod-b"))
    assert draining.is_done(drained, ["pod-a"], undo=False)
    assert not draining.is_done(drained, ["pod-a"], undo=True)
    assert draining.is_done(
        after(annotated(drained), members("pod-a", "pod-b")), ["pod-a"], undo=True
    )


def test_an_executor_is_drained_when_it_fills_no_slot() -> None:
    assert not draining.is_done(OF_A_JOB, ["billing-exec-2"], undo=False)
    assert draining.is_done(after(OF_A_JOB, running(slot_0="1")), ["billing-exec-2"], undo=False)
    assert draining.is_done(
        after(OF_A_JOB, running(slot_0="1", slot_1="3")), ["billing-exec-2"], undo=False
    )


def test_why_a_drain_is_not_done_is_what_the_condition_says() -> None:
    alone = after(annotated(group(), drain="pod-a"), members("pod-a"))
    assert draining.explain_delay(alone) == "pod-a has 8 queues"
    assert draining.explain_delay(PODS).endswith("check that the operator runs")
