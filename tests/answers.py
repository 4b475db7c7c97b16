"""
A relay in front of a real cluster that can change what brokers answer.

`with Answers("127.0.0.1:9876") as answers` runs a name server at `answers.address`. Its routes lead
to relays in front of the real brokers, so all requests of a client pass through here. It serves any
number of connections, also from other processes. Nothing is changed until a rule says so:

    answers.after = lambda asked, answer: said(answer, 20, "MESSAGE_WAS_REMOVING", next_offset=40)

`after` gets each answer of a broker, and returns the answer that the client gets instead; None
means that the client gets no answer. `before` can answer a request itself; the broker then never
sees that request. The threads of the relays call the rules one at a time.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mq_client import frames, lenient_json
from mq_client.commands.cluster import GetCluster, GetRoute
from mq_client.commands.pulling import Pull
from mq_client.frames import Frame
from mq_client.values import MessageQueue
from tests.proxy import Proxy, Take


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the broker that it is for."""

    frame: Frame
    broker: str
    broker_id: int

    @property
    def is_pull(self) -> bool:
        """Whether the request asks for messages."""
        return self.frame.code == Pull.code

    @property
    def queue(self) -> MessageQueue:
        """Return the queue of a pull, or of another request about a queue."""
        fields = self.frame.fields
        return MessageQueue(fields["topic"], self.broker, int(fields["queueId"]))

    @property
    def offset(self) -> int:
        """Return the offset at which a pull begins."""
        return int(self.frame.fields["queueOffset"])


Before = Callable[[Asked], Frame | None]
After = Callable[[Asked, Frame], Frame | None]

_NUMBERS = {
    "next_offset": "nextBeginOffset",
    "min_offset": "minOffset",
    "max_offset": "maxOffset",
    "broker_id": "suggestWhichBrokerId",
}


def said(
    answer: Frame,
    code: int | None = None,
    remark: str | None = None,
    body: bytes | None = None,
    **numbers: int,
) -> Frame:
    """
    Change a pull's answer. Omitted values stay as they are; an empty remark removes the remark.

    Numbers: next_offset, min_offset, max_offset, and broker_id (where to pull next).
    """
    changed = {_NUMBERS[name]: str(number) for name, number in numbers.items()}
    return replace(
        answer,
        code=answer.code if code is None else code,
        remark=answer.remark if remark is None else remark or None,
        body=answer.body if body is None else body,
        fields={**answer.fields, **changed},
    )


def answer_to(asked: Asked, code: int, remark: str, **numbers: int) -> Frame:
    """Make the answer to a pull without asking the broker. Omitted numbers are 0."""
    nothing = dict.fromkeys(_NUMBERS.values(), "0")
    empty = Frame(code, asked.frame.opaque, frames.ANSWER, nothing)
    return said(empty, None, remark, None, **numbers)


