"""
Read the requests of `python -m lb_core`.

Any input may be wrong. Each function reads one field; its errors name the field and the value.
Lists keep the order of the request, because answers name queues by their indices.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lb_core import errors, misspelt, model
from lb_core.model import Queue, quote, shorten
from lb_core.policy import Zones, list_zone_names, read_share

Fields = Mapping[str, object]


class RawQueue(NamedTuple):
    """A queue of a request."""

    topic: str
    broker: str
    id: int
    zone: str | None = None


class RawConsumer(NamedTuple):
    """A consumer that a request lists."""

    id: str
    zone: str | None = None
    capacity: float = 1


def parse(line: bytes) -> Fields:
    """Parse a line into the fields of a request."""
    try:
        fields = json.loads(line.decode())
    except RecursionError:
        raise errors.BadRequestError("the line is nested too deeply") from None
    except ValueError as error:
        raise errors.BadRequestError(f"the line is not JSON: {shorten(str(error), 200)}") from None
    if not isinstance(fields, dict):
        raise errors.BadRequestError(f"a request is an object, not {quote(fields)}")
    return fields


def read_queues(fields: Fields) -> list[RawQueue]:
    """Read the list of `[topic, broker, id]` or `[topic, broker, id, zone]`."""
    return [_read_queue(place, value) for place, value in enumerate(_read_list(fields, "queues"))]


def read_consumers(fields: Fields) -> list[RawConsumer]:
    """Read the list of ids, or of objects with an id, a zone and a capacity."""
    return [
        _read_consumer(place, value) for place, value in enumerate(_read_list(fields, "consumers"))
    ]


def read_config(fields: Fields) -> Fields:
    """Read `config`. The result is empty if `config` is absent or null."""
    return _read_mapping(fields, "config")


def read_caller(fields: Fields) -> str | None:
    """Read the id of the consumer that asks for its own queues only. RocketMQ allows a null id."""
    found = fields["caller"]
    if found is not None and not isinstance(found, str):
        raise errors.BadRequestError(f"caller: {quote(found)} is not a consumer's id")
    return found


def read_previous(fields: Fields, count: int) -> dict[str, list[int]]:
    """Read the previous owners of `count` queues, by their indices in the request."""
    found: dict[str, list[int]] = {}
    for consumer, places in _read_mapping(fields, "previous").items():
        if not isinstance(places, list):
            raise errors.BadRequestError(
                f"previous.{shorten(consumer)}: {quote(places)} is not a list of indices"
            )
        for place in places:
            if not _is_whole(place):
                raise errors.BadRequestError(
                    f"previous.{shorten(consumer)}: {quote(place)} is not an index"
                )
            if not 0 <= place < count:
                raise errors.UnknownQueueError(
                    f"previous.{shorten(consumer)}: there is no queue {quote(place)} "
                    f"among {count} queues"
                )
        found[consumer] = places
    return found


def read_texts(fields: Fields, name: str) -> list[str]:
    """Read a list of strings. The result is empty if the field is absent or null."""
    found = fields.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(value, str) for value in found):
        raise errors.BadRequestError(f"config.{name}: {quote(found)} is not a list of strings")
    return found


def read_zones(fields: Fields) -> Zones:
    """Read the setting `zones`."""
    found = fields.get("zones")
    if found is None:
        return Zones.PREFER
    if not isinstance(found, str) or found not in [zones.value for zones in Zones]:
        raise errors.BadRequestError(
            f"config.zones: {quote(found)} is not one of {list_zone_names()}"
        )
    return Zones(found)


def read_weights(fields: Fields, queues: Sequence[RawQueue]) -> dict[Queue, float] | None:
    """Read the list of weights, one for each queue."""
    found = fields.get("weights")
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != len(queues):
        raise errors.BadWeightError(
            f"config.weights: there must be one number for each of the {len(queues)} queues"
        )
    for place, weight in enumerate(found):
        if not model.is_amount(weight):
            raise errors.BadWeightError(
                f"config.weights: {quote(weight)} for queue {place} is not a number from 0 to "
                f"{model.LARGEST_AMOUNT:.0e}"
            )
    return {Queue(*queue): weight for queue, weight in zip(queues, found, strict=True)}


def read_min_gain(fields: Fields) -> float:
    """Read a share, written as 0.1 or as "10%"."""
    found = fields.get("minGain")
    if found is None:
        return 0.1
    if isinstance(found, str):
        return float(read_share(found, "config.minGain"))
    if not model.is_amount(found):
        raise errors.BadRequestError(f"config.minGain: {quote(found)} is not a share")
    return float(found)  # type: ignore[arg-type]  # is_amount accepts only numbers


def read_max_moves(fields: Fields) -> int | str | None:
    """Read a count, or a share such as "25%"; null means no limit."""
    found = fields.get("maxMoves")
    if found is not None and not isinstance(found, str) and not _is_whole(found):
        raise errors.BadRequestError(f"config.maxMoves: {quote(found)} is not a count or share")
    return found  # type: ignore[return-value]  # narrowed above


def read_whole(fields: Fields, name: str) -> int:
    """Read a whole number."""
    found = fields.get(name)
    if not _is_whole(found):
        raise errors.BadRequestError(f"{name}: {quote(found)} is not a whole number")
    return found  # type: ignore[return-value]  # narrowed above


def _read_queue(place: int, value: object) -> RawQueue:
    if isinstance(value, list) and len(value) in (3, 4):
        topic, broker, number, zone = value if len(value) == 4 else (*value, None)
        if (
            isinstance(topic, str)
            and isinstance(broker, str)
            and _is_whole(number)
            and -model.MAX_QUEUE_ID - 1 <= number <= model.MAX_QUEUE_ID
            and (zone is None or isinstance(zone, str))
        ):
            return RawQueue(topic, broker, number, zone)
    raise errors.BadRequestError(
        f"queues: {quote(value)} at index {place} is not [topic, broker, id] or "
        "[topic, broker, id, zone]"
    )


def _read_consumer(place: int, value: object) -> RawConsumer:
    if isinstance(value, str):
        return RawConsumer(value)
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise errors.BadRequestError(
            f"consumers: {quote(value)} at index {place} is neither an id nor an object with an id"
        )
    misspelt.check_consumer(value["id"], value)
    zone, capacity = value.get("zone"), value.get("capacity", 1)
    if zone is not None and not isinstance(zone, str):
        raise errors.BadRequestError(
            f"consumers: {shorten(value['id'])} has the zone {quote(zone)}, which is not a string"
        )
    return RawConsumer(value["id"], zone, capacity)


def _read_list(fields: Fields, name: str) -> list[object]:
    if name not in fields:
        raise errors.BadRequestError(f"{name} is missing")
    found = fields[name]
    if not isinstance(found, list):
        raise errors.BadRequestError(f"{name}: {quote(found)} is not a list")
    return found


def _read_mapping(fields: Fields, name: str) -> Fields:
    found = fields.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise errors.BadRequestError(f"{name}: {quote(found)} is not an object")
    return found


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
