"""A fast client of the API server: many requests in flight, on connections that stay open."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Self

import aiohttp
import kopf
import msgspec

from sandbox.kubernetes import ApiRefusedError
from sandbox.process import SandboxError

IN_FLIGHT = 64
WATCHES = 2
ANSWER_SECONDS = 60.0
MERGE = "application/merge-patch+json"


class Client:
    """An administrator of one API server."""

    def __init__(self, kubeconfig: Path) -> None:
        """Prepare the client; connections are opened later."""
        self._info = _connection(kubeconfig)

    async def __aenter__(self) -> Self:
        """Open a pool of connections."""
        limit = IN_FLIGHT + WATCHES
        self._session = aiohttp.ClientSession(
            self._info.server,
            connector=aiohttp.TCPConnector(ssl=self._info.as_ssl_context(), limit=limit),
            timeout=aiohttp.ClientTimeout(sock_connect=ANSWER_SECONDS),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._session.close()

    async def ask(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> bytes:
        """Send one request, and return its raw answer."""
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                self._session.request(
                    method, path, data=data, headers={"Content-Type": kind}
                ) as answer,
            ):
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = str(error) or type(error).__name__
            raise SandboxError(f"the API server does not answer {method} {path}: {text}") from error
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiRefusedError(f"{method} {path}: {content.decode(errors='replace')[:500]}")
        return content

    async def watch(self, path: str, version: str) -> AsyncIterator[bytes]:
        """Yield all changes since a version, as lines of JSON."""
        query = {"watch": "true", "resourceVersion": version}
        async with self._session.get(path, params=query) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line


async def side_by_side(jobs: Iterable[Awaitable[object]]) -> None:
    """Run all requests, `IN_FLIGHT` at a time."""
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            await job

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


def _connection(kubeconfig: Path) -> kopf.ConnectionInfo:
    """Read a kubeconfig of the sandbox: it has one cluster, and one user with a certificate."""
    config = json.loads(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return kopf.ConnectionInfo(
        server=cluster["server"],
        ca_data=cluster["certificate-authority-data"],
        certificate_data=user["client-certificate-data"],
        private_key_data=user["client-key-data"],
    )
