"""
MACHINE_ROOM: queues of the chosen rooms are dealt in blocks to all consumers.

The name of a broker contains its room: `room@name`. The rooms of consumers do not matter. Blocks
have equal sizes; the rest at the end of the list goes to the first consumers, one queue each. For
example, 8 queues over 3 consumers become 0 1 6, 2 3 7 and 4 5.
"""

from collections.abc import Sequence, Set

from lb_core import errors
from lb_core.model import Queue
from lb_core.policy import Policy
from lb_core.strategies import common, lists


def deal(
    queues: common.Queues, consumers: common.Consumers, config: common.Config
) -> common.Assignment:
    """Deal the queues of the chosen rooms; queues of other rooms stay without an owner."""
    rooms = _read_rooms(config)
    queues, consumers = common.check_group(queues, consumers)
    inside = _pick_inside(queues, rooms)
    share, extra = divmod(len(inside), len(consumers))
    return {
        consumer: _cut_share(inside, share, extra, position)
        for consumer, position in common.find_first_positions(consumers).items()
    }


def deal_one(
    caller: str | None, queues: common.Queues, consumers: common.Consumers, config: common.Config
) -> list[Queue]:
    """Return the caller's block, and its queue from the rest."""
    rooms = _read_rooms(config)
    caller, queues, consumers = common.check_call(caller, queues, consumers)
    if caller not in consumers:
        return []
    inside = _pick_inside(queues, rooms)
    share, extra = divmod(len(inside), len(consumers))
    return _cut_share(inside, share, extra, consumers.index(caller))


def find_room(broker: str) -> str | None:
    """
    Return the text before the '@' if the name has exactly two parts, otherwise None.

    Parts are counted as by Java's `split`, which drops empty parts at the end: `r@b@` has two
    parts, `r@` has one, `r@b@c` has three, and `@b` is in the room with the empty name.
    """
    parts = broker.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def check(config: common.Config) -> None:
    """Refuse rooms that are not a list of strings."""
    _read_rooms(config)


def _pick_inside(queues: Sequence[Queue], rooms: Set[str] | None) -> list[Queue]:
    inside = []
    for queue in queues:
        room = find_room(queue.broker)
        if room is None:
            continue
        if rooms is None:  # RocketMQ's class fails only here, at its first use of the missing set
            raise errors.NullPointerException("config.rooms was never set")
        if room in rooms:
            inside.append(queue)
    return inside


def _cut_share(inside: list[Queue], share: int, extra: int, position: int) -> list[Queue]:
    start = position * share
    tail = len(inside) - extra + position  # beyond the end, except for the first `extra` consumers
    return inside[start : start + share] + inside[tail : tail + 1]


def _read_rooms(config: common.Config) -> Set[str] | None:
    rooms = config.get("rooms")
    if rooms is None:
        return None
    if not isinstance(rooms, list | tuple | Set) or not all(isinstance(r, str) for r in rooms):
        raise common.refuse_setting("rooms", "a list of strings", rooms)
    return frozenset(rooms)


def describe(policy: Policy) -> str:
    """Describe how queues are assigned, with the rooms."""
    rooms = policy.config.get("rooms")
    named = ", ".join(rooms) if isinstance(rooms, list | tuple) else ""
    return f"only queues of the rooms {named} are shared out"


STRATEGY = lists.make_strategy(
    common.Dealer("MACHINE_ROOM", deal, deal_one, check),
    title="MachineRoom",
    describe=describe,
    settings=("rooms",),
)
