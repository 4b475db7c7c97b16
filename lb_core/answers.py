"""
Answer the requests of `python -m lb_core`.

`plan` answers requests for STICKY. RocketMQ's strategies get the lists of a request in the given
order. Requests for message-granular mode are answered by the share rule in `pop`.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from lb_core import errors, misspelt, model, plan, policy, pop, request, strategies
from lb_core.inventory import SPAN
from lb_core.model import Member, Queue, quote, shorten
from lb_core.request import Fields, RawConsumer, RawQueue

Clock = Callable[[], float]
"""Returns a time in seconds. Only differences between two times matter."""
Answer = dict[str, object]

LARGEST_ANSWER = 2_000_000
"""Maximum number of entries in an answer. An answer is large if every consumer gets every queue."""


def answer(line: bytes, clock: Clock) -> str:
    """Answer one line of input with one line of ASCII, even if the input is invalid."""
    try:
        found = _answer(request.parse(line), clock)
    except errors.AllocationError as error:
        found = {"error": {"kind": error.kind, "message": str(error)}}
    except Exception as error:  # noqa: BLE001 - the caller waits for an answer
        found = {"error": {"kind": "Internal", "message": f"a bug in lb_core: {error!r:.500}"}}
    return json.dumps(found)


def _answer(fields: Fields, clock: Clock) -> Answer:
    misspelt.check_request(fields)
    if "popShareQueueNum" in fields:
        return _share_queues(fields)
    began = clock()
    name = fields.get("strategy")
    if not isinstance(name, str):
        raise errors.BadRequestError(f"strategy: {quote(name)} is not the name of a strategy")
    strategy = strategies.find(name)
    if strategy.dealer is None:
        return _plan(strategy.name, fields, began, clock)
    return _ask_dealer(strategy.dealer, fields, began, clock)


def _plan(strategy: str, fields: Fields, began: float, clock: Clock) -> Answer:
    """Answer a request with a plan. The answer names queues by their indices in the request."""
    config = request.read_config(fields)
    draining = set(request.read_texts(config, "draining"))
    consumers = request.read_consumers(fields)
    members = [Member(*raw, draining=raw.id in draining) for raw in consumers]
    queues = request.read_queues(fields)
    wish = policy.Policy(
        strategy,
        pinned=frozenset(request.read_texts(config, "pinned")),
        zones=request.read_zones(config),
        weights=request.read_weights(config, queues),
        min_gain=request.read_min_gain(config),
        max_moves=request.read_max_moves(config),
    )
    previous = request.read_previous(fields, len(queues))
    last = {
        consumer: model.make_ranges(queues[place] for place in {*places})
        for consumer, places in previous.items()
    }
    ranges = model.make_ranges(queues)
    called = clock()
    made = plan.plan(last, ranges, members, wish)
    returned = clock()
    held, stock = made.assignment.holdings, made.assignment.inventory
    if "caller" in fields:
        mine = held.get(request.read_caller(fields) or "", ())
        return {"assignment": [_show_queue(queue) for queue in stock.list_queues(mine)]}
    index = _index_queues(made, queues)

    def list_indices(runs: Iterable[range]) -> list[int]:
        return sorted([index[number] for run in runs for number in run])

    answered: Answer = {
        "assignment": {member.id: list_indices(held[member.id]) for member in members},
        "unowned": list_indices(made.unowned.runs if made.unowned else ()),
        "moved": list_indices(run for move in made.moves if move.source for run in move.runs),
        "deferred": list_indices(run for move in made.deferred for run in move.runs),
    }
    return answered | _measure_times(began, called, returned, clock())


def _index_queues(made: plan.Plan, queues: Sequence[RawQueue]) -> dict[int, int]:
    """Map a queue's number in the plan to its index in the request."""
    bases = {
        (source.topic, source.broker, source.zone): place * SPAN
        for place, source in enumerate(made.assignment.inventory.sources)
    }
    return {
        bases[topic, broker, zone] + number: place
        for place, (topic, broker, number, zone) in enumerate(queues)
    }


def _ask_dealer(dealer: strategies.Dealer, fields: Fields, began: float, clock: Clock) -> Answer:
    """Answer by a strategy that deals lists. The strategy itself refuses null lists."""
    queues = consumers = None
    if fields.get("queues") is not None:
        queues = [Queue(*raw) for raw in request.read_queues(fields)]
    if fields.get("consumers") is not None:
        consumers = request.read_consumers(fields)
    names, working, config = _pick_working(fields, consumers)
    dealer.check(config)
    if "caller" in fields:
        return _ask_for_one(dealer, request.read_caller(fields), queues, names, working, config)
    previous = request.read_previous(fields, len(queues or ()))
    called = clock()
    dealt = dealer.deal(queues, working, config) if working or not names else {}
    returned = clock()
    _refuse_large(dealt)
    owned = _find_places(dealt, queues or [])
    assignment = {name: owned.get(name, []) for name in names or ()}
    judged = _judge(assignment, previous, len(queues or ()))
    return {"assignment": assignment, **judged, **_measure_times(began, called, returned, clock())}


