"""After an upgrade, drivers restart a few at a time; after a user's change, at once."""

from dataclasses import replace
from typing import Any

import pytest

from contract.names import ASKED_HASH, GROUP_LABEL, RESTART, RESTART_HASH, ROLE_LABEL
from evenkeel import manifests
from evenkeel.cluster.drivers import restart_turns
from evenkeel.cluster.drivers.restart_turns import RestartTurns
from evenkeel.cluster.manifest import pod_templates
from evenkeel.cluster.watch import driver_pods
from evenkeel.cluster.watch.cluster_cache import ClusterCache
from evenkeel.cluster.world import ClusterWorld
from evenkeel.control.jobs.states import ABSENT, DriverSeen, DriverState, Report, SlotExecutor
from evenkeel.objects import ConsumerGroup, Key

OLD, NEW = "old", "new"
TOPIC = {
    "metadata": {"name": "orders", "namespace": "shop", "uid": "8", "resourceVersion": "1"},
    "spec": {"nameServers": ["127.0.0.1:1"]},
}
AT_WORK = Report(1, {"g-0": SlotExecutor("1")})


def key(number: int) -> Key:
    return Key("shop", f"g{number}")


def driver(identity: str, state: DriverState = DriverState.RUNNING, **fields: Any) -> DriverSeen:
    return DriverSeen(state, identity, **{"report": AT_WORK, "asked": "wish", **fields})


class Cluster:
    """Ten jobs that run with the version `old`."""

    def __init__(self, at_once: int) -> None:
        self.drivers = {key(number): driver(OLD) for number in range(10)}
        self.away = dict.fromkeys(self.drivers, True)
        self.staging = RestartTurns(at_once, lambda it: self.away[it])

    def look(self) -> set[Key]:
        """List the jobs that should now run with the version `new`."""
        return {
            each
            for each, seen in self.drivers.items()
            if self.staging.choose_identity(each, NEW, "wish", seen) == NEW
        }


def test_only_so_many_restart_side_by_side_and_the_next_when_one_is_back() -> None:
    it = Cluster(at_once=3)
    first = it.look()
    assert len(first) == 3
    assert it.look() == first
    assert (it.staging.restarting, it.staging.waiting) == (3, 7)
    back = min(first)
    it.drivers[back] = driver(NEW)
    it.away[back] = False
    later = it.look()
    assert len(later - first) == 1
    assert (it.staging.restarting, it.staging.waiting) == (3, 6)


def test_jobs_that_do_not_come_back_with_the_new_image_keep_it_from_the_others() -> None:
    it = Cluster(at_once=2)
    broken = it.look()
    for each in broken:
        it.drivers[each] = driver(NEW, DriverState.STARTING, report=None)
    for _ in range(5):
        assert it.look() == broken
    assert it.staging.waiting == 8


def test_a_group_that_is_gone_gives_its_turn_to_another() -> None:
    it = Cluster(at_once=1)
    (first,) = it.look()
    del it.drivers[first]
    it.staging.forget(first)
    assert len(it.look()) == 1


@pytest.mark.parametrize(
    "seen",
    [
        ABSENT,
        driver(OLD, DriverState.STARTING, report=None),
        driver(OLD, DriverState.STOPPING),
        driver(OLD, asked="another wish"),
    ],
    ids=["absent", "starting", "stopping", "changed-by-its-user"],
)
def test_what_does_not_run_and_what_its_user_has_changed_waits_for_nobody(seen: DriverSeen) -> None:
    it = RestartTurns(1, lambda each: True)
    assert it.choose_identity(key(0), NEW, "wish", driver(OLD)) == NEW
    assert it.choose_identity(key(1), NEW, "wish", driver(OLD)) == OLD
    assert it.choose_identity(key(2), NEW, "wish", seen) == NEW


def group(name: str = "orders", **fields: Any) -> ConsumerGroup:
    return manifests.read_group(group_body(name, **fields))


