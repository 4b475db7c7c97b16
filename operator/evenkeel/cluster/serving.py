"""Answers Prometheus and the kubelet: /metrics, /healthz, /readyz, and nothing else."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from evenkeel.cluster import answering
from evenkeel.cluster.answering import Answer
from evenkeel.errors import EvenkeelError

log = logging.getLogger("evenkeel")

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 it is for the pod's network


@asynccontextmanager
async def serving(
    port: int,
    registry: CollectorRegistry,
    is_ready: Callable[[], bool],
    is_sick: Callable[[], bool],
) -> AsyncIterator[None]:
    """Answer for as long as this lasts."""

    async def health() -> Answer:
        # That it answers shows that the event loop turns.
        if is_sick():
            return _not_yet("the watches do not tell of changes")
        return answering.line("ok")

    async def readiness() -> Answer:
        return answering.line("ok") if is_ready() else _not_yet("not everything was listed yet")

    scrapes = _Scrapes(registry)
    desk = answering.Desk({"/metrics": scrapes.answer, "/healthz": health, "/readyz": readiness})
    try:
        server = await asyncio.start_server(
            desk.serve,
            ALL_ADDRESSES,
            port,
            limit=answering.HEAD_BYTES,
            backlog=answering.MOST_CONNECTIONS,
        )
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise EvenkeelError(
            f"port {port} cannot be opened: {why}; choose another one with --port"
        ) from error
    log.info("answering on port %d", server.sockets[0].getsockname()[1])
    try:
        yield
    finally:
        server.close()
        await desk.close()
        await scrapes.close()


def _not_yet(why: str) -> Answer:
    return answering.line(why, HTTPStatus.SERVICE_UNAVAILABLE)


class _Scrapes:
    """
    Writes metrics out, once at a time: whoever asks meanwhile gets the same.

    They are gathered on the event loop, to which they belong, one by one, so that others have their
    turn in between. To write them takes longer, and is done in a thread.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._writing: asyncio.Task[bytes] | None = None

    async def answer(self) -> Answer:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        text = await asyncio.shield(self._writing)  # whoever goes takes it from nobody else
        return Answer(text, kind=CONTENT_TYPE_PLAIN_0_0_4)

    async def close(self) -> None:
        """Let what is being written end."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> bytes:
        gathered = []
        try:
            for metric in self._registry.collect():
                gathered.append(metric)
                await asyncio.sleep(0)
            return await asyncio.to_thread(generate_latest, _Gathered(gathered))
        finally:
            self._writing = None


class _Gathered(Collector):
    """Metrics that nobody changes any more."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
