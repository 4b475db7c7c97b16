"""Which pods of a namespace may be members of a group."""

from typing import Any

import msgspec
import pytest

from contract.following import Denial
from contract.kinds.groups import GroupSpec, GroupStatus
from evenkeel.cluster.members import pod_door
from evenkeel.cluster.members.token_reviews import PodIdentity
from evenkeel.cluster.watch import pods
from evenkeel.cluster.watch.pods import Pod
from evenkeel.members.doors import DeniedError
from evenkeel.objects import ConsumerGroup, Head, Key

WHO = PodIdentity("shop", "billing-a", "uid-1")
GROUP = Key("shop", "billing")


def group(selector: object = {"matchLabels": {"app": "billing"}}) -> ConsumerGroup:
    members = {"selector": selector} if selector else {}
    spec: dict[str, Any] = {"topics": [{"name": "orders"}], "consumers": {"members": members}}
    return ConsumerGroup(Head(GROUP), msgspec.convert(spec, GroupSpec), GroupStatus())


def pod(app: str = "billing", uid: str = "uid-1", phase: str = "Running") -> Pod:
    labels = {"app": app, "tier": "back"}
    metadata = {"namespace": "shop", "name": "billing-a", "uid": uid, "labels": labels}
    return pods.read({"metadata": metadata, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("key", "member", "expected"),
    [
        (Key("other", "billing"), "billing-a", Denial.ANOTHER_NAMESPACE),
        (Key("other", "billing"), "billing-b", Denial.ANOTHER_NAMESPACE),
        (GROUP, "billing-b", Denial.ANOTHER_POD),
    ],
)
def test_the_path_must_be_that_of_the_tokens_pod(key: Key, member: str, expected: Denial) -> None:
    with pytest.raises(DeniedError) as error:
        pod_door.refuse_others(WHO, key, member)
    assert error.value.denial is expected


@pytest.mark.parametrize(
    ("its_group", "its_pod", "expected"),
    [
        (group(), None, Denial.POD_UNSEEN),
        (group(), pod(uid="uid-2"), Denial.POD_UNSEEN),
        (group(), pod(phase="Failed"), Denial.POD_UNSEEN),
        (group(), pod("shipping"), Denial.NOT_SELECTED),
        (group(selector=None), pod(), Denial.NOT_SELECTED),
    ],
    ids=["unseen", "an older one was seen", "ended", "another label", "no selector"],
)
def test_a_pod_that_the_group_does_not_select_is_refused(
    its_group: ConsumerGroup, its_pod: Pod | None, expected: Denial
) -> None:
    with pytest.raises(DeniedError) as error:
        pod_door.refuse_unselected(WHO, its_group, its_pod)
    assert error.value.denial is expected


def test_the_selected_pod_is_admitted_and_may_have_more_labels() -> None:
    pod_door.refuse_others(WHO, GROUP, "billing-a")
    pod_door.refuse_unselected(WHO, group(), pod())
