"""
Calls to the Kubernetes API: JSON in, JSON out, with a time limit and errors that tell apart.

kopf watches; all that is read on purpose or written goes through here.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self, TypeVar

import aiohttp
import kopf
import msgspec
import yaml

from evenkeel.cluster import reaching
from evenkeel.cluster.fence import Fence
from evenkeel.cluster.lists import HEADS_ONLY, Heads, Whole
from evenkeel.errors import EvenkeelError

Document = dict[str, Any]
Kind = TypeVar("Kind")
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
ANSWER_SECONDS = 15.0
LOGIN_SECONDS = 60.0
FIELD_MANAGER = "evenkeel"


class ApiError(EvenkeelError):
    """The API server has refused."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the status for those who decide by it."""
        super().__init__(message)
        self.status = status


class AwayError(EvenkeelError):
    """The API server did not answer."""


class NoApiError(AwayError):
    """Something else did."""


class ConflictError(ApiError):
    """The object is another one by now: it has changed, or was made again."""


class GoneError(ApiError):
    """There is no such object."""


class ForbiddenError(ApiError):
    """A right is missing."""


class NoClusterError(EvenkeelError):
    """Nothing tells how to reach a cluster."""


_ERRORS: Mapping[int, type[ApiError]] = {
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.NOT_FOUND: GoneError,
    HTTPStatus.FORBIDDEN: ForbiddenError,
}


