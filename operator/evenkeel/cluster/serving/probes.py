"""Serves /metrics, /healthz and /readyz for Prometheus and the kubelet."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from evenkeel.cluster.serving import http_server, sockets
from evenkeel.cluster.serving.http_server import HttpAnswer
from evenkeel.errors import EvenkeelError

log = logging.getLogger("evenkeel")


@asynccontextmanager
async def serve(
    port: int,
    registry: CollectorRegistry,
    why_not_ready: Callable[[], str],
    why_sick: Callable[[], str],
) -> AsyncIterator[None]:
    """Serve while the block runs. The functions return reasons; empty means healthy or ready."""

    async def health() -> HttpAnswer:
        # Any answer already shows that the event loop runs.
        return _answer_probe(why_sick())

    async def readiness() -> HttpAnswer:
        return _answer_probe(why_not_ready())

    scrapes = _Scrapes(registry)
    http = http_server.HttpServer(
        {"/metrics": scrapes.answer, "/healthz": health, "/readyz": readiness}
    )
    try:
        server = await asyncio.start_server(
            http.serve,
            sock=sockets.open_port(port, http_server.MOST_CONNECTIONS),
            limit=http_server.HEAD_BYTES,
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
        await http.close()
        await scrapes.close()


def _answer_probe(trouble: str) -> HttpAnswer:
    if not trouble:
        return http_server.build_line("ok")
    return http_server.build_line(" ".join(trouble.split()), HTTPStatus.SERVICE_UNAVAILABLE)


class _Scrapes:
    """
    Renders metrics. Parallel requests share one result.

    Metrics are collected on the event loop, one by one, so that other tasks can run in between.
    Rendering them takes longer, so it is done in a thread.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._writing: asyncio.Task[bytes] | None = None

    async def answer(self) -> HttpAnswer:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        text = await asyncio.shield(
            self._writing
        )  # a cancelled request must not cancel the rendering
        return HttpAnswer(text, kind=CONTENT_TYPE_PLAIN_0_0_4)

    async def close(self) -> None:
        """Wait for the rendering in progress."""
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
    """Collected metrics that do not change any more."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
