"""
MACHINE_ROOM_NEARBY: another strategy deals the queues of a room to the consumers of that room.

The queues of a room without consumers are dealt to all consumers, room by room in the order of the
rooms' names. So a queue never leaves a room that has a consumer, even if that consumer is
overloaded.

The other strategy is `config["inner"]`, and reads the same settings. A queue's room is its zone; a
consumer's room is in `config["consumerZones"]`. If a room is missing there, it is the text before
the first '-' of the broker's name or the consumer's id.
"""

from collections.abc import Mapping, Sequence

from lb_core import errors, model
from lb_core.model import Queue
from lb_core.policy import Policy
from lb_core.strategies import common, consistent_hash, lists, registry
from lb_core.strategies.strategy import MOST_SINGLE_QUEUES

NAME = "MACHINE_ROOM_NEARBY"
MOST_STEPS = 4_000_000
"""
Limit of each of two sums over all rooms: the consumers (with a hash ring, the consumers' points)
to which a room is dealt, and the queues that are dealt.

Each room without consumers is dealt to all consumers, so hostile settings could cause any amount of
work.
"""
LONGEST_SHOWN = 500
"""Maximum length of a queue or an id in a message, because hostile names may be very long."""


def deal(
    queues: common.Queues, consumers: common.Consumers, settings: common.Config
) -> common.Assignment:
    """Deal each room to its consumers, then the rooms without consumers to all consumers."""
    inner = _find_inner(settings)
    queues, consumers = common.check_group(queues, consumers)
    queues_in = _group_queues(queues)
    consumers_in = _group_consumers(consumers, settings)
    owned: common.Assignment = {consumer: [] for consumer in consumers}
    steps = inner.count_points(settings) * sum(
        len(consumers_in.get(room, consumers)) for room in queues_in
    )
    _refuse_absurd(steps)
    given = 0
    for room in _order_rooms(queues_in, consumers_in):
        takers = consumers_in.get(room, consumers)
        for consumer, dealt in _deal(inner, queues_in[room], takers, settings).items():
            given += len(dealt)
            _refuse_absurd(given)
            owned[consumer] += dealt
    return owned


def deal_one(
    caller: str | None, queues: common.Queues, consumers: common.Consumers, settings: common.Config
) -> list[Queue]:
    """Ask the inner strategy for the caller's room and for each room without consumers."""
    inner = _find_inner(settings)
    caller, queues, consumers = common.check_call(caller, queues, consumers)
    if caller not in consumers:
        return []
    queues_in = _group_queues(queues)
    consumers_in = _group_consumers(consumers, settings)
    own_room = _find_room(caller, _read_zones(settings))
    owned: list[Queue] = []
    for room in _order_rooms(queues_in, consumers_in):
        if room in consumers_in and room != own_room:
            continue
        takers = consumers_in.get(room, consumers)
        dealt = inner.deal_one(caller, queues_in[room], takers, settings)
        if dealt is None:
            raise _make_null_error(inner)
        owned += dealt
    return owned


def check(settings: common.Config) -> None:
    """Refuse an inner strategy that is missing, unknown, or rejects the settings."""
    _find_inner(settings)
    _read_zones(settings)


def _refuse_absurd(steps: int) -> None:
    if steps > MOST_STEPS:
        raise errors.BadRequestError(f"{NAME}: {steps} steps to deal all rooms are too many")


def _order_rooms(queues_in: Mapping[str, object], consumers_in: Mapping[str, object]) -> list[str]:
    """
    List the rooms with consumers first, then the others by name.

    Rooms with consumers share no consumer, so the order of these rooms does not matter.
    """
    shared = [room for room in queues_in if room in consumers_in]
    return shared + model.sort_texts(room for room in queues_in if room not in consumers_in)


def _deal(
    inner: common.Dealer,
    queues: Sequence[Queue],
    consumers: Sequence[str],
    settings: common.Config,
) -> common.Assignment:
    if inner.deals_null(consumers, settings):
        raise _make_null_error(inner)
    return inner.deal(queues, consumers, settings)


def _make_null_error(inner: common.Dealer) -> errors.NullPointerException:
    return errors.NullPointerException(f"inner strategy {inner.name} gave null")


def _group_queues(queues: Sequence[Queue]) -> dict[str, list[Queue]]:
    rooms: dict[str, list[Queue]] = {}
    for queue in queues:
        room = queue.zone if queue.zone is not None else _cut_at_dash(queue.broker)
        if not room:
            raise errors.IllegalArgumentException(
                f"Machine room is null for mq {consistent_hash.print_queue(queue)[:LONGEST_SHOWN]}"
            )
        rooms.setdefault(room, []).append(queue)
    return rooms


def _group_consumers(consumers: Sequence[str], settings: common.Config) -> dict[str, list[str]]:
    zones = _read_zones(settings)
    rooms: dict[str, list[str]] = {}
    for consumer in consumers:
        room = _find_room(consumer, zones)
        if not room:
            raise errors.IllegalArgumentException(
                f"Machine room is null for consumer id {consumer[:LONGEST_SHOWN]}"
            )
        rooms.setdefault(room, []).append(consumer)
    return rooms


def _find_room(consumer: str, zones: Mapping[str, str | None]) -> str | None:
    zone = zones.get(consumer)
    return zone if zone is not None else _cut_at_dash(consumer)


def _cut_at_dash(text: str) -> str | None:
    room, dash, _ = text.partition("-")
    return room if dash else None


def _read_zones(settings: common.Config) -> Mapping[str, str | None]:
    zones = settings.get("consumerZones")
    if zones is None:
        return {}
    if not isinstance(zones, Mapping) or not all(
        isinstance(zone, str | None) for zone in zones.values()
    ):
        raise common.refuse_setting("consumerZones", "a mapping from consumers to strings", zones)
    return zones


def _find_inner(settings: common.Config) -> common.Dealer:
    name = settings.get("inner")
    if name is None:
        raise errors.NullPointerException("allocateMessageQueueStrategy is null")
    if not isinstance(name, str):
        raise common.refuse_setting("inner", "the name of a strategy", name)
    if name == NAME:  # it would call itself without end, because it reads the same settings
        raise common.refuse_setting("inner", "another strategy", name)
    inner = registry.find_dealer(name)
    inner.check(settings)
    return inner


def describe(policy: Policy) -> str:
    """Describe how queues are assigned, with the inner strategy."""
    inner = policy.config.get("inner")
    named = registry.find(inner).title if isinstance(inner, str) else ""
    return f"the queues of a room are shared by the consumers in that room, by {named}"


STRATEGY = lists.make_strategy(
    common.Dealer(NAME, deal, deal_one, check),
    title="MachineRoomNearby",
    describe=describe,
    settings=("inner",),
    most_queues=MOST_SINGLE_QUEUES,
)
