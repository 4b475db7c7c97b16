"""Events are told one after the other, and none that cannot be told matters."""

import asyncio

import pytest

from evenkeel import manifests
from evenkeel.cluster import telling
from evenkeel.cluster.api import ApiRequest, AwayError
from evenkeel.cluster.telling import Telling
from evenkeel.control.groups.group_status import Happened

GROUP = manifests.read_group(
    {
        "metadata": {"name": "readers", "namespace": "shop", "uid": "7"},
        "spec": {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}},
    }
)


class Api:
    """Takes some Events, and refuses one."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def ask_unfenced(self, request: ApiRequest) -> None:
        await asyncio.sleep(0)
        assert request.body is not None
        if request.body["message"] == "refused":
            raise AwayError(f"the API server does not answer {request}")
        self.told.append(request.body["message"])


def told(*messages: str) -> list[str]:
    async def tell() -> list[str]:
        api = Api()
        events = Telling(api)  # type: ignore[arg-type]  # it calls nothing else
        events.begin()
        for message in messages:
            events.tell(GROUP, Happened("Rebalanced", message))
        await events.end()
        return api.told

    return asyncio.run(tell())


def test_all_that_waits_is_told_before_the_end() -> None:
    assert told("one", "two", "three") == ["one", "two", "three"]


def test_an_event_that_is_refused_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    assert told("one", "refused", "three") == ["one", "three"]
    assert "ConsumerGroup shop/readers: no Event: the API server does not answer" in caplog.text


def test_what_is_too_much_is_logged_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telling, "MOST_WAITING", 2)
    assert told("one", "two", "three") == ["one", "two"]
    assert "ConsumerGroup shop/readers: no Event, for too many wait: three" in caplog.text


def test_an_api_server_that_hangs_does_not_keep_the_operator_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hanging(Api):
        async def ask_unfenced(self, request: ApiRequest) -> None:
            await asyncio.Event().wait()

    async def end() -> None:
        events = Telling(Hanging())  # type: ignore[arg-type]
        events.begin()
        events.tell(GROUP, Happened("Rebalanced", "one"))
        async with asyncio.timeout(10):
            await events.end()

    monkeypatch.setattr(telling, "LAST_SECONDS", 0.05)
    asyncio.run(end())
