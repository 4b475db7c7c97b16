"""Events are written one after the other, and a failed write affects nothing else."""

import asyncio

import pytest

from evenkeel import manifests
from evenkeel.cluster.api.api_client import ApiRequest
from evenkeel.cluster.api.api_errors import AwayError
from evenkeel.cluster.events import event_writer
from evenkeel.cluster.events.event_writer import EventWriter
from evenkeel.control.groups.group_status import Notice

GROUP = manifests.read_group(
    {
        "metadata": {"name": "readers", "namespace": "shop", "uid": "7"},
        "spec": {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}},
    }
)


class Api:
    """Accepts some Events, and refuses one."""

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
        events = EventWriter(api)  # type: ignore[arg-type]  # it calls nothing else
        events.start()
        for message in messages:
            events.announce(GROUP, Notice("Rebalanced", message))
        await events.stop()
        return api.told

    return asyncio.run(tell())


def test_all_that_waits_is_told_before_the_end() -> None:
    assert told("one", "two", "three") == ["one", "two", "three"]


def test_an_event_that_is_refused_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    assert told("one", "refused", "three") == ["one", "three"]
    written = "ConsumerGroup shop/readers: an Event cannot be written"
    assert f"{written}: the API server does not answer" in caplog.text


def test_what_is_too_much_is_logged_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_writer, "MOST_WAITING", 2)
    assert told("one", "two", "three") == ["one", "two"]
    dropped = "ConsumerGroup shop/readers: an Event is dropped because too many are waiting"
    assert f"{dropped}: three" in caplog.text


def test_an_api_server_that_hangs_does_not_keep_the_operator_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hanging(Api):
        async def ask_unfenced(self, request: ApiRequest) -> None:
            await asyncio.Event().wait()

    async def end() -> None:
        events = EventWriter(Hanging())  # type: ignore[arg-type]
        events.start()
        events.announce(GROUP, Notice("Rebalanced", "one"))
        async with asyncio.timeout(10):
            await events.stop()

    monkeypatch.setattr(event_writer, "LAST_SECONDS", 0.05)
    asyncio.run(end())