class Answers(Proxy):
    """The relay of the name server. It starts a relay for each broker that its answers name."""

    def __init__(self, name_server: str) -> None:
        super().__init__(name_server)
        self.before: Before = lambda _: None
        self.after: After = lambda _, answer: answer
        self.pulls: list[tuple[MessageQueue, int]] = []
        """The queue and offset of each pull, in the order in which they came."""
        self.lock = threading.Lock()
        """Held while a rule is called."""
        self._failures: list[Exception] = []
        self._brokers: dict[str, _BrokerRelay] = {}

    def __exit__(self, *about: object) -> None:
        """End all relays. If nothing else has failed, raise the error of a rule that failed."""
        super().__exit__(*about)
        for relay in self._brokers.values():
            relay.__exit__(*about)
        if self._failures and about[0] is None:
            raise self._failures[0]

    def broker(self, name: str, broker_id: int = 0) -> Proxy:
        """Find a broker's relay. A client must already have received the broker's address."""
        return next(
            relay
            for relay in self._brokers.values()
            if (relay.broker, relay.broker_id) == (name, broker_id)
        )

    def by_rule(self, rule: Callable[[], Frame | None]) -> Frame | None:
        """Call a rule; if it fails, the client gets no answer."""
        with self.lock:
            try:
                return rule()
            except Exception as error:  # noqa: BLE001  # it belongs to the test
                self._failures.append(error)
                return None

    def _takers(
        self, to_client: asyncio.StreamWriter, to_peer: asyncio.StreamWriter
    ) -> tuple[Take, Take]:
        conversation = _Conversation(lambda _: None, self._lead_here)
        return conversation.takers(to_client, to_peer)

    def _lead_here(self, asked: Frame, answer: Frame) -> Frame:
        """Replace the addresses of brokers in an answer by those of their relays."""
        if answer.code or asked.code not in (GetRoute.code, GetCluster.code):
            return answer
        told: Any = lenient_json.parse(answer.body)
        entries = told.get("brokerDatas") or list(told["brokerAddrTable"].values())
        for entry in entries:
            entry["brokerAddrs"] = {
                number: self._relay_to(entry["brokerName"], int(number), address)
                for number, address in entry["brokerAddrs"].items()
            }
        return replace(answer, body=json.dumps(told).encode())

    def _relay_to(self, broker: str, broker_id: int, address: str) -> str:
        relay = self._brokers.get(address)
        if relay is None:
            relay = self._brokers[address] = _BrokerRelay(self, broker, broker_id, address)
            relay.__enter__()
        return relay.address


class _BrokerRelay(Proxy):
    def __init__(self, answers: Answers, broker: str, broker_id: int, address: str) -> None:
        super().__init__(address)
        self.broker, self.broker_id = broker, broker_id
        self._answers = answers

    def _takers(
        self, to_client: asyncio.StreamWriter, to_peer: asyncio.StreamWriter
    ) -> tuple[Take, Take]:
        return _Conversation(self._before, self._after).takers(to_client, to_peer)

    def _before(self, asked: Frame) -> Frame | None:
        what = Asked(asked, self.broker, self.broker_id)
        if what.is_pull:
            self._answers.pulls.append((what.queue, what.offset))
        return self._answers.by_rule(lambda: self._answers.before(what))

    def _after(self, asked: Frame, answer: Frame) -> Frame | None:
        what = Asked(asked, self.broker, self.broker_id)
        return self._answers.by_rule(lambda: self._answers.after(what, answer))


class _Conversation:
    """One connection: its requests in flight, and how to handle the bytes of each direction."""

    def __init__(
        self,
        before: Callable[[Frame], Frame | None],
        after: Callable[[Frame, Frame], Frame | None],
    ) -> None:
        self._before, self._after = before, after
        self._under_way: dict[int, Frame] = {}
        self._readers = (frames.FrameReader(), frames.FrameReader())

    def takers(
        self, to_client: asyncio.StreamWriter, to_peer: asyncio.StreamWriter
    ) -> tuple[Take, Take]:
        """Return the functions that take the bytes of the client, and of the peer."""

        def of_client(data: bytes) -> None:
            for frame in _frames(self._readers[0], data):
                is_question = not (frame.is_answer or frame.is_one_way)
                mine = self._before(frame) if is_question else None
                if mine is not None:
                    to_client.write(frames.encode(mine))
                    continue
                if is_question:
                    self._under_way[frame.opaque] = frame
                to_peer.write(frames.encode(frame))

        def of_peer(data: bytes) -> None:
            for frame in _frames(self._readers[1], data):
                asked = self._under_way.pop(frame.opaque, None) if frame.is_answer else None
                told = frame if asked is None else self._after(asked, frame)
                if told is not None:
                    to_client.write(frames.encode(told))

        return of_client, of_peer


def _frames(reader: frames.FrameReader, data: bytes) -> list[Frame]:
    found: list[Frame] = []
    while data:
        space = reader.get_space()
        size = min(len(space), len(data))
        space[:size] = data[:size]
        found += reader.accept(size)
        data = data[size:]
    return found