def group_body(name: str, **fields: Any) -> dict[str, Any]:
    job = {"sink": {"format": "noop"}, "checkpoint": {"url": "/state"}, **fields.pop("job", {})}
    metadata = {"name": name, "namespace": "shop", "uid": "7", **fields.pop("metadata", {})}
    spec = {"topics": [{"name": "orders"}], "job": job, **fields}
    return {"metadata": {"resourceVersion": "1", **metadata}, "spec": spec}


def test_a_wish_is_another_one_when_the_driver_would_have_to_restart_for_it() -> None:
    def wish(**fields: Any) -> str:
        return restart_turns.hash_wish(group(**fields), {})

    first = wish()
    assert wish(job={"executors": 7}) == first
    assert wish(suspend=True, rebalance={"interval": "5s"}) == first
    assert wish(job={"image": "x:2"}) != first
    assert wish(metadata={"annotations": {RESTART: "now"}}) != first


@pytest.mark.parametrize(
    ("seen", "away"),
    [
        (driver(OLD), True),
        (driver(NEW), False),
        (driver(NEW, report=None), True),
        (ABSENT, True),
    ],
    ids=["as-before", "at-work", "no-executors-yet", "absent"],
)
def test_a_job_is_away_until_its_new_driver_has_executors(seen: DriverSeen, *, away: bool) -> None:
    assert restart_turns.is_away(group(), seen, NEW) is away


def test_who_is_not_to_run_is_not_waited_for() -> None:
    scheduled = {"mode": "Scheduled", "schedule": {"cron": "0 4 * * *"}}
    assert not restart_turns.is_away(None, driver(OLD), NEW)
    assert not restart_turns.is_away(group(suspend=True), driver(OLD), NEW)
    assert not restart_turns.is_away(group(job={"executors": 0}), driver(OLD), NEW)
    assert not restart_turns.is_away(group(job=scheduled), ABSENT, NEW)


def pod_body(name: str, identity: str, wish: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{name}-driver",
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {ROLE_LABEL: "driver", GROUP_LABEL: name},
            "annotations": {RESTART_HASH: identity, ASKED_HASH: wish},
        },
        "spec": {"containers": [{"name": "evenkeel", "image": "spark:1"}]},
        "status": {"phase": "Running"},
    }


def test_a_drivers_pod_tells_its_image_and_what_its_user_wished() -> None:
    body = pod_body("orders", OLD, "wish")
    container = pod_templates.CONTAINER
    body["spec"]["containers"] = [
        {"name": "sidecar", "image": "x"}, {"name": container, "image": "spark:1"},
    ]  # fmt: skip
    seen = driver_pods.read(body)
    assert seen is not None
    assert (seen.image, seen.asked) == ("spark:1", "wish")


def test_an_operator_with_another_image_restarts_one_job_at_a_time() -> None:
    """The real cluster code decides: the groups name no image, so they use the operator's."""
    cache = ClusterCache()
    jobs = [group(f"g{number}", group=f"g{number}") for number in range(4)]
    before = ClusterWorld(None, cache, "spark:1")  # type: ignore[arg-type]  # nothing is written
    topic = manifests.read_topic(TOPIC)
    cache.topics.take(TOPIC)
    wishes = {
        each.head.key: restart_turns.hash_wish(each, {topic.head.key: topic}) for each in jobs
    }
    for each in jobs:
        name = each.head.key.name
        cache.groups.take(group_body(name, group=name))
        cache.pods.take(pod_body(name, before.compute_identity(each), wishes[each.head.key]))
    after = ClusterWorld(None, cache, "spark:2", restarts_at_once=1)  # type: ignore[arg-type]
    old = [before.compute_identity(each) for each in jobs]
    new = [after.compute_identity(each) for each in jobs]
    assert new[0] != old[0]
    assert new[1:] == old[1:]
    changed = replace(jobs[3], head=replace(jobs[3].head, annotations={RESTART: "now"}))
    assert after.compute_identity(changed) not in (old[3], new[3])
