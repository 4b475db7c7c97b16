"""
CONSISTENT_HASH: hashes place consumers and queues on a ring; a queue's owner is the next consumer.

If consumers join or leave, only few queues move, but the loads are uneven. The ring has 2^32
places. All clients must hash the same strings, otherwise their rings would differ. For each point
of a consumer they hash `<id>-<number>`, and for a queue the result of `print_queue`. The hash is
MD5 over UTF-8.
"""

import bisect
import hashlib
from collections import Counter
from collections.abc import Sequence

from lb_core import errors
from lb_core.model import Queue
from lb_core.policy import Policy
from lb_core.strategies import common, lists
from lb_core.strategies.strategy import MOST_SINGLE_QUEUES

DEFAULT_NODES = 10
LARGEST_INT = 2**31 - 1
MOST_POINTS = 4_000_000
"""
Maximum number of points on a ring. A larger number is a mistake, such as 2,000 points for each of
10,000 consumers.
"""


def deal(
    queues: common.Queues, consumers: common.Consumers, config: common.Config
) -> common.Assignment:
    """Build the ring once, and find the owner of every queue on it."""
    nodes = count_points(config)
    queues, consumers = common.check_group(queues, consumers)
    owned: common.Assignment = {consumer: [] for consumer in consumers}
    places, owners = build_ring(consumers, nodes)
    if places:
        for queue in queues:
            owned[owners[_find_next_point(places, queue)]].append(queue)
    return owned


def deal_one(
    caller: str | None, queues: common.Queues, consumers: common.Consumers, config: common.Config
) -> list[Queue]:
    """Return the queues whose next point on the ring belongs to the caller."""
    nodes = count_points(config)
    caller, queues, consumers = common.check_call(caller, queues, consumers)
    if caller not in consumers:
        return []
    places, owners = build_ring(consumers, nodes)
    if not places:
        return []
    return [queue for queue in queues if owners[_find_next_point(places, queue)] == caller]


def build_ring(consumers: Sequence[str], nodes: int) -> tuple[list[int], list[str]]:
    """
    Return the places of all points, ascending, and the owner of each place.

    The first owner is repeated at the end, which closes the circle. If two points have the same
    place, the consumer that comes later in the list owns the place. If an id is listed again, it
    gets further points. Their numbers start at the number of points that the id still has on the
    ring.
    """
    if nodes * len(consumers) > MOST_POINTS:
        raise errors.BadRequestError(
            f"config.virtualNodes: {nodes} for each of {len(consumers)} consumers is more than "
            f"{MOST_POINTS} points"
        )
    ring: dict[int, str] = {}
    standing: Counter[str] = Counter()
    for consumer in consumers:
        first = standing[consumer]
        for number in range(first, first + nodes):
            point = find_place(f"{consumer}-{number}")
            if point in ring:
                standing[ring[point]] -= 1
            ring[point] = consumer
        standing[consumer] += nodes
    places = sorted(ring)
    owners = [ring[point] for point in places]
    return places, owners + owners[:1]


def find_place(key: str) -> int:
    """Return a key's place on the ring: the first four bytes of its MD5, big endian."""
    try:
        data = key.encode()
    except UnicodeEncodeError:
        data = _encode_as_java(key)
    return int.from_bytes(hashlib.md5(data, usedforsecurity=False).digest()[:4], "big")


def print_queue(queue: Queue) -> str:
    """Print a queue as RocketMQ's `MessageQueue.toString` does."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.id}]"


def check(config: common.Config) -> None:
    """Refuse an invalid number of points."""
    count_points(config)


def _find_next_point(places: list[int], queue: Queue) -> int:
    """Return the index of the first point at or after the queue, or the number of points."""
    return bisect.bisect_left(places, find_place(print_queue(queue)))


def _encode_as_java(text: str) -> bytes:
    """Encode as Java does: a surrogate pair is one character, a lone surrogate becomes '?'."""
    joined = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return joined.encode("utf-8", "replace")


def count_points(config: common.Config) -> int:
    """Return how many points each consumer has on the ring."""
    nodes = config.get("virtualNodes")
    if nodes is None:
        return DEFAULT_NODES
    if not isinstance(nodes, int) or isinstance(nodes, bool):
        raise common.refuse_setting("virtualNodes", "a whole number", nodes)
    if not -LARGEST_INT <= nodes <= LARGEST_INT:
        raise errors.BadRequestError("config.virtualNodes must fit RocketMQ's 32-bit integer")
    if nodes < 0:
        raise errors.IllegalArgumentException(f"illegal virtualNodeCnt :{nodes}")
    return nodes


def describe(policy: Policy) -> str:
    """Describe how queues are assigned, with the number of points."""
    return (
        "a queue belongs to the consumer that comes next on a ring of hashes; each consumer has "
        f"{count_points(policy.config)} points; loads depend on the hashes"
    )


STRATEGY = lists.make_strategy(
    common.Dealer("CONSISTENT_HASH", deal, deal_one, check, count_points=count_points),
    title="ConsistentHash",
    describe=describe,
    settings=("virtualNodes",),
    most_queues=MOST_SINGLE_QUEUES,
)
