"""
An operator dies before or after any of its writes, and the next operator goes on.

The write at which the operator dies never returns. The next operator knows only what the API server
has, so for it, the first operator is like a killed process.
"""

import asyncio
import gc
import itertools
import json
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kopf
import pytest

from evenkeel.cluster.api import api_client
from evenkeel.cluster.api.api_client import Api, ApiRequest, Document
from evenkeel.cluster.operator import Operator
from evenkeel.cluster.watch.resync import Resync, ResyncPace
from sandbox.kubernetes import Cluster
from sandbox.kubernetes_users import ApiUser
from sandbox.rocketmq import RocketMq
from sandbox.statuses import count_loads, read_condition
from tests.real.cluster.running import Namespace

LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 600.0
AT_ONCE = 4
"""How many operators run concurrently: they mostly wait, and each has its own namespace."""
DRIVER = "billing-driver"
NEVER = 0


class MortalApi(Api):
    """Stops for ever at a write, before it is sent or after it is done."""

    def __init__(
        self, connect: Callable[[], kopf.ConnectionInfo], dies_at: int, *, after: bool
    ) -> None:
        """Count writes from 1. With `NEVER`, no write stops."""
        super().__init__(connect)
        self.asked: list[str] = []
        self.is_dead = asyncio.Event()
        self._dies_at = dies_at
        self._after = after

    async def ask(self, request: ApiRequest) -> Document:
        if request.method == "GET":
            return await super().ask(request)
        self.asked.append(str(request))
        is_last = len(self.asked) == self._dies_at
        if is_last and not self._after:
            await self._die()
        answer = await super().ask(request)
        if is_last:
            await self._die()
        return answer

    async def _die(self) -> None:
        self.is_dead.set()
        await asyncio.Event().wait()


class Story:
    """The events in one namespace: a job is created, gets an executor, and its driver fails."""

    def __init__(self, namespace: Namespace, name_server: str, topic: str) -> None:
        """Begin before the first event."""
        self.namespace = namespace
        self._objects = {
            "Topic": ("orders", {"topic": topic, "nameServers": [name_server]}),
            "ConsumerGroup": ("billing", self._group()),
        }
        self.epochs: list[int] = []
        self._failed: str | None = None
        self._done = 0

    def _group(self) -> Document:
        job = {
            "image": "example/spark:1",
            "executors": 2,
            "sink": {"format": "noop"},
            "checkpoint": {"url": "/state"},
        }
        return {"topics": [{"name": "orders"}], "group": self.namespace.name, "job": job}

    def begin(self) -> None:
        """Make the objects."""
        for kind, (name, spec) in self._objects.items():
            self.namespace.make(kind, name, spec)

    def go_on(self) -> bool:
        """Play the next event if the last one was handled; return whether all are over."""
        status = self.namespace.status("consumergroups", "billing")
        self.epochs.append(status.get("epoch", 0))
        pod = self.namespace.found(self.namespace.core("pods", DRIVER))
        steps = (self._made, self._grown, self._failed_once, self._replaced)
        if self._done < len(steps) and steps[self._done](status, pod):
            self._done += 1
        return self._done == len(steps)

    def _made(self, status: Document, pod: Document | None) -> bool:
        if pod is None or count_loads(status).keys() != {
            f"{self.namespace.name}-{n}" for n in (0, 1)
        }:
            return False
        self._report(pod, status)
        change = {"spec": {"job": {"executors": 3}}}
        self.namespace.change("consumergroups", "billing", change)
        return True

    def _grown(self, status: Document, pod: Document | None) -> bool:
        if len(count_loads(status)) != 3 or pod is None:
            return False
        self._failed = pod["metadata"]["uid"]
        times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z"}
        ended = {"exitCode": 75, **times}
        container = {"name": "main", "image": "x", "imageID": "", "restartCount": 0, "ready": False}
        states = [{**container, "state": {"terminated": ended}}]
        self.namespace.set_status(DRIVER, {"phase": "Failed", "containerStatuses": states})
        return True

    def _failed_once(self, status: Document, pod: Document | None) -> bool:
        return (status.get("job") or {}).get("failures") == 1

    def _replaced(self, status: Document, pod: Document | None) -> bool:
        return pod is not None and pod["metadata"]["uid"] != self._failed

    def _report(self, pod: Document, status: Document) -> None:
        self.namespace.set_status(DRIVER, {"phase": "Running"})
        report = {
            "driver": pod["metadata"]["uid"], "adoptedEpoch": status["epoch"], "slots": {},
            "pinned": True, "error": None,
        }  # fmt: skip
        path = self.namespace.core("configmaps", DRIVER)
        self.namespace.patch(path, {"data": {"report.json": json.dumps(report)}})


