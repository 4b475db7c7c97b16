"""Answers Prometheus and the kubelet: /metrics, /healthz and /readyz."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from follower.options import FollowerError


@asynccontextmanager
async def serve(
    port: int, registry: CollectorRegistry, trouble: Callable[[], str]
) -> AsyncIterator[None]:
    """Serve until the context ends. `trouble` returns why the follower is not ready, or ''."""

    async def answer_metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), content_type="text/plain")

    async def answer_health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")  # an answer shows that the event loop runs

    async def answer_readiness(_: web.Request) -> web.Response:
        said = trouble()
        return web.Response(text=f"{said or 'ok'}\n", status=503 if said else 200)

    app = web.Application()
    app.router.add_get("/metrics", answer_metrics)
    app.router.add_get("/healthz", answer_health)
    app.router.add_get("/readyz", answer_readiness)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, port=port).start()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise FollowerError(
                f"port {port} cannot be opened: {why}; choose another one with --metrics-port"
            ) from error
        yield
    finally:
        await runner.cleanup()
