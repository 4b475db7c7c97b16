"""Answers Prometheus and the kubelet: /metrics, /healthz, /readyz."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from evenkeel.errors import EvenkeelError


@asynccontextmanager
async def serving(
    port: int,
    registry: CollectorRegistry,
    is_ready: Callable[[], bool],
    is_sick: Callable[[], bool],
) -> AsyncIterator[None]:
    """Answer for as long as this lasts."""

    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        return web.Response(body=generate_latest(registry), headers=headers)

    async def health(_: web.Request) -> web.Response:
        # That it answers shows that the event loop turns.
        if is_sick():
            return web.Response(status=503, text="the watches do not tell of changes\n")
        return web.Response(text="ok\n")

    async def readiness(_: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="not everything was listed yet\n")

    app = web.Application()
    app.add_routes(
        [web.get("/metrics", metrics), web.get("/healthz", health), web.get("/readyz", readiness)]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "0.0.0.0", port).start()  # noqa: S104 it is for the pod's network
    except OSError as error:
        await runner.cleanup()
        raise EvenkeelError(
            f"port {port} cannot be opened: {error.strerror}; choose another one with --port"
        ) from error
    try:
        yield
    finally:
        await runner.cleanup()
