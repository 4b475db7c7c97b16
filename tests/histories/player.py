"""Plays a history on real brokers, and checks each read as soon as it is over."""

import contextlib
import random
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mq_client import errors, filters, properties, pulling
from mq_client.blocking import Client
from mq_client.commands.cluster import DeleteTopic
from mq_client.commands.offsets import GetMinOffset
from mq_client.directory import Times
from mq_client.values import READ, WRITE, MessageQueue, TopicConfig
from sandbox.waiting import wait_for
from tests.histories import checker, story
from tests.histories.checker import End, Given, Row, Stored, World
from tests.histories.deleting import Deleting
from tests.histories.ground import ANSWER_SECONDS, Ground, ResetOffset, SendPlaced
from tests.histories.story import Delete, Event, Kind, Read, Reset, Send, Step

SHORT_SECONDS = 0.5
"""How long to wait for messages that cannot come."""
LONG_SECONDS = 60.0
_ZLIB = 1
_ENDS = {
    pulling.OffsetGoneError: End.GONE,
    pulling.BeyondEndError: End.BEYOND,
    errors.NotPermittedError: End.FORBIDDEN,
    errors.CorruptMessageError: End.BROKEN,
    errors.UnavailableError: End.UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A result that no fact explains, and how to reproduce it."""

    seed: int
    steps: Sequence[Step]
    """The steps of the history up to the read that failed."""
    given: Given
    complaints: Sequence[str]

    def __str__(self) -> str:
        """Write the whole failure."""
        steps = "\n".join(f"  {step}" for step in self.steps)
        shown = ", ".join(
            f"{name}={getattr(self.given, name)!r}"
            for name in ("start", "stop", "next", "end", "gaps", "refused", "allow_gaps", "tags")
        )
        told = "\n".join(f"  - {each}" for each in self.complaints)
        return f"history {self.seed}:\n{steps}\nread {shown}, {len(self.given.rows)} rows\n{told}"


def play(ground: Ground, deleting: Deleting, seed: int) -> Failure | None:
    """Play the history of this seed; return the first read that cannot be explained, if any."""
    with contextlib.ExitStack() as opened:
        player = _Player(ground, deleting, seed, opened)
        steps = story.make(seed)
        try:
            for number, step in enumerate(steps):
                for given in player.take(step):
                    found = checker.complaints(player.world, given)
                    if found:
                        return Failure(seed, steps[: number + 1], given, found)
        finally:
            player.mend()
    return None


class _Player:
    def __init__(
        self, ground: Ground, deleting: Deleting, seed: int, opened: contextlib.ExitStack
    ) -> None:
        self.world = World()
        self._ground = ground
        self._deleting = deleting
        self._rng = random.Random(seed)
        self._queue = MessageQueue(f"history-{seed}-{time.time_ns():x}", ground.master.name, 0)
        self._group = f"group-{self._queue.topic}"
        self._next = 0
        self._age = 0
        self._is_held = False
        self._short, self._long = (
            opened.enter_context(
                Client(
                    ground.answers.address,
                    times=Times(route_age=0, answer=ANSWER_SECONDS, patience=patience),
                )
            )
            for patience in (SHORT_SECONDS, LONG_SECONDS)
        )
        ground.put(TopicConfig(self._queue.topic, 1, 1))

    def take(self, step: Step) -> Iterator[Given]:
        """Take a step; yield the result of each read. The world changes only after its check."""
        match step:
            case Send():
                self._send(step)
            case Read():
                yield self._read(step.allow_gaps, step.tags, 0 if step.again else self._next)
            case Delete():
                yield from self._delete(step)
            case Reset(part):
                self._reset(part)
            case Event():
                self._happen(step)

    def mend(self) -> None:
        """Restore the brokers for the next history."""
        self._ground.free_slave()
        self._deleting.forget()
        if not self.world.has_master:
            self._ground.find_master(self._queue.topic)

    def _send(self, step: Send) -> None:
        topic, world = self._queue.topic, self.world
        made = [
            (f"{self._age}-{world.end + n}", self._rng.choice(story.TAGS))
            for n in range(step.count)
        ]
        requests = [
            SendPlaced(self._group, self._queue, body, _properties(tag), flag)
            for key, tag in made
            for body, flag in [_body(key, step)]
        ]
        places = self._ground.ask_all(self._ground.master.address, requests)
        found = sorted(
            (offset, Stored(key, tag, step.kind, place))
            for (offset, place), (key, tag) in zip(places, made, strict=True)
        )
        assert [offset for offset, _ in found] == list(range(world.end, world.end + step.count))
        world.stored += [stored for _, stored in found]
        assert wait_for(lambda: self._ground.end(topic), lambda end: end == world.end)
        if not self._is_held:
            self._until_slave_is_level()

    def _until_slave_is_level(self) -> None:
        topic, end = self._queue.topic, self.world.end
        found = wait_for(lambda: self._ground.slave_end(topic), lambda seen: seen == end)
        assert found == end, f"the slave of {topic} ends at {found}, not at {end}"

    def _reset(self, part: float) -> None:
        master = self._ground.master.address
        first = self._ground.ask(master, GetMinOffset(self._queue.topic, 0))
        offset = first + int(part * (self.world.end - first))
        with contextlib.suppress(errors.GroupUnknownError):  # the group has read nothing yet
            self._ground.ask(master, ResetOffset(self._group, self._queue.topic, 0, offset))

    def _happen(self, event: Event) -> None:
        ground, world, topic = self._ground, self.world, self._queue.topic
        match event:
            case Event.HOLD_SLAVE:
                self._is_held = True
                ground.hold_slave()
                world.slave_end = ground.slave_end(topic)
            case Event.FREE_SLAVE:
                self._is_held = False
                ground.free_slave()
                self._until_slave_is_level()
                world.slave_end = None
            case Event.LOSE_MASTER:
                world.has_master = False
                ground.lose_master()
            case Event.FIND_MASTER:
                world.has_master = True
                ground.find_master(topic)
            case Event.TAKE_PERMISSION:
                world.is_readable = False
                ground.put(TopicConfig(topic, 1, 1, WRITE))
            case Event.GIVE_PERMISSION:
                world.is_readable = True
                ground.put(TopicConfig(topic, 1, 1, READ | WRITE))
            case Event.MAKE_ANEW:
                for broker in ground.both:
                    # A broker without a timer wheel reports an error after it has done everything.
                    with contextlib.suppress(errors.UnexpectedError):
                        ground.ask(broker.address, DeleteTopic(topic))
                ground.put(TopicConfig(topic, 1, 1))
                self._deleting.forget()
                self._age += 1
                world.stored, world.is_readable = [], True

    def _delete(self, step: Delete) -> Iterator[Given]:
        """Read repeatedly until the deletion is over. It takes some time and several steps."""
        self._deleting.begin(self._queue.topic, self.world, self._rng)
        is_over = False
        while not is_over:
            is_over = self._deleting.is_over()
            yield self._read(step.allow_gaps, step.tags, 0)

    def _read(self, allow_gaps: bool, tags: str | None, start: int) -> Given:
        world = self.world
        given = Given(start, max(world.end, start + int(start > world.end)), allow_gaps, tags)
        world.deleted_below = self._deleting.below(world)
        is_in_vain = start > world.end or (
            not world.has_master and world.waits_for_master(start, given.stop)
        )
        seconds, client = (SHORT_SECONDS, self._short) if is_in_vain else (LONG_SECONDS, self._long)
        wanted = filters.match_tags(tags or filters.ALL)
        position = pulling.Position(self._queue, start, given.stop, wanted, allow_gaps=allow_gaps)
        pulls, began = len(self._ground.answers.pulls), time.monotonic()
        try:
            self._read_all(client, position, seconds, given)
        except errors.MqError as error:
            ends = (end for kind, end in _ENDS.items() if isinstance(error, kind))
            given.end, given.words = next(ends, End.OTHER), f"{type(error).__name__}: {error}"
        given.seconds = time.monotonic() - began
        given.pulls = len(self._ground.answers.pulls) - pulls
        given.next, given.gaps = position.next, list(position.gaps)
        # A reader continues at its checkpoint. It starts a recreated topic at the beginning.
        self._next = 0 if position.next > world.end else position.next
        world.deleted_below = self._deleting.below(world)
        return given

    def _read_all(
        self, client: Client, position: pulling.Position, seconds: float, given: Given
    ) -> None:
        reader = client.read(self._group, [position])
        while not position.is_done:
            before = position.next
            for batch in reader.poll(seconds):
                try:
                    given.rows += [
                        _row(each.queue_offset, each.body) for each in batch.to_messages()
                    ]
                except errors.CorruptMessageError:
                    given.refused.append((batch.first, batch.stop))
            if position.next == before:
                given.end = End.WAITS
                break


def _row(offset: int, body: bytes) -> Row:
    return Row(offset, str(body.partition(b" ")[0], "utf-8", "replace"))


def _body(key: str, step: Send) -> tuple[bytes, int]:
    """Make a body, and the flag that says how it is compressed."""
    plain = f"{key} ".encode() + b"x" * step.size
    match step.kind:
        case Kind.PLAIN:
            return plain, 0
        case Kind.COMPRESSED:
            return zlib.compress(plain, 1), _ZLIB
        case Kind.BROKEN:
            return plain, _ZLIB


def _properties(tag: str) -> str:
    return str(properties.encode({properties.TAGS: tag}), "utf-8")
