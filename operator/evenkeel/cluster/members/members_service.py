"""
Serves members while this process leads, and publishes its address.

A replica that does not lead does not listen. The Service has no selector. Its only endpoint is the
leader, which writes the endpoint after it has begun to listen. So every HTTP client reaches the
leader without redirects.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api, Document
from evenkeel.cluster.api.api_errors import NotFoundError
from evenkeel.cluster.members import documents
from evenkeel.cluster.members.certificate_store import CertificateStore
from evenkeel.cluster.members.documents import Place
from evenkeel.cluster.serving import sockets
from evenkeel.errors import EvenkeelError
from evenkeel.members import connections, server
from evenkeel.members.coordination import Coordination
from evenkeel.members.doors import Door
from evenkeel.members.server import HearRefusal

log = logging.getLogger("evenkeel")
Value = TypeVar("Value")
RETRY_SECONDS = 5.0
LOOK_SECONDS = 60.0
TOLD_SECONDS = 600.0
"""Objects are written again after this time, because a user may have changed them."""
RENEW_SECONDS = 3600.0
"""Interval between checks whether the certificates must be renewed."""


class MembersService:
    """Serves members for as long as this replica leads."""

    def __init__(
        self,
        api: Api,
        place: Place,
        coordination: Coordination,
        door: Door,
        refused: HearRefusal,
    ) -> None:
        """Prepare the service. It does not listen yet."""
        self._refused = refused
        self._api = api
        self._place = place
        self._coordination = coordination
        self._door = door
        self._store = CertificateStore(api, place)
        self._told: dict[str, tuple[Document, float]] = {}
        """The object that was last written to each path, and the time of the write."""
        self._foreign: set[str] = set()

    async def run(self) -> None:
        """Serve from the moment when a group has members, until cancelled."""
        await self._coordination.needed.wait()
        authorities = await _insist(self._store.renew, "the certificates for members")
        listening = await _insist(self._listen, "the port for members")
        async with server.serve(
            self._coordination, self._door, listening, self._store.context, self._refused
        ) as port:
            log.info("members connect to %s, which is port %d of this pod", self._place.url, port)
            await self._keep_telling(authorities)

    async def _listen(self) -> socket.socket:
        return server.open_port(
            self._place.port, lambda port: sockets.open_port(port, connections.BACKLOG)
        )

    async def _keep_telling(self, authorities: str) -> None:
        """Publish the address and the authorities to trust, and renew the certificates."""
        renewed_at = time.monotonic()
        while True:
            changed = self._coordination.namespaces_changed
            changed.clear()
            seconds = LOOK_SECONDS
            try:
                if time.monotonic() - renewed_at > RENEW_SECONDS:
                    authorities = await self._store.renew()
                    renewed_at = time.monotonic()
                await self._tell(self._build_documents(authorities))
            except EvenkeelError as error:
                log.warning("members may not find the coordinator; this is retried: %s", error)
                seconds = RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()

    def _build_documents(self, authorities: str) -> list[Document]:
        return [
            documents.build_endpoint_slice(self._place),
            *(
                documents.build_trust(self._place, namespace, authorities)
                for namespace in sorted(self._coordination.namespaces)
            ),
        ]

    async def _tell(self, wanted: Iterable[Document]) -> None:
        """Write changed objects. An object that cannot be written does not delay the others."""
        trouble: EvenkeelError | None = None
        for document in wanted:
            path = paths.build_path_of(document)
            last, at = self._told.get(path, (None, 0.0))
            if last == document and time.monotonic() - at < TOLD_SECONDS:
                continue
            try:
                if await self._may_write(path):
                    await self._api.apply(path, document)
                self._told[path] = document, time.monotonic()
            except EvenkeelError as error:
                trouble = error
        if trouble is not None:
            raise trouble

    async def _may_write(self, path: str) -> bool:
        """Whether the object does not exist, or was written by an operator."""
        try:
            found = await self._api.get(path)
        except NotFoundError:
            return True
        if documents.is_ours(found):
            self._foreign.discard(path)
            return True
        if path not in self._foreign:
            self._foreign.add(path)
            log.error("%s exists, but no operator wrote it, so it is not changed", path)
        return False


async def _insist(step: Callable[[], Awaitable[Value]], what: str) -> Value:
    """Repeat a step until it succeeds."""
    told = ""
    while True:
        try:
            return await step()
        except EvenkeelError as error:
            if str(error) != told:
                told = str(error)
                log.error("%s: %s; this is retried", what, error)
        await asyncio.sleep(RETRY_SECONDS)
