"""What Prometheus reads of members."""

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest

from contract.following import Denial, Refusal
from coordinator.sessions import HeldQueues
from evenkeel.members.coordination import Coordination
from evenkeel.members.metrics import MemberMetrics
from evenkeel.objects import Key

BILLING = 'name="billing",namespace="shop"'


def render(metrics: MemberMetrics) -> list[str]:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode().splitlines()


def test_the_leader_shows_where_queues_are() -> None:
    held = HeldQueues(3, 9, 2, 1, 4)
    leading: Any = SimpleNamespace(count_held=lambda: {Key("shop", "billing"): held})
    found = render(MemberMetrics(lambda: cast(Coordination, leading)))
    for line in (
        f"evenkeel_members_sessions{{{BILLING}}} 3.0",
        f"evenkeel_members_granted_queues{{{BILLING}}} 9.0",
        f"evenkeel_members_lent_queues{{{BILLING}}} 2.0",
        f"evenkeel_members_leaving_queues{{{BILLING}}} 1.0",
        f"evenkeel_members_waiting_queues{{{BILLING}}} 4.0",
    ):
        assert line in found


def test_every_reason_of_a_refusal_is_there_from_the_start_so_that_increases_are_seen() -> None:
    metrics = MemberMetrics(lambda: None)
    name = "evenkeel_members_refused_requests_total"
    for reason in (*Denial, *Refusal):
        assert f'{name}{{reason="{reason.value}"}} 0.0' in render(metrics)
    metrics.count_refusal("AnotherPod")
    assert f'{name}{{reason="AnotherPod"}} 1.0' in render(metrics)


def test_releases_are_counted_by_how_long_they_took() -> None:
    metrics = MemberMetrics(lambda: None)
    metrics.measure_release(0.3)
    metrics.measure_release(7)
    found = render(metrics)
    assert 'evenkeel_members_release_seconds_bucket{le="0.1"} 0.0' in found
    assert 'evenkeel_members_release_seconds_bucket{le="0.5"} 1.0' in found
    assert 'evenkeel_members_release_seconds_bucket{le="10.0"} 2.0' in found
