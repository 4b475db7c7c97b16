"""What the operator reads about the end of a pod."""

from typing import Any

import pytest

from evenkeel.cluster.watch import pods

EARLY, LATE = "2026-01-01T08:00:00Z", "2026-01-01T09:00:00Z"


def ended(at: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "finishedAt": at}}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([], ""),
        ([{"state": {"running": {}}}], ""),
        ([{"state": {"running": {}}, "lastState": {}}, {"lastState": None}], ""),
        ([{"state": {"running": {}}, "lastState": ended(EARLY)}], EARLY),
        ([{"state": ended(LATE), "lastState": ended(EARLY)}], LATE),
        ([{"lastState": ended(LATE)}, {"lastState": ended(EARLY)}], EARLY),
        ([{"lastState": ended(LATE)}, {"state": {"running": {}}}], ""),
        ([{"lastState": {"terminated": {"exitCode": 1, "finishedAt": None}}}], ""),
    ],
    ids=["none", "runs", "empty", "restarted", "ended again", "two", "a sidecar", "no time"],
)
def test_all_containers_must_have_ended_since_a_process_began(
    containers: list[dict[str, Any]], expected: str
) -> None:
    status = {"phase": "Running", "containerStatuses": containers}
    body = {"metadata": {"namespace": "shop", "name": "a"}, "status": status}
    assert pods.read(body).gone_before == expected