async def live(client: MortalApi, namespace: str, is_over: Callable[[], Awaitable[bool]]) -> None:
    """Run an operator until the story is over, or it dies."""
    operator = Operator(client, "", sees_nodes=False)
    resync = Resync(client, operator.kinds, [namespace], ResyncPace(late=0))
    hearing = asyncio.create_task(_hear(operator, resync))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not client.is_dead.is_set() and not await is_over():  # noqa: ASYNC110 others' acts
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        doomed = {hearing, *asyncio.all_tasks()} - {asyncio.current_task()}
        for task in doomed:
            task.cancel()  # as a kill does: no task goes on
        await asyncio.gather(*doomed, return_exceptions=True)
        await operator.end()


async def _hear(operator: Operator, resync: Resync) -> None:
    await resync.begin()
    await operator.begin()
    while True:
        for kind in operator.kinds:
            await resync.compare(kind)
        await asyncio.sleep(LOOK_SECONDS)


def run(user: ApiUser, story: Story, dies_at: int, *, after: bool = False) -> list[str]:
    """
    Play the story with an operator that dies, and then with another operator.

    Return the writes of the first operator.
    """
    settings = kopf.OperatorSettings()

    def connect() -> kopf.ConnectionInfo:
        return api_client.find_connection(settings)

    async def main() -> list[str]:
        asked: list[str] = []
        for life in (dies_at, NEVER):
            async with MortalApi(connect, life, after=after) as client:
                await live(client, story.namespace.name, lambda: asyncio.to_thread(story.go_on))
                asked = asked or client.asked
        return asked

    story.begin()
    return asyncio.run(main())


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a dead operator closes no connection
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_operator_may_die_at_any_write(
    kubernetes: Cluster,
    rocketmq: RocketMq,
    topic: str,
    make_namespace: Callable[[str], Namespace],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.admin.kubeconfig))
    name_server = rocketmq.name_server.address

    def story(name: str) -> Story:
        return Story(make_namespace(name), name_server, topic)

    def outcome(told: Story) -> dict[str, Any]:
        status = told.namespace.status("consumergroups", "billing")
        shares = [
            (each["consumer"].removeprefix(told.namespace.name), each.get("queues"))
            for each in status["assignments"]
        ]
        return {"epoch": status["epoch"], "shares": shares, "failures": status["job"]["failures"]}

    calm = story("calm")
    writes = run(kubernetes.admin, calm, NEVER)
    expected = outcome(calm)
    assert len(writes) > 10

    def die(at: int, after: bool) -> None:
        told = story(f"at-{at}-{'after' if after else 'before'}")
        run(kubernetes.admin, told, at, after=after)
        assert outcome(told) == expected, (at, after, writes[at - 1])
        assert told.epochs == sorted(told.epochs)
        assert read_condition(told.namespace.status("topics", "orders"), "Ready")[0] == "True"

    points = list(itertools.product(range(1, len(writes) + 1), (False, True)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(die, *zip(*points, strict=True)):
            pass
    gc.collect()  # so that open connections give their warnings here, not in a later test
    with capsys.disabled():
        sys.stdout.write(f"\nkilled at {len(points)} points; each came to the same assignment\n")
