"""Compares what was measured with the targets, which differ between kinds of consumers."""

from collections.abc import Iterator
from operator import attrgetter

from benchmarks.handover import job, members, scene
from benchmarks.handover.rounds import Rounds
from benchmarks.targets import Figure
from sandbox.node.shop import BROKER

MEMBER_GAPS = {
    scene.JOIN: 0.5,
    scene.LEAVE: 0.5,
    scene.KILL: 1.3,
    scene.FREEZE: members.SESSION_SECONDS + 2,
    scene.CUT: members.SESSION_SECONDS + 2,
    scene.ADD: 2.0,
}
"""For members: the longest time that a queue may stand still, in seconds."""
BESIDE_SECONDS = 0.3
"""For members: the same limit for queues of the other brokers, if a broker is killed."""
DELAY_SECONDS = 0.05
"""For members: the most seconds from storing to reading, for 99 % of all messages."""
FLOW_GAPS = {
    scene.JOIN: 0.3,
    scene.LEAVE: 0.3,
    scene.KILL: 1.2,
    scene.FREEZE: 3.0,
    scene.CUT: 3.0,
    scene.ADD: 1.5,
    job.DRIVER: 20.0,
    job.DRIVER_CUT: 42.0,
}
"""For a flow: the longest time that a queue may stand still, in seconds."""
FLOW_BESIDE_SECONDS = 0.5
FLOW_DELAY_SECONDS = 0.03
JOB_GAPS = {
    scene.JOIN: 3.0,
    scene.LEAVE: 3.0,
    scene.KILL: 1.5,
    scene.FREEZE: 4.0,
    scene.CUT: 4.0,
    scene.ADD: 3.0,
    job.DRIVER: 25.0,
    job.DRIVER_CUT: 45.0,
}
"""For a job with batches: the longest time that a queue may stand still, in seconds."""
JOB_BESIDE = {scene.FREEZE: 1.5, scene.CUT: 1.5}
"""The same for the queues of other executors."""
JOB_BESIDE_SECONDS = 2.5
JOB_BROKER_SECONDS = 2.0
"""How much longer than with RocketMQ's consumer the queues of a killed broker may stand still."""
JOB_DELAY_SECONDS, JOB_MEDIAN_SECONDS = 0.9, 0.5
FEWEST_MOVES = {scene.JOIN: 2, scene.LEAVE: 2}
"""The fewest possible moves of eight queues when two consumers become three, or the reverse."""
DUPLICATES, MOVED, STANDSTILL = map(attrgetter, ("duplicates", "moved", "standstill"))


def list_job_figures(rounds: Rounds, peer: Rounds | None) -> Iterator[Figure]:
    """Compare the worst values of a job with its targets."""
    yield _lost(rounds)
    twice = rounds.find_highest(attrgetter("duplicates"))
    yield _limit(rounds, "messages read twice", twice, 0, "")
    for event in (scene.KILL, scene.FREEZE, scene.CUT, scene.BROKER, job.DRIVER):
        yield _limit(rounds, f"queues moved, {event}", rounds.worst(event, MOVED), 0, "")
    for event, fewest in FEWEST_MOVES.items():
        yield _limit(rounds, f"queues moved, {event}", rounds.worst(event, MOVED), fewest, "")
    for event, limit in JOB_GAPS.items():
        yield _gap(rounds, event, limit)
    for event, limit in JOB_BESIDE.items():
        others = rounds.worst(event, attrgetter("standstill_of_others"))
        yield _limit(rounds, f"longest gap, {event}, queues of others", others, limit, "s")
    yield _beside(rounds, JOB_BESIDE_SECONDS)
    yield _delay(rounds, JOB_DELAY_SECONDS)
    yield _delay(rounds, JOB_MEDIAN_SECONDS, "median_delay", "50 %")
    if peer:
        limit = peer.worst(scene.BROKER, STANDSTILL) + JOB_BROKER_SECONDS
        yield _gap(rounds, scene.BROKER, limit)


def list_flow_figures(rounds: Rounds, peer: Rounds | None) -> Iterator[Figure]:
    """Compare the worst values of a flow with its targets."""
    yield _lost(rounds)
    twice = rounds.find_highest(attrgetter("duplicates"))
    yield _limit(rounds, "messages read twice", twice, 0, "")
    for event, limit in FLOW_GAPS.items():
        yield _gap(rounds, event, limit)
    yield _beside(rounds, FLOW_BESIDE_SECONDS)
    yield _delay(rounds, FLOW_DELAY_SECONDS)
    if peer:
        still = [side.worst(scene.BROKER, STANDSTILL) for side in (rounds, peer)]
        name = f"{rounds.name}: longest gap, {scene.BROKER} / {peer.name}"
        yield Figure(name, still[0], still[1], 1.0, "s", at_least=False)


def list_member_figures(rounds: Rounds, in_flight: int) -> Iterator[Figure]:
    """Compare the worst values of members; a frozen member may repeat `in_flight` messages."""
    yield _lost(rounds)
    for event in (scene.QUIET, scene.JOIN, scene.LEAVE, scene.ADD):
        yield _twice(rounds, event, 0)
    for event in (scene.THAW, scene.HEAL):
        yield _twice(rounds, event, in_flight)
    for event, limit in MEMBER_GAPS.items():
        yield _gap(rounds, event, limit)
    yield _beside(rounds, BESIDE_SECONDS)
    yield _delay(rounds, DELAY_SECONDS)


def _lost(rounds: Rounds) -> Figure:
    return _limit(rounds, "messages lost", rounds.find_highest(attrgetter("lost")), 0, "")


def _beside(rounds: Rounds, limit: float) -> Figure:
    beside = rounds.worst(scene.BROKER, lambda it: it.find_standstill_beside(BROKER))
    return _limit(rounds, f"longest gap, {scene.BROKER}, queues of others", beside, limit, "s")


def _delay(rounds: Rounds, limit: float, value: str = "delay", share: str = "99 %") -> Figure:
    delay = rounds.find_worst(scene.QUIET, attrgetter(value))
    assert delay is not None, "a quiet time without messages"
    return _limit(rounds, f"stored until read, {share}, {scene.QUIET}", delay, limit, "s")


def _twice(rounds: Rounds, event: str, limit: int) -> Figure:
    twice = rounds.worst(event, DUPLICATES)
    return _limit(rounds, f"messages read twice, {event}", twice, limit, "")


def _gap(rounds: Rounds, event: str, limit: float) -> Figure:
    still = rounds.worst(event, STANDSTILL)
    return _limit(rounds, f"longest gap, {event}", still, limit, "s")


def _limit(rounds: Rounds, name: str, value: float, limit: float, unit: str) -> Figure:
    return Figure(f"{rounds.name}: {name}", value, None, limit, unit, at_least=False)
