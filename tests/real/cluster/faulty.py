"""An API server that fails on request: a proxy in front of the real one."""

import asyncio
import json
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from sandbox import ports
from sandbox.kubernetes_users import ApiUser

READY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way to the API server."""

    method: str
    path: str
    is_watch: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that replaces the real one. `CUT` and `SILENCE` mean that no answer comes."""

    status: int
    body: object = field(default_factory=lambda: {"message": "a fault of the test"})


CUT, SILENCE = Answer(0), Answer(-1)
"""CUT cuts the connection. SILENCE leaves it open, and no answer ever comes."""
Fault = Callable[[Call], Answer | None]
"""Decides what happens to a request; None lets it through."""


class FaultyApi:
    """The proxy. `fault` may be replaced at any time."""

    def __init__(self, user: ApiUser, url: str) -> None:
        """Prepare to call the real API server as this user."""
        self.fault: Fault = lambda call: None
        self.seen: list[Call] = []
        self._user = user
        self._url = url
        self._claim = ports.claim()
        self._watches: set[asyncio.Task[object]] = set()
        self._silent: weakref.WeakSet[asyncio.Task[object]] = weakref.WeakSet()
        self._loop = asyncio.new_event_loop()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig for the proxy."""
        cluster = {"server": f"http://127.0.0.1:{self._claim.port}"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "faulty", "cluster": cluster}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "faulty", "user": "nobody"}}],
            "current-context": "c",
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(document))
        return path

    def drop_watches(self) -> None:
        """Cut all open watches."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in set(self._watches)])

    def silence_watches(self) -> None:
        """Keep all open watches open, but send no more events."""
        self._loop.call_soon_threadsafe(lambda: self._silent.update(self._watches))

    def close(self) -> None:
        """Stop answering."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(READY_SECONDS)
        self._claim.release()

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        assert self._is_up.wait(READY_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _serve(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._user.tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector)
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._claim.port).start()
        self._is_up.set()

    async def _end(self) -> None:
        await self._runner.cleanup()
        await self._session.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.method, request.path, "watch" in request.query)
        self.seen.append(call)
        instead = self.fault(call)
        if instead is not None:
            return await _instead(request, instead)
        task = asyncio.current_task()
        assert task is not None
        if call.is_watch:
            self._watches.add(task)
        try:
            return await self._passed_on(request)
        finally:
            self._watches.discard(task)

    async def _passed_on(self, request: web.Request) -> web.StreamResponse:
        headers = {key: request.headers[key] for key in ("Content-Type",) if key in request.headers}
        async with self._session.request(
            request.method, self._url + str(request.rel_url), data=await request.read() or None,
            headers=headers, timeout=aiohttp.ClientTimeout(),
        ) as answer:  # fmt: skip
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if asyncio.current_task() in self._silent:
                    await asyncio.Event().wait()
                await response.write(chunk)
            with suppress(ConnectionError):
                await response.write_eof()
            return response


async def _instead(request: web.Request, answer: Answer) -> web.StreamResponse:
    if answer == SILENCE:
        await asyncio.Event().wait()
    if answer.status:
        return web.json_response(answer.body, status=answer.status)
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@contextmanager
def faulty(user: ApiUser, url: str) -> Iterator[FaultyApi]:
    """Run a proxy until the block ends."""
    found = FaultyApi(user, url)
    found.start()
    try:
        yield found
    finally:
        found.close()
