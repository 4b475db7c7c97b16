"""Compares random groups with RocketMQ 5.4.0's own classes: no answer may differ."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lb_core import errors, pop, strategies
from lb_core.model import Queue
from sandbox import jars
from tests.peers import random_groups, rocketmq_oracle

GROUPS = 10_000
POP_REQUESTS = 3_000


def fetched(coordinate: str) -> str:
    """Return the class path, or skip the tests and say loudly what was not compared."""
    if jars.find_java() is None or jars.find_javac() is None:
        pytest.skip("NOT COMPARED WITH ROCKETMQ'S CLASSES: there is no JDK here (17 or newer)")
    try:
        return jars.fetch_classpath(coordinate)
    except jars.JarsError as error:
        pytest.skip(f"NOT COMPARED WITH ROCKETMQ'S CLASSES: no jars, {error}")


def test_every_caller_and_every_whole_group_is_answered_as_rocketmq_does(seed: int) -> None:
    rng = random.Random(seed)
    groups = [random_groups.random_group(rng) for _ in range(GROUPS)]
    found = rocketmq_oracle.answers(groups, fetched(rocketmq_oracle.CLIENT))
    differences = []
    for group, raw in zip(groups, found, strict=True):
        theirs = dict(zip(group["callers"], map(comparable, raw), strict=True))
        ours = {caller: our_answer(group, caller) for caller in group["callers"]}
        whole, expected = our_group(group), group_of(group, theirs)
        if ours != theirs or whole != expected:
            differences.append(f"{group}\n {theirs=}\n {ours=}\n {expected=}\n {whole=}")
    assert not differences, f"{len(differences)} groups differ; the first:\n{differences[0]}"


def test_the_share_rule_answers_as_the_broker_does(seed: int) -> None:
    rng = random.Random(seed)
    requests = [random_groups.random_pop_request(rng) for _ in range(POP_REQUESTS)]
    found = rocketmq_oracle.answers(requests, fetched(rocketmq_oracle.BROKER))
    differences = []
    for request, raw in zip(requests, found, strict=True):
        theirs = dict(zip(request["callers"], map(comparable, raw), strict=True))
        whole, expected = our_pop(request), group_of(request, theirs)
        if whole != expected:
            differences.append(f"{request}\n {expected=}\n {whole=}")
    assert not differences, f"{len(differences)} differ; the first:\n{differences[0]}"


def comparable(answer: Any) -> Any:
    """Convert an answer of the oracle to the form that `attempt` gives to our answers."""
    if isinstance(answer, dict):
        rows = answer["queues"]
        return rows and [tuple(row) for row in rows]
    kind, message = answer
    # The text of a NullPointerException comes from the virtual machine, not from RocketMQ.
    return (kind, "" if kind == "NullPointerException" else message)


def attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except errors.IllegalArgumentException as error:
        return (error.kind, str(error))
    except errors.NullPointerException as error:
        return (error.kind, "")


def our_answer(group: dict[str, Any], caller: str | None) -> Any:
    strategy = strategies.find_dealer(group["strategy"])
    call = strategy.deal_one
    return attempt(
        lambda: plain(call(caller, queues_of(group), group["consumers"], group["config"]))
    )


def our_group(group: dict[str, Any]) -> Any:
    deal = strategies.find_dealer(group["strategy"]).deal
    return attempt(
        lambda: {
            consumer: plain(queues)
            for consumer, queues in deal(
                queues_of(group), group["consumers"], group["config"]
            ).items()
        }
    )


def our_pop(request: dict[str, Any]) -> Any:
    return attempt(
        lambda: {
            consumer: plain(queues)
            for consumer, queues in pop.allocate(
                queues_of(request) or [],
                request["consumers"],
                request["popShareQueueNum"],
                request["strategy"],
            ).items()
        }
    )


def group_of(group: dict[str, Any], theirs: dict[str | None, Any]) -> Any:
    """
    Combine the answers of all callers: one refusal refuses the group, and null means no queues.

    If the list of consumers is empty, the caller is a consumer that is not in the list. A consumer
    without a name is refused before any other check.
    """
    members = list(dict.fromkeys(group["consumers"] or []))
    if group["strategy"] != "CONFIG":
        members = [""] if "" in members else members or ["nobody"]
    answers = {member: theirs[member] for member in members}
    refusals = [answer for answer in answers.values() if isinstance(answer, tuple)]
    refusals.sort(key=lambda refusal: refusal[1] != "currentCID is empty")
    return refusals[0] if refusals else {m: answer or [] for m, answer in answers.items()}


def queues_of(group: dict[str, Any]) -> list[Queue] | None:
    rows = group["queues"]
    return rows if rows is None else [Queue(*row) for row in rows]


def plain(queues: Sequence[Queue] | None) -> list[tuple[str, str, int]] | None:
    return None if queues is None else [(q.topic, q.broker, q.id) for q in queues]