def _pick_working(
    fields: Fields, consumers: list[RawConsumer] | None
) -> tuple[list[str] | None, list[str] | None, dict[str, object]]:
    """
    Return the ids of all consumers, the ids of those that may get queues, and the settings.

    If the setting `pinned` lists consumers, only these may get queues; otherwise all may. The
    settings include the zones of the consumers.
    """
    config = dict(request.read_config(fields))
    config["consumerZones"] = {raw.id: raw.zone for raw in consumers or () if raw.zone is not None}
    names = None if consumers is None else [raw.id for raw in consumers]
    pinned = set(request.read_texts(config, "pinned"))
    working = [name for name in names if name in pinned] if names and pinned else names
    return names, working, config


def _refuse_large(dealt: Mapping[str, list[Queue]]) -> None:
    """
    Refuse an answer with too many entries.

    If several consumers share one list object, the answer repeats the list for each of them.
    """
    entries = sum(map(len, dealt.values()))
    if entries > LARGEST_ANSWER:
        raise errors.BadRequestError(
            f"the answer would have {entries} entries, more than {LARGEST_ANSWER}"
        )


def _ask_for_one(
    dealer: strategies.Dealer,
    caller: str | None,
    queues: list[Queue] | None,
    names: list[str] | None,
    working: list[str] | None,
    config: Fields,
) -> Answer:
    """Answer one caller, as RocketMQ's class does.

    If some consumers are pinned, a caller that is not one of them gets no queues.
    """
    mine = dealer.deal_one(caller, queues, working or names, config)
    if mine and working is not names and caller not in (working or ()):
        mine = []
    return {"assignment": None if mine is None else [_show_queue(queue) for queue in mine]}


def _find_places(dealt: Mapping[str, list[Queue]], queues: list[Queue]) -> dict[str, list[int]]:
    """
    Map queues to their indices in the request.

    Strategies return the same `Queue` objects that they were given, so two equal queues can be
    told apart. Only CONFIG makes new objects. The settings of CONFIG can name queues that are not
    in the request.
    """
    by_object = {id(queue): place for place, queue in enumerate(queues)}
    by_name: dict[Queue, int] = {}
    found: dict[str, list[int]] = {}
    for consumer, mine in dealt.items():
        places = [by_object.get(id(queue), -1) for queue in mine]
        if -1 in places:
            by_name = by_name or {queue: place for place, queue in enumerate(queues)}
            places = [by_name.get(queue, -1) for queue in mine]
        if -1 in places:
            queue = mine[places.index(-1)]
            raise errors.UnknownQueueError(
                f"config.queues: {shorten(consumer)} is given queue {queue.id} of "
                f"{shorten(queue.topic)} on {shorten(queue.broker)}, which is not in queues"
            )
        found[consumer] = places
    return found


def _judge(
    assignment: Mapping[str, list[int]], previous: Mapping[str, list[int]], count: int
) -> Answer:
    """List the queues without an owner, and the queues that no previous owner has kept."""
    owners: list[set[str]] = [set() for _ in range(count)]
    for consumer, places in assignment.items():
        for place in places:
            owners[place].add(consumer)
    had: dict[int, set[str]] = {}
    for consumer, places in previous.items():
        for place in places:
            had.setdefault(place, set()).add(consumer)
    return {
        "unowned": [place for place, names in enumerate(owners) if not names],
        "moved": sorted(place for place, names in had.items() if not names & owners[place]),
        "deferred": [],
    }


def _share_queues(fields: Fields) -> Answer:
    """Answer for message-granular mode, in which `queues` may be a count."""
    count = fields.get("queues")
    if isinstance(count, int):
        ids = range(_check_bound(request.read_whole(fields, "queues"), "queues"))
        queues = [Queue("topic", "broker", number) for number in ids]
    else:
        queues = [Queue(*raw) for raw in request.read_queues(fields)]
    names, working, config = _pick_working(fields, request.read_consumers(fields))
    inner = fields.get("inner", "AVG")
    if not isinstance(inner, str):
        raise errors.BadRequestError(f"inner: {quote(inner)} is not the name of a strategy")
    share = request.read_whole(fields, "popShareQueueNum")
    dealt = pop.allocate(queues, working or [], share, inner, config)
    _refuse_large(dealt)
    return {
        "assignment": {name: [queue.id for queue in dealt.get(name, ())] for name in names or ()}
    }


def _check_bound(count: int, name: str) -> int:
    if not 0 <= count <= LARGEST_ANSWER:
        raise errors.BadRequestError(f"{name}: {shorten(count)} is not from 0 to {LARGEST_ANSWER}")
    return count


def _show_queue(queue: Queue) -> list[object]:
    return [queue.topic, queue.broker, queue.id]


def _measure_times(began: float, called: float, returned: float, ended: float) -> Answer:
    return {
        "planMs": round((returned - called) * 1000, 3),
        "elapsedMs": round((ended - began) * 1000, 3),
    }
