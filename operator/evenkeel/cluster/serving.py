"""Answers Prometheus and the kubelet: /metrics, /healthz, /readyz, and nothing else."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from evenkeel.cluster import answering
from evenkeel.cluster.answering import HttpAnswer
from evenkeel.errors import EvenkeelError

log = logging.getLogger("evenkeel")


@asynccontextmanager
async def serving(
    port: int,
    registry: CollectorRegistry,
    why_not_ready: Callable[[], str],
    why_sick: Callable[[], str],
) -> AsyncIterator[None]:
    """Answer for as long as this lasts. What is well says nothing."""

    async def health() -> HttpAnswer:
        # That it answers shows that the event loop turns.
        return _said(why_sick())

    async def readiness() -> HttpAnswer:
        return _said(why_not_ready())

    scrapes = _Scrapes(registry)
    desk = answering.Desk({"/metrics": scrapes.answer, "/healthz": health, "/readyz": readiness})
    try:
        server = await asyncio.start_server(
            desk.serve, sock=_opened(port), limit=answering.HEAD_BYTES
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


def _opened(port: int) -> socket.socket:
    """Open the port on all addresses of the pod, which may be of IPv4, of IPv6, or of both."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 may be there and turned off
            return socket.create_server(
                ("::", port),
                family=socket.AF_INET6,
                backlog=answering.MOST_CONNECTIONS,
                dualstack_ipv6=True,
            )
    return socket.create_server(("", port), backlog=answering.MOST_CONNECTIONS)


def _said(trouble: str) -> HttpAnswer:
    if not trouble:
        return answering.line("ok")
    return answering.line(" ".join(trouble.split()), HTTPStatus.SERVICE_UNAVAILABLE)


class _Scrapes:
    """
    Writes metrics out, once at a time: whoever asks meanwhile gets the same.

    They are gathered on the event loop, to which they belong, one by one, so that others have their
    turn in between. To write them takes longer, and is done in a thread.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._writing: asyncio.Task[bytes] | None = None

    async def answer(self) -> HttpAnswer:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        text = await asyncio.shield(self._writing)  # whoever goes takes it from nobody else
        return HttpAnswer(text, kind=CONTENT_TYPE_PLAIN_0_0_4)

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
