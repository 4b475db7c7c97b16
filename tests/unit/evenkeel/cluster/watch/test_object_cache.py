"""The cache has the newest version of each object, and finds objects by labels and by selectors."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
import pytest

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api
from evenkeel.cluster.api.lists import Heads, Whole
from evenkeel.cluster.watch.object_cache import ObjectCache
from evenkeel.cluster.watch.pod_selectors import PodSelectors
from evenkeel.cluster.watch.resync import Resync, ResyncPace
from evenkeel.cluster.watch.scopes import WatchedKind
from evenkeel.errors import ManifestError
from evenkeel.objects import Key

LABELS = [{}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}, {"app": "b", "tier": "x"}]
Body = Mapping[str, Any]


def body(name: str, version: int, labels: Mapping[str, str] | None = None, **rest: Any) -> Body:
    metadata = {"namespace": "here", "name": name, "resourceVersion": str(version), "uid": "1"}
    return {"metadata": {**metadata, "labels": dict(labels or {}), **rest}}


def shelf() -> ObjectCache[Body]:
    return ObjectCache(lambda found: found, lambda found: found["metadata"]["labels"].items())


def names(found: list[Body]) -> list[str]:
    return [each["metadata"]["name"] for each in found]


def test_old_news_changes_nothing() -> None:
    known = shelf()
    assert known.take(body("x", 2, {"app": "new"}))
    assert not known.take(body("x", 1, {"app": "old"}))
    assert names(known.find_by_marks("here", [("app", "new")])) == ["x"]
    assert known.find_by_marks("here", [("app", "old")]) == []


def test_an_object_made_again_is_not_dropped_with_its_forerunner() -> None:
    known = shelf()
    assert known.take(body("x", 2, creationTimestamp="2026-01-01T00:00:00Z"))
    again = body("x", 1, uid="2", creationTimestamp="2026-01-02T00:00:00Z")
    assert known.take(again)
    known.drop(Key("here", "x"), "1")
    assert known.get(Key("here", "x")) is again


def test_an_object_that_cannot_be_read_any_more_is_not_found_by_what_it_bore(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read(found: Body) -> Body:
        if "bad" in found["metadata"]["labels"]:
            raise ManifestError("Topic x: it is bad")
        return found

    known = ObjectCache(read, lambda found: found["metadata"]["labels"].items())
    known.take(body("x", 1, {"app": "a"}))
    known.take(body("x", 2, {"app": "a", "bad": "yes"}))
    assert known.find_by_marks("here", [("app", "a")]) == []
    assert "Topic x: it is bad" in caplog.text


def test_what_the_first_list_brings_is_told_of() -> None:
    """Otherwise no group would notice the end of a pod that never changed before its end."""
    bodies = [body("x", 1, {"app": "a"}), body("y", 2, {"app": "a"})]

    class Lists:
        async def get_page(self, path: str, query: Mapping[str, str]) -> Whole:
            return msgspec.convert({"metadata": {}, "items": bodies}, Whole)

    told: list[Key] = []
    kind = WatchedKind(paths.PODS, shelf(), told.append)
    asyncio.run(Resync(cast("Api", Lists()), [kind], [None]).begin())
    assert told == [Key("here", "x"), Key("here", "y")]


def test_objects_and_those_who_look_for_them_find_each_other(rng: random.Random) -> None:
    """While objects change at random, the index finds the same as a search through all objects."""
    known, selectors = shelf(), PodSelectors()
    labels: dict[str, Mapping[str, str]] = {}
    wanted: dict[Key, Mapping[str, str]] = {}
    for version in range(3000):
        name, group = f"pod-{rng.randrange(8)}", Key("here", f"group-{rng.randrange(8)}")
        match rng.randrange(4):
            case 0:
                known.drop(Key("here", name))
                labels.pop(name, None)
            case 1:
                labels[name] = rng.choice(LABELS)
                assert known.take(body(name, version, labels[name]))
            case 2:
                selectors.note(group, None)
                wanted.pop(group, None)
            case _:
                wanted[group] = rng.choice(LABELS[1:])
                selectors.note(group, wanted[group])
        for each in wanted.values():
            bearing = sorted(pod for pod, own in labels.items() if each.items() <= own.items())
            assert names(known.find_by_marks("here", each.items())) == bearing
            assert known.find_by_marks("elsewhere", each.items()) == []
        for own in LABELS:
            looking = {one for one, each in wanted.items() if each.items() <= own.items()}
            assert selectors.find_groups("here", own) == looking
            assert selectors.find_groups("elsewhere", own) == set()


class Lists:
    """Lists the objects of one kind. Before each list, calls `before` with its number, from 1."""

    def __init__(self, before: Callable[[int], None]) -> None:
        self.bodies: dict[str, Body] = {}
        self._before = before
        self._asked = 0

    def _listed(self) -> dict[str, Any]:
        self._asked += 1
        self._before(self._asked)
        return {"metadata": {}, "items": list(self.bodies.values())}

    async def get_heads(self, path: str, query: Mapping[str, str]) -> Heads:
        return msgspec.convert(self._listed(), Heads)

    async def get_page(self, path: str, query: Mapping[str, str]) -> Whole:
        return msgspec.convert(self._listed(), Whole)


def compared(lists: Lists, known: ObjectCache[Body]) -> tuple[int, list[Key]]:
    """Compare one time; return how many changes the watch has missed, and the changed objects."""
    told: list[Key] = []
    kind = WatchedKind(paths.CONFIG_MAPS, known, told.append)
    resync = Resync(cast("Api", lists), [kind], [None], ResyncPace(late=0))
    return asyncio.run(resync.compare(kind)), told


def test_a_watch_that_is_always_one_change_behind_has_missed_nothing() -> None:
    """Drivers write reports all the time, so each list can have newer objects than the watch."""
    known = shelf()

    def change(number: int) -> None:
        if number > 1:
            assert known.take(body("x", number))
        lists.bodies["x"] = body("x", number + 1)

    lists = Lists(change)
    known.take(body("x", 1))
    missed, _ = compared(lists, known)
    assert missed == 0


def test_an_object_made_again_and_again_under_its_name_is_not_missed() -> None:
    """For example, a driver's pod: both lists lack it; between them the watch reports a new pod."""
    known = shelf()
    known.take(body("x", 1, creationTimestamp="2026-01-01T00:00:00Z"))

    def change(number: int) -> None:
        if number == 2:
            known.drop(Key("here", "x"), "1")
            known.take(body("x", 3, uid="2", creationTimestamp="2026-01-01T00:00:05Z"))

    missed, _ = compared(Lists(change), known)
    assert missed == 0
    assert known.list_keys() == {Key("here", "x")}


def test_what_the_watch_told_to_be_gone_is_not_brought_back() -> None:
    """A list of many pages is as old as its first page, so it may contain deleted objects."""
    known = shelf()
    known.take(body("x", 1))

    def change(number: int) -> None:
        if number == 2:
            known.drop(Key("here", "x"), "1")

    lists = Lists(change)
    lists.bodies["x"] = body("x", 2)
    assert compared(lists, known) == (0, [])
    assert known.list_keys() == set()


def test_what_the_watch_has_not_told_is_taken_from_the_list_and_counted() -> None:
    known = shelf()
    known.take(body("changed", 1))
    known.take(body("gone", 1))
    known.take(body("same", 1))
    lists = Lists(lambda number: None)
    for name, version in (("changed", 2), ("made", 3), ("same", 1)):
        lists.bodies[name] = body(name, version)
    missed, told = compared(lists, known)
    assert missed == 3
    assert {key.name for key in told} == {"changed", "made", "gone"}
    assert {key.name for key in known.list_keys()} == {"changed", "made", "same"}
