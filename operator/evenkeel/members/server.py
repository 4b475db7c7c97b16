"""Answers members over HTTP. They send requests with POST to `PATH`, and leave with DELETE."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import msgspec
from aiohttp import web

from contract.following import (
    MOST_REQUEST_BYTES,
    UNREADABLE,
    Denial,
    MemberAnswer,
    MemberRefusal,
    MemberRequest,
    Refusal,
)
from evenkeel.errors import EvenkeelError
from evenkeel.members.connections import BACKLOG, Connections
from evenkeel.members.coordination import Coordination
from evenkeel.members.doors import STATUSES, DeniedError, Door
from evenkeel.objects import Key
from lb_core.errors import AllocationError

HearRefusal = Callable[[Key, MemberRefusal], None]
BODY_SECONDS = 5.0
"""A request whose body takes longer is refused."""
LAST_SECONDS = 1.0
"""Time limit for the last answers when the server closes."""
MOST_MEMBER_LETTERS = 253
PATH = "/v1/groups/{namespace}/{group}/members/{member}"
REFUSED_STATUSES = {
    Refusal.ANOTHER_SESSION: HTTPStatus.CONFLICT,
    Refusal.STALE: HTTPStatus.CONFLICT,
    Refusal.SESSION_OVER: HTTPStatus.GONE,
    Refusal.UNKNOWN_REVISION: HTTPStatus.BAD_REQUEST,
    Refusal.RELEASE_OVERDUE: HTTPStatus.LOCKED,
}
MESSAGES = {
    Refusal.ANOTHER_SESSION: "another process with this name is alive; give this one another name, "
    "or wait until the session of the other is over",
    Refusal.STALE: "a newer request of this session has arrived before",
    Refusal.SESSION_OVER: "this session is over; begin a new one with number 1, and hold nothing",
    Refusal.UNKNOWN_REVISION: "no answer had this revision",
    Refusal.RELEASE_OVERDUE: "queues that were taken away are still held; the session is not "
    "renewed until they are released",
}


class MembersServer:
    """Passes HTTP requests to the coordination."""

    def __init__(self, coordination: Coordination, door: Door, refused: HearRefusal) -> None:
        """Prepare to answer the requests that the door admits."""
        self._coordination = coordination
        self._door = door
        self._refused = refused
        self.connections: Connections | None = None

    def make_app(self) -> web.Application:
        """Make the aiohttp application."""
        app = web.Application(client_max_size=MOST_REQUEST_BYTES, middlewares=[self._answer])
        app.add_routes([web.post(PATH, self._ask), web.delete(PATH, self._leave)])
        return app

    async def _ask(self, request: web.Request) -> web.Response:
        key, member = await self._admit(request)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
        except TimeoutError as error:
            raise DeniedError(Denial.SLOW_BODY, f"no body within {BODY_SECONDS:.0f} s") from error
        try:
            answer = await self._coordination.ask(key, member, _read_request(body))
        except AllocationError as error:
            raise DeniedError(Denial.BAD_REQUEST, str(error)) from error
        if isinstance(answer, Refusal):
            text = f"{member}: {MESSAGES[answer]}"
            return self._refuse(request, REFUSED_STATUSES[answer], answer.value, text)
        return _write_json(HTTPStatus.OK, answer)

    async def _leave(self, request: web.Request) -> web.Response:
        key, member = await self._admit(request)
        self._coordination.leave(key, member, request.query.get("session", ""))
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _admit(self, request: web.Request) -> tuple[Key, str]:
        """Return the group and the member of a request. Raise `DeniedError` if not admitted."""
        key = Key(request.match_info["namespace"], request.match_info["group"])
        member = request.match_info["member"]
        if len(member) > MOST_MEMBER_LETTERS:
            raise DeniedError(
                Denial.BAD_REQUEST,
                f"the member's name has {len(member)} letters; at most {MOST_MEMBER_LETTERS}",
            )
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token or not token.isascii():
            raise DeniedError(Denial.FORBIDDEN, "there is no bearer token")
        await self._door.admit(token, key, member)
        return key, member

    @web.middleware
    async def _answer(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Answer a request. All refusals have the same form."""
        assert self.connections is not None
        with self.connections.serve_request(request):
            try:
                return await handler(request)
            except DeniedError as error:
                status = STATUSES[error.denial]
                return self._refuse(request, status, error.denial.value, str(error))
            except web.HTTPException as error:  # from aiohttp: unknown path, body too long
                status = HTTPStatus(error.status)
                return self._refuse(request, status, Denial.BAD_REQUEST.value, error.reason)

    def _refuse(
        self, request: web.Request, status: HTTPStatus, reason: str, message: str
    ) -> web.Response:
        found = request.match_info
        key = Key(found.get("namespace", ""), found.get("group", ""))
        refusal = MemberRefusal(reason, message)
        self._refused(key, refusal)
        return _write_json(status, refusal)


def _read_request(body: bytes) -> MemberRequest:
    try:
        return msgspec.json.decode(body, type=MemberRequest)
    except UNREADABLE as error:
        raise DeniedError(Denial.BAD_REQUEST, str(error)) from error


def _write_json(status: HTTPStatus, document: MemberAnswer | MemberRefusal) -> web.Response:
    body = msgspec.json.encode(document)
    return web.Response(status=status, body=body, content_type="application/json")


@asynccontextmanager
async def serve(
    coordination: Coordination,
    door: Door,
    listening: socket.socket,
    tls: ssl.SSLContext | None = None,
    refused: HearRefusal = lambda key, refusal: None,
) -> AsyncIterator[int]:
    """
    Answer members on this socket while the block runs. Yield the port.

    `refused` is called for each refused request, with the group that the path of the request names.
    A client can name any group, unless the reason shows that its token was accepted.
    """
    members = MembersServer(coordination, door, refused)
    runner = web.AppRunner(
        members.make_app(),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=LAST_SECONDS,
        auto_decompress=False,  # no member compresses, and aiohttp answers damaged bodies with 500
        handler_cancellation=True,  # a request stops waiting if its connection is closed
    )
    await runner.setup()
    assert runner.server is not None
    members.connections = Connections(runner.server, tls)
    listening.setblocking(False)
    accepting = asyncio.create_task(members.connections.accept(listening))
    try:
        yield listening.getsockname()[1]
    finally:
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        listening.close()
        await members.connections.close()
        await runner.cleanup()


def open_loopback(port: int) -> socket.socket:
    """Open a port on the loopback address; 0 means any free port."""
    return socket.create_server(("127.0.0.1", port), backlog=BACKLOG)


def open_port(port: int, open_it: Callable[[int], socket.socket] = open_loopback) -> socket.socket:
    """Open the port for members."""
    try:
        return open_it(port)
    except OSError as error:
        raise EvenkeelError(
            f"port {port} for members cannot be opened: {error.strerror}; choose another one "
            "with --members-port"
        ) from error
