"""Answers a flow from a list of answers; the clock moves only when the flow pauses."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from mq_client.commands.cluster import GetRoute
from mq_client.directory import Directory, Times
from mq_client.flows import Ask, AskAll, Flow, Pause
from mq_client.machine import Machine
from mq_client.values import Route

Value = TypeVar("Value")


class Played(NamedTuple, Generic[Value]):
    """What a flow returned, which servers it asked, and how long it paused."""

    value: Value
    asked: list[str]
    pauses: list[float]


class Stage:
    """A directory with one name server, `ns:1`."""

    def __init__(self, **times: float) -> None:
        self.seconds = 0.0
        self.requests: list[Any] = []
        """The requests of all flows so far."""
        machine = Machine(lambda: self.seconds, lambda: 0, lambda: "KEY")
        self.directory = Directory("ns:1", machine, Times(**times))

    def play(self, flow: Flow[Value], script: Sequence[Any]) -> Played[Value]:
        """Give the answers in turn; raise those that are errors. The flow must use all answers."""
        answers = list(script)
        asked: list[str] = []
        pauses: list[float] = []
        outcome: Any = None
        while True:
            try:
                step = flow.throw(outcome) if isinstance(outcome, Exception) else flow.send(outcome)
            except StopIteration as stop:
                assert not answers, f"never asked for: {answers}"
                return Played(stop.value, asked, pauses)
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                self.seconds += step.seconds
                outcome = None
                continue
            if isinstance(step, AskAll):
                asked += [ask.address for ask in step.asks]
                self.requests += [ask.request for ask in step.asks]
                outcome = [answers.pop(0) for _ in step.asks]
                continue
            assert isinstance(step, Ask)
            asked.append(step.address)
            self.requests.append(step.request)
            outcome = answers.pop(0)
            is_route = isinstance(step.request, GetRoute)
            assert is_route == isinstance(outcome, Route) or isinstance(outcome, Exception)
