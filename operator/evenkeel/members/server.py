"""Answers members over HTTP: they post requests to `PATH`, and delete it when they leave."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import msgspec
from aiohttp import web

from contract.following import (
    MOST_REQUEST_BYTES,
    MemberAnswer,
    MemberRefusal,
    MemberRequest,
    Refusal,
)
from evenkeel.errors import EvenkeelError
from evenkeel.members.coordination import Coordination, NoSuchGroupError
from evenkeel.objects import Key
from lb_core.errors import AllocationError

BODY_SECONDS = 5.0
"""A request whose body takes longer is refused."""
MOST_MEMBER_LETTERS = 253
PATH = "/v1/groups/{namespace}/{group}/members/{member}"
STATUSES = {
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


class RefusedMemberError(Exception):
    """A request that cannot be served."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        """`reason` is one word for programs."""
        super().__init__(message)
        self.status = status
        self.refusal = MemberRefusal(reason, message)


class MembersServer:
    """Turns requests into questions to the coordination."""

    def __init__(self, coordination: Coordination, token: str) -> None:
        """Answer only those who know the token."""
        self._coordination = coordination
        self._token = token

    def make_app(self) -> web.Application:
        """Make the application."""
        app = web.Application(client_max_size=MOST_REQUEST_BYTES, middlewares=[_answer_refusals])
        app.add_routes([web.post(PATH, self._ask), web.delete(PATH, self._leave)])
        return app

    async def _ask(self, request: web.Request) -> web.Response:
        key, member = self._find(request)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
        except TimeoutError as error:
            raise RefusedMemberError(
                HTTPStatus.REQUEST_TIMEOUT, "SlowBody", f"no body within {BODY_SECONDS:.0f} s"
            ) from error
        try:
            asked = msgspec.json.decode(body, type=MemberRequest)
            answer = await self._coordination.ask(key, member, asked)
        except (msgspec.DecodeError, AllocationError) as error:
            raise RefusedMemberError(HTTPStatus.BAD_REQUEST, "BadRequest", str(error)) from error
        if isinstance(answer, Refusal):
            text = f"{member}: {MESSAGES[answer]}"
            raise RefusedMemberError(STATUSES[answer], answer.value, text)
        return _write_json(HTTPStatus.OK, answer)

    async def _leave(self, request: web.Request) -> web.Response:
        key, member = self._find(request)
        self._coordination.leave(key, member, request.query.get("session", ""))
        return web.Response(status=HTTPStatus.NO_CONTENT)

    def _find(self, request: web.Request) -> tuple[Key, str]:
        """Find out which member asks about which group, if it may."""
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            raise RefusedMemberError(
                HTTPStatus.FORBIDDEN, "Forbidden", "the bearer token is not the right one"
            )
        member = request.match_info["member"]
        if len(member) > MOST_MEMBER_LETTERS:
            raise RefusedMemberError(
                HTTPStatus.BAD_REQUEST,
                "BadRequest",
                f"the member's name has {len(member)} letters; at most {MOST_MEMBER_LETTERS}",
            )
        return Key(request.match_info["namespace"], request.match_info["group"]), member


@web.middleware
async def _answer_refusals(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Give every answer that is none the same form."""
    try:
        return await handler(request)
    except RefusedMemberError as error:
        return _write_json(error.status, error.refusal)
    except NoSuchGroupError as error:
        return _write_json(HTTPStatus.NOT_FOUND, MemberRefusal("NoSuchGroup", str(error)))
    except web.HTTPException as error:  # aiohttp's own: no such path, too long a body
        return _write_json(HTTPStatus(error.status), MemberRefusal("BadRequest", error.reason))


def _write_json(status: HTTPStatus, document: MemberAnswer | MemberRefusal) -> web.Response:
    body = msgspec.json.encode(document)
    return web.Response(status=status, body=body, content_type="application/json")


@asynccontextmanager
async def serving(coordination: Coordination, token: str, port: int) -> AsyncIterator[int]:
    """Answer members on loopback for as long as this lasts; gives the port."""
    runner = web.AppRunner(
        MembersServer(coordination, token).make_app(), access_log=None, handle_signals=False
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            raise EvenkeelError(
                f"port {port} for members cannot be opened: {error.strerror}; choose another one "
                "with --members-port"
            ) from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
