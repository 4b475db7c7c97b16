"""The metrics of members."""

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest

from coordinator.sessions import HeldQueues
from evenkeel.members.coordination import Coordination
from evenkeel.members.metrics import MemberMetrics
from evenkeel.objects import Key

BILLING = Key("shop", "billing")
LABELS = 'name="billing",namespace="shop"'
REFUSED = "evenkeel_members_refused_requests_total"
SILENT = "evenkeel_members_silent_sessions_total"


def coordinates(held: dict[Key, HeldQueues]) -> Coordination:
    leading: Any = SimpleNamespace(count_held=lambda: held)
    return cast(Coordination, leading)


def standby() -> MemberMetrics:
    return MemberMetrics(lambda: None, lambda key: key == BILLING)


def render(metrics: MemberMetrics) -> list[str]:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode().splitlines()


def test_the_leader_shows_where_queues_are() -> None:
    leading = coordinates({BILLING: HeldQueues(3, 9, 2, 1, 4)})
    found = render(MemberMetrics(lambda: leading, lambda key: True))
    for line in (
        f"evenkeel_members_sessions{{{LABELS}}} 3.0",
        f"evenkeel_members_granted_queues{{{LABELS}}} 9.0",
        f"evenkeel_members_lent_queues{{{LABELS}}} 2.0",
        f"evenkeel_members_leaving_queues{{{LABELS}}} 1.0",
        f"evenkeel_members_waiting_queues{{{LABELS}}} 4.0",
    ):
        assert line in found


def test_refusals_are_counted_by_group_and_reason() -> None:
    metrics = standby()
    metrics.count_refusal(BILLING, "AnotherPod")
    metrics.count_refusal(BILLING, "AnotherPod")
    metrics.count_refusal(BILLING, "NotSelected")
    found = render(metrics)
    assert f'{REFUSED}{{{LABELS},reason="AnotherPod"}} 2.0' in found
    assert f'{REFUSED}{{{LABELS},reason="NotSelected"}} 1.0' in found


def test_names_of_groups_that_a_stranger_invents_make_no_series() -> None:
    metrics = standby()
    for number in range(1000):
        metrics.count_refusal(Key("shop", f"invented-{number}"), "Forbidden")
    found = [line for line in render(metrics) if line.startswith(REFUSED)]
    assert found == [f'{REFUSED}{{name="",namespace="",reason="Forbidden"}} 1000.0']


def test_sessions_that_end_by_silence_are_counted_by_group() -> None:
    metrics = standby()
    metrics.count_silence(BILLING)
    assert f"{SILENT}{{{LABELS}}} 1.0" in render(metrics)


def test_silence_has_a_series_before_the_first_one_so_that_the_increase_is_seen() -> None:
    leading = coordinates({BILLING: HeldQueues()})
    assert f"{SILENT}{{{LABELS}}} 0.0" in render(MemberMetrics(lambda: leading, lambda key: True))


def test_counters_of_a_deleted_group_go_with_it() -> None:
    known = {BILLING}
    metrics = MemberMetrics(lambda: None, known.__contains__)
    metrics.count_silence(BILLING)
    metrics.count_refusal(BILLING, "AnotherPod")
    metrics.count_refusal(Key("shop", "misspelt"), "NoSuchGroup")
    known.clear()
    found = render(metrics)
    assert not [line for line in found if LABELS in line]
    assert f'{REFUSED}{{name="",namespace="",reason="NoSuchGroup"}} 1.0' in found


def test_releases_are_counted_by_how_long_they_took() -> None:
    metrics = standby()
    metrics.measure_release(0.3)
    metrics.measure_release(7)
    found = render(metrics)
    assert 'evenkeel_members_release_seconds_bucket{le="0.1"} 0.0' in found
    assert 'evenkeel_members_release_seconds_bucket{le="0.5"} 1.0' in found
    assert 'evenkeel_members_release_seconds_bucket{le="10.0"} 2.0' in found
