"""Makes random groups for RocketMQ's strategies: most are ordinary, some odd in many ways."""

import random
from typing import Any

# Lone surrogates, characters outside the BMP, and U+FF5E, which Java sorts after those.
CONSUMERS = [
    "c-1", "c-10", "c-2", "A-1", "A-2", "A-10", "B-1", "B-2", "C-1", "10.0.0.1@7-x", "客户-1",
    "\N{GRINNING FACE}-1", "\uff5e-1", "\ud83d-1", "\ude00-2", "clïent-1", "A-1-2",
    "c-221098",  # its first point on the ring is the point of queue 18166 of topic t on broker b
]  # fmt: skip
ON_ONE_PLACE = ["c-786", "c-2758"]  # the first points of these two are the same
ODD_CONSUMERS = ["noroom", "-x", " ", "", "a", "\N{GRINNING FACE}", "-"]
BROKERS = [
    "A-b", "B-b", "C-b", "D-b", "r1@b-a", "r2@b-b", "b-1", "\N{GRINNING FACE}-b", "\uff5e-b",
    "客户-b", "\ud83d-b", "E-b", "F@x-b", "r1@b-c", "r2@-d", "r1@e-",
]  # fmt: skip
ODD_BROKERS = ["b", "", "@", "@b", "@@b", "r1@", "r1@b@", "r1@b@c", "@b@@", "r1@@b", "-b", "r2@b"]
STRATEGIES = ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM", "CONFIG"]
ROOMS = ["r1", "r2", "", "F", "A", "\N{GRINNING FACE}", "r1@b"]
ZONES = ["A", "B", "z1", "\uff5e", "\N{GRINNING FACE}", ""]


def random_group(rng: random.Random) -> dict[str, Any]:
    """Return a request: strategy, queues, consumers, config, and the callers that ask."""
    queues = None if rng.random() < 0.02 else random_queues(rng)
    consumers = None if rng.random() < 0.02 else random_consumers(rng)
    strategy = rng.choice([*STRATEGIES, "MACHINE_ROOM_NEARBY", "MACHINE_ROOM_NEARBY"])
    config = random_config(rng, consumers or [], queues or [])
    if strategy == "MACHINE_ROOM_NEARBY" and rng.random() < 0.98:
        config["inner"] = rng.choice(STRATEGIES)
    return {
        "strategy": strategy,
        "queues": queues,
        "consumers": consumers,
        "config": config,
        "callers": [*dict.fromkeys(consumers or []), "nobody", " ", "", None],
    }


def random_pop_request(rng: random.Random) -> dict[str, Any]:
    """Return a request for the share rule, in which every consumer is a caller."""
    count = rng.randint(1, 9)
    consumers = rng.choices([*CONSUMERS, *ODD_CONSUMERS[:3], "\xa0", "\u2003"], k=count)
    return {
        "strategy": rng.choice(STRATEGIES[:3]),
        "queues": [row[:3] for row in random_queues(rng)],
        "consumers": consumers,
        "config": {},
        "callers": list(dict.fromkeys(consumers)),
        "popShareQueueNum": rng.randint(-1, count + 1),
    }


def random_queues(rng: random.Random) -> list[list[Any]]:
    """Return rows `[topic, broker, id]`, some with a zone, sorted or not, some twice."""
    brokers = rng.sample(BROKERS, rng.randint(1, 4))
    if rng.random() < 0.3:
        brokers += rng.sample(ODD_BROKERS, rng.randint(1, 6))
    topics = rng.choice([["t"], ["t"], ["t", "主题"], ["t\ud83d", "t"]])
    ids = [*range(12), 18166, -1, 2**31 - 1]
    zoned = rng.random() < 0.3
    rows: list[list[Any]] = []
    for _ in range(0 if rng.random() < 0.02 else rng.choice([1, 3, 8, 20, 40])):
        row = [rng.choice(topics), rng.choice(brokers), rng.choice(ids)]
        rows.append([*row, rng.choice(ZONES[:5])] if zoned and rng.random() < 0.6 else row)
    if zoned and rows and rng.random() < 0.1:
        rows[-1] = [*rows[-1][:3], ""]
    return rows if rng.random() < 0.3 else sorted(rows, key=lambda row: row[:3])


def random_consumers(rng: random.Random) -> list[str]:
    """Return ids. Sometimes a few are repeated, or are ids that no RocketMQ client would have."""
    if rng.random() < 0.03:
        return rng.choices(ON_ONE_PLACE, k=rng.randint(0, 4))
    consumers = rng.sample(CONSUMERS, rng.choice([1, 2, 3, 3, 5, 8, 12]))
    if rng.random() < 0.2:
        consumers += rng.sample(ODD_CONSUMERS, rng.randint(1, 3))
    if rng.random() < 0.2 and consumers:
        consumers += rng.choices(consumers, k=rng.randint(1, 4))
        rng.shuffle(consumers)
    return consumers


def random_config(
    rng: random.Random, consumers: list[str], queues: list[list[Any]]
) -> dict[str, Any]:
    """Return settings for all strategies at once; each reads only its own."""
    return {
        "virtualNodes": rng.choice([None, 0, 1, 1, 3, 10, 40, -1]),
        "rooms": rng.choice([None, ["r1"], ["r1", "r2"], rng.sample(ROOMS, rng.randint(0, 5))]),
        "consumerZones": rng.choice(
            [None, {}, {consumer: rng.choice(ZONES) for consumer in consumers if consumer != "a"}]
        ),
        "queues": rng.choice([None, _some(rng, queues), _lists(rng, consumers, queues)]),
    }


def _lists(
    rng: random.Random, consumers: list[str], queues: list[list[Any]]
) -> dict[str, list[list[Any]] | None]:
    return {
        consumer: None if rng.random() < 0.1 else _some(rng, queues)
        for consumer in consumers
        if rng.random() < 0.95
    }


def _some(rng: random.Random, queues: list[list[Any]]) -> list[list[Any]]:
    known = [row[:3] for row in queues]
    return rng.choices([*known, ["unknown", "A-b", 0]], k=rng.randint(0, 5))
