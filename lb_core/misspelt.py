"""
Refuse fields of a request whose names are similar to known ones.

Most fields have a default, so a misspelt field would silently change the plan. A field whose name
resembles no known name counts as the caller's own note, and is ignored.
"""

import difflib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache

from lb_core import errors, strategies
from lb_core.model import shorten

FIELDS = ("strategy", "queues", "consumers", "previous", "config", "caller", "popShareQueueNum")
INNER = "inner"
"""
The name of a request's field in message-granular mode, and of a setting of MACHINE_ROOM_NEARBY.
"""
PINNED = "pinned"
SETTINGS = {each.name: each.settings for each in strategies.list_built_in()}
"""The settings of each strategy. All strategies also have `pinned`."""
ALL_SETTINGS = frozenset({PINNED, *(name for names in SETTINGS.values() for name in names)})
OF_CONSUMERS = ("id", "zone", "capacity")
LIKENESS = 0.7
LONGEST_NAME = 40
MOST_NAMES = 100
"""At most this many unknown names, none over `LONGEST_NAME`, are compared. This saves time."""


def check_request(fields: Mapping[str, object]) -> None:
    """Refuse a request with a misspelt field or a misspelt setting."""
    config = fields.get("config")
    settings = config if isinstance(config, Mapping) else {}
    asked = [fields.get("strategy"), fields.get(INNER), settings.get(INNER)]
    names = {PINNED, *(name for each in asked for name in SETTINGS.get(str(each), ()))}
    outside = {f"config.{name}": name for name in ALL_SETTINGS.difference(FIELDS, {INNER})}
    _check(fields, {*FIELDS, INNER}, {name: name for name in (*FIELDS, INNER)} | outside)
    _check(settings, ALL_SETTINGS, {f"config.{name}": name for name in names}, "config.")


def check_consumer(consumer: str, fields: Mapping[str, object]) -> None:
    """Refuse a consumer that has a misspelt field."""
    meant = {name: name for name in OF_CONSUMERS}
    try:
        _check(fields, set(OF_CONSUMERS), meant)
    except errors.BadRequestError as error:
        raise errors.BadRequestError(f"consumers: {shorten(consumer)}: {error}") from None


def _check(
    fields: Mapping[str, object],
    known: AbstractSet[str],
    meant: Mapping[str, str],
    where: str = "",
) -> None:
    """Refuse unknown fields that resemble known ones. `meant` maps the path of each to its name."""
    unknown = sorted(name for name in fields.keys() - known if len(name) <= LONGEST_NAME)
    for name in unknown[:MOST_NAMES]:
        if (nearest := _find_nearest(name, tuple(sorted(meant.items())))) is not None:
            raise errors.BadRequestError(
                f"there is no field {where}{name}; did you mean {nearest}?"
            )


@lru_cache(maxsize=1024)
def _find_nearest(name: str, meant: tuple[tuple[str, str], ...]) -> str | None:
    places = {_simplify(each): place for place, each in meant}
    found = difflib.get_close_matches(_simplify(name), places, n=1, cutoff=LIKENESS)
    return places[found[0]] if found else None


def _simplify(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")