def connection(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo:
    """Find out how to reach the cluster: as a pod, else by a kubeconfig."""
    try:
        found = kopf.login_with_service_account(settings=settings)
        found = found or kopf.login_with_kubeconfig(settings=settings)
    except KeyError as error:
        text = f"the kubeconfig cannot be used: it names {error}, which is not in it"
        raise NoClusterError(text) from error
    except yaml.YAMLError as error:
        text = f"the kubeconfig cannot be used: it is no YAML: {reaching.no_yaml(error)}"
        raise NoClusterError(text) from error
    except (OSError, ValueError, kopf.LoginError) as error:
        raise NoClusterError(f"the kubeconfig cannot be used: {error}") from error
    if found is None:
        raise NoClusterError(
            "there is no cluster: this is no pod with a service account, and neither KUBECONFIG "
            "nor ~/.kube/config names one"
        )
    if not reaching.is_address(found.server):
        raise NoClusterError(
            f"the kubeconfig cannot be used: its server {found.server!r} is no address such as "
            "https://10.0.0.1:6443"
        )
    if found.token and not reaching.is_token(found.token):
        raise NoClusterError(
            "the kubeconfig or service account cannot be used: its token holds characters that no "
            "token has, such as a line break"
        )
    return found


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What an API server is asked."""

    method: str
    path: str
    body: Document | None = None
    kind: str = "application/json"
    """Of the body."""
    query: Mapping[str, str] | None = None
    accept: str = "application/json"

    def __str__(self) -> str:
        """Name it in a sentence."""
        return f"{self.method} {self.path}"

    @property
    def headers(self) -> Mapping[str, str]:
        """Say what is sent, and what may come."""
        sent = {} if self.body is None else {"Content-Type": self.kind}
        return {"Accept": self.accept, **sent}


class Api:
    """One API server."""

    def __init__(
        self, connect: Callable[[], kopf.ConnectionInfo], fence: Fence | None = None
    ) -> None:
        """
        Connect to nothing yet. `connect` is asked again now and then: tokens change.

        Nothing is written but for what the fence allows, and where nobody has to lead.
        """
        self._fence = fence or Fence()
        self._connect = connect
        self._info = connect()
        self._read_at = time.monotonic()
        self._session: aiohttp.ClientSession | None = None
        self.writes = 0

    async def __aenter__(self) -> Self:
        """Open a pool of connections."""
        try:
            context: ssl.SSLContext = self._info.as_ssl_context()
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            raise NoClusterError(
                f"the certificates for {self._info.server} cannot be used: {error}"
            ) from error
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=32),
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def refuse_strangers(self) -> None:
        """Make sure that no other server answers; one that is away as yet is waited for later."""
        try:
            found = await self.get("/api")
        except (GoneError, NoApiError) as error:
            raise self._stranger() from error
        except EvenkeelError:
            return
        if "versions" not in found:
            raise self._stranger()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        """Read an object or a list."""
        return await self.ask(ApiRequest("GET", path, query=query))

    async def page(self, path: str, query: Mapping[str, str]) -> Whole:
        """Read a part of a list."""
        return await self._send(Whole, ApiRequest("GET", path, query=query))

    async def heads(self, path: str, query: Mapping[str, str]) -> Heads:
        """Read who the objects of a list are, without what they hold: it is much less."""
        return await self._send(Heads, ApiRequest("GET", path, query=query, accept=HEADS_ONLY))

    async def create(self, path: str, document: Document) -> Document:
        """Make an object."""
        return await self.ask(ApiRequest("POST", path, document))

    async def try_to_create(self, path: str, document: Document) -> Document:
        """Let the API server say whether it would make an object, and make none."""
        return await self.ask(ApiRequest("POST", path, document, query={"dryRun": "All"}))

    async def replace(self, path: str, document: Document) -> Document:
        """Replace an object; its `resourceVersion`, if it has one, must be the newest."""
        return await self.ask(ApiRequest("PUT", path, document))

    async def merge(self, path: str, document: Document) -> Document:
        """Change these fields of an object."""
        return await self.ask(ApiRequest("PATCH", path, document, MERGE))

    async def apply(self, path: str, document: Document) -> Document:
        """Let an object have these fields, as their only manager."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self.ask(ApiRequest("PATCH", path, document, APPLY, query))

    async def delete(self, path: str, uid: str, grace_seconds: int | None = None) -> None:
        """Delete this object, unless it is gone already, or was made again under its name."""
        options: Document = {"preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        with contextlib.suppress(GoneError, ConflictError):
            await self.ask(ApiRequest("DELETE", path, options))

    async def ask(self, request: ApiRequest) -> Document:
        """Ask anything. Only who leads may write, and an answer after its lead is none."""
        seconds = ANSWER_SECONDS if request.method == "GET" else self._fence.seconds_left()
        try:
            async with asyncio.timeout(min(seconds, ANSWER_SECONDS)):
                return await self.ask_unfenced(request)
        except TimeoutError as error:
            raise AwayError(f"the API server does not answer {request} in time") from error

    async def ask_unfenced(self, request: ApiRequest) -> Document:
        """Ask anything, whoever leads: for the Lease itself, and for what does no harm."""
        return await self._send(Document, request)

    async def _send(self, wanted: type[Kind], request: ApiRequest) -> Kind:
        assert self._session is not None
        self.writes += request.method != "GET"
        try:
            async with self._session.request(
                request.method,
                self._info.server.rstrip("/") + request.path,
                data=None if request.body is None else msgspec.json.encode(request.body),
                headers={**self._login().as_http_headers(), **request.headers},
                params=request.query,
                allow_redirects=False,
            ) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = str(error) or type(error).__name__
            raise AwayError(f"the API server does not answer {request}: {text}") from error
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return _read(content, wanted, str(request))
        if answer.status < HTTPStatus.BAD_REQUEST:
            to = answer.headers.get("Location", "")
            raise NoApiError(
                f"the answer to {request} is a redirect to {to[:200]!r}, which is not "
                "followed: it comes from something else than an API server"
            )
        kind_of_error = _ERRORS.get(answer.status, ApiError)
        raise kind_of_error(answer.status, f"{request}: {_message(content, answer.status)}")

    def _stranger(self) -> NoClusterError:
        return NoClusterError(
            f"what answers at {self._info.server} is no API server: see whether the kubeconfig "
            "has the right address"
        )

    def _login(self) -> kopf.ConnectionInfo:
        if time.monotonic() - self._read_at > LOGIN_SECONDS:
            self._info, self._read_at = self._connect(), time.monotonic()
        return self._info


def _read(content: bytes, wanted: type[Kind], asked: str) -> Kind:
    try:
        return msgspec.json.decode(content, type=wanted)
    except msgspec.DecodeError as error:  # as from a proxy that has something else to say
        raise NoApiError(f"the answer to {asked} is none of an API server: {error}") from error


def _message(content: bytes, status: int) -> str:
    try:
        found = msgspec.json.decode(content)
        return str(found["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"HTTP {status}: {content[:200].decode(errors='replace')}"
