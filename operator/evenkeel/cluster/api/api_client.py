"""
The operator's client of the Kubernetes API, with time limits and typed errors.

kopf watches objects; this client does all other reads and all writes.
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

from evenkeel.cluster.api import kubeconfig_checks
from evenkeel.cluster.api.api_errors import (
    ApiError,
    AwayError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NoClusterError,
    NotAnApiServerError,
    NotFoundError,
)
from evenkeel.cluster.api.lists import HEADS_ONLY, Heads, Whole
from evenkeel.cluster.leader.fence import Fence
from evenkeel.errors import EvenkeelError

Document = dict[str, Any]
Kind = TypeVar("Kind")
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
ANSWER_SECONDS = 15.0
LOGIN_SECONDS = 60.0
FIELD_MANAGER = "evenkeel"


_ERRORS: Mapping[int, type[ApiError]] = {
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.FORBIDDEN: ForbiddenError,
    HTTPStatus.UNPROCESSABLE_ENTITY: InvalidError,
}


def find_connection(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo:
    """Find how to reach the cluster: with the pod's service account, or with a kubeconfig."""
    try:
        found = kopf.login_with_service_account(settings=settings)
        found = found or kopf.login_with_kubeconfig(settings=settings)
    except KeyError as error:
        text = f"the kubeconfig cannot be used: it refers to {error}, which it does not contain"
        raise NoClusterError(text) from error
    except yaml.YAMLError as error:
        why = kubeconfig_checks.describe_yaml_error(error)
        raise NoClusterError(
            f"the kubeconfig cannot be used: it is not valid YAML: {why}"
        ) from error
    except (OSError, ValueError, kopf.LoginError) as error:
        raise NoClusterError(f"the kubeconfig cannot be used: {error}") from error
    if found is None:
        raise NoClusterError(
            "no cluster is configured: this is not a pod with a service account, and KUBECONFIG "
            "and ~/.kube/config name no cluster"
        )
    if not kubeconfig_checks.is_address(found.server):
        raise NoClusterError(
            f"the kubeconfig cannot be used: its server {found.server!r} is not an address such as "
            "https://10.0.0.1:6443"
        )
    if found.token and not kubeconfig_checks.is_token(found.token):
        raise NoClusterError(
            "the kubeconfig or service account cannot be used: its token has characters that no "
            "token has, such as a line break"
        )
    return found


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to an API server."""

    method: str
    path: str
    body: Document | None = None
    kind: str = "application/json"
    """The media type of the body."""
    query: Mapping[str, str] | None = None
    accept: str = "application/json"

    def __str__(self) -> str:
        """Describe the request for a message."""
        return f"{self.method} {self.path}"

    @property
    def is_write(self) -> bool:
        """Whether the request changes an object. A review is a POST, but changes nothing."""
        return self.method != "GET" and not self.path.endswith("reviews")

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers with the media types of the body and of the answer."""
        sent = {} if self.body is None else {"Content-Type": self.kind}
        return {"Accept": self.accept, **sent}


class Api:
    """One API server."""

    def __init__(
        self, connect: Callable[[], kopf.ConnectionInfo], fence: Fence | None = None
    ) -> None:
        """
        Prepare the client without a connection.

        `connect` is called again later, because tokens change. Writes need an open fence, except
        writes by `ask_unfenced`.
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
        """Raise if the server is not an API server. A server that does not answer is accepted."""
        try:
            found = await self.get("/api")
        except (NotFoundError, NotAnApiServerError) as error:
            raise self._build_stranger_error() from error
        except EvenkeelError:
            return
        if "versions" not in found:
            raise self._build_stranger_error()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        """Read an object or a list."""
        return await self.ask(ApiRequest("GET", path, query=query))

    async def get_page(self, path: str, query: Mapping[str, str]) -> Whole:
        """Read one page of a list."""
        return await self._send(Whole, ApiRequest("GET", path, query=query))

    async def get_heads(self, path: str, query: Mapping[str, str]) -> Heads:
        """Read one page of a list, with only the metadata of objects, so that it is smaller."""
        return await self._send(Heads, ApiRequest("GET", path, query=query, accept=HEADS_ONLY))

    async def create(self, path: str, document: Document) -> Document:
        """Create an object."""
        return await self.ask(ApiRequest("POST", path, document))

    async def try_to_create(self, path: str, document: Document) -> Document:
        """Check with a dry run whether the API server would create an object."""
        return await self.ask(ApiRequest("POST", path, document, query={"dryRun": "All"}))

    async def replace(self, path: str, document: Document) -> Document:
        """Replace an object; its `resourceVersion`, if set, must be the newest."""
        return await self.ask(ApiRequest("PUT", path, document))

    async def merge(self, path: str, document: Document) -> Document:
        """Change the given fields of an object."""
        return await self.ask(ApiRequest("PATCH", path, document, MERGE))

    async def apply(self, path: str, document: Document) -> Document:
        """Set the given fields of an object by server-side apply, even if others manage them."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self.ask(ApiRequest("PATCH", path, document, APPLY, query))

    async def delete(self, path: str, uid: str, grace_seconds: int | None = None) -> None:
        """Delete the object with this uid. If it no longer exists, nothing happens."""
        options: Document = {"preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        with contextlib.suppress(NotFoundError, ConflictError):
            await self.ask(ApiRequest("DELETE", path, options))

    async def ask(self, request: ApiRequest) -> Document:
        """Send a request. Only the leader may write, and only until another replica can lead."""
        seconds = ANSWER_SECONDS if request.method == "GET" else self._fence.count_seconds_left()
        try:
            async with asyncio.timeout(min(seconds, ANSWER_SECONDS)):
                return await self.ask_unfenced(request)
        except TimeoutError as error:
            raise AwayError(f"the API server does not answer {request} in time") from error

    async def ask_unfenced(self, request: ApiRequest) -> Document:
        """Send a request for the Lease, or a harmless write, even if this process does not lead."""
        return await self._send(Document, request)

    async def _send(self, wanted: type[Kind], request: ApiRequest) -> Kind:
        assert self._session is not None
        self.writes += request.is_write
        try:
            async with self._session.request(
                request.method,
                self._info.server.rstrip("/") + request.path,
                data=None if request.body is None else msgspec.json.encode(request.body),
                headers={**self._refresh_login().as_http_headers(), **request.headers},
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
            raise NotAnApiServerError(
                f"the answer to {request} is a redirect to {to[:200]!r}, so the server is not an "
                "API server; the redirect is not followed"
            )
        kind_of_error = _ERRORS.get(answer.status, ApiError)
        raise kind_of_error(f"{request}: {_read_message(content, answer.status)}")

    def _build_stranger_error(self) -> NoClusterError:
        return NoClusterError(
            f"the server at {self._info.server} is not an API server: check that the kubeconfig "
            "has the right address"
        )

    def _refresh_login(self) -> kopf.ConnectionInfo:
        if time.monotonic() - self._read_at > LOGIN_SECONDS:
            self._info, self._read_at = self._connect(), time.monotonic()
        return self._info


def _read(content: bytes, wanted: type[Kind], asked: str) -> Kind:
    try:
        return msgspec.json.decode(content, type=wanted)
    except msgspec.DecodeError as error:  # for example, a proxy has answered
        raise NotAnApiServerError(
            f"the answer to {asked} does not come from an API server: {error}"
        ) from error


def _read_message(content: bytes, status: int) -> str:
    try:
        found = msgspec.json.decode(content)
        return str(found["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"HTTP {status}: {content[:200].decode(errors='replace')}"
