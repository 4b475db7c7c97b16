"""
The commands' client of the Kubernetes API.

It sends one request at a time, with the standard library. Every failure raises an error that tells
what to do. The operator has another client, which sends many requests at a time but takes longer to
start.
"""

import http.client
import json
import urllib.request
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from contract.kinds import parts
from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_errors import (
    ApiError,
    AwayError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
)
from evenkeel.cluster.api.paths import Resource
from evenkeel.objects import Key
from evenkeel_cli.cluster import fetching
from evenkeel_cli.cluster.access import ServerAccess
from mq_client import tables

Document = dict[str, Any]
JSON, MERGE = "application/json", "application/merge-patch+json"
ANSWER_SECONDS = 15.0
POD_SECONDS = 5.0
"""
Time limit for a pod's answer. For a pod that no longer exists, the API server itself waits longer.
"""
ANSWER_BYTES, POD_BYTES = 256 * 2**20, 32 * 2**20
"""
Limits of an answer's size. They are enough for 500 objects, and for the metrics of a driver that
reads 100,000 queues.
"""
A_PAGE = "500"
LONGEST_COMPLAINT = 200


class NotInstalledError(ApiError):
    """The cluster does not have Evenkeel's kinds."""


class ClusterClient:
    """One API server, accessed as one user."""

    def __init__(self, access: ServerAccess, patience_seconds: float = ANSWER_SECONDS) -> None:
        """Prepare the client. It makes no request yet."""
        self._access = access
        self._patience_seconds = patience_seconds
        self.namespace = access.namespace
        self._opener = fetching.make_opener(access)

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self._access.server

    def get(self, resource: Resource, key: Key) -> Document:
        """Read an object."""
        return _parse_document(
            self._ask("get", resource, key.namespace, paths.build_path(resource, key))
        )

    def list_objects(
        self, resource: Resource, namespace: str | None, **selectors: str
    ) -> Iterator[Document]:
        """List the objects of a kind, in one namespace or in all, page by page."""
        place, more = paths.build_list_path(resource, namespace), ""
        while True:
            query = urlencode({**selectors, "limit": A_PAGE, "continue": more})
            page = _parse_document(self._ask("list", resource, namespace, f"{place}?{query}"))
            yield from page.get("items") or ()
            more = page["metadata"].get("continue", "")
            if not more:
                return

    def create(self, resource: Resource, namespace: str, document: Document) -> Document:
        """Create an object."""
        place = paths.build_list_path(resource, namespace)
        return _parse_document(self._ask("create", resource, namespace, place, "POST", document))

    def merge(self, resource: Resource, key: Key, change: Document) -> Document:
        """Apply a merge patch to an object."""
        place = paths.build_path(resource, key)
        return _parse_document(self._ask("patch", resource, key.namespace, place, "PATCH", change))

    def delete(self, resource: Resource, key: Key) -> None:
        """Delete an object."""
        self._ask("delete", resource, key.namespace, paths.build_path(resource, key), "DELETE")

    def read_page(self, pod: Key, port: int, path: str) -> str:
        """Read a page that a pod serves, through the API server's proxy."""
        name = quote(f"{pod.name}:{port}", safe=":")
        place = f"{paths.build_list_path(paths.PODS, pod.namespace)}/{name}/proxy{path}"
        resource = ("", "v1", "pods/proxy")
        limits = (POD_SECONDS, POD_BYTES)
        found = self._ask("get", resource, pod.namespace, place, limits=limits)
        return found.decode(errors="replace")

    def _ask(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None,
        place: str,
        method: str = "GET",
        body: Document | None = None,
        limits: tuple[float, int] | None = None,
    ) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {
            **self._access.headers,
            "Accept": f"{JSON}, */*",
            "Content-Type": MERGE if method == "PATCH" else JSON,
            "User-Agent": "evenkeel",
        }
        request = urllib.request.Request(  # noqa: S310 the address comes from a kubeconfig
            self.server + place, data, headers, method=method
        )
        seconds, most_bytes = limits or (self._patience_seconds, ANSWER_BYTES)
        try:
            answer = fetching.fetch(self._opener, request, seconds, most_bytes)
        except fetching.TooLongError as error:
            asked = _describe_request(verb, resource, namespace)
            raise ApiError(f"{self.server} answers {asked} with {error}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise AwayError(
                f"the API server {self.server or 'of the kubeconfig'} does not answer: {why}; "
                "check that it is the right one (--context) and that this machine can reach it"
            ) from error
        if answer.redirect is not None:
            asked = _describe_request(verb, resource, namespace)
            raise ApiError(
                f"{self.server} answers {asked} with a redirect to "
                f"{answer.redirect[:LONGEST_COMPLAINT]!r}, which is not followed, because your "
                "credentials would be sent there"
            )
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise self._make_refusal(answer.status, answer.content, verb, resource, namespace)
        return answer.content

    def _make_refusal(
        self, status: int, text: bytes, verb: str, resource: Resource, namespace: str | None
    ) -> ApiError:
        said = _parse_json(text)
        shown = text[:LONGEST_COMPLAINT].decode(errors="replace").strip()
        message = tables.to_one_line(said.get("message") or shown)
        group = resource[0]
        asked = _describe_request(verb, resource, namespace)
        if status == HTTPStatus.UNAUTHORIZED:
            return ForbiddenError(
                f"{self.server} does not accept your credentials: log in again, or choose another "
                "user (--context, --kubeconfig)"
            )
        if status == HTTPStatus.FORBIDDEN:
            return ForbiddenError(
                f"you may not {asked}; ask an administrator for that right: {message}"
            )
        if (
            status == HTTPStatus.NOT_FOUND
            and group == parts.GROUP
            and not _is_about_one_object(said)
        ):
            return NotInstalledError(
                f"{self.server} has no {_name_kind(resource)}: Evenkeel is not installed there. "
                "Install its Helm chart, or at least its CRDs with kubectl apply -f crds/"
            )
        if status == HTTPStatus.NOT_FOUND:
            return NotFoundError(message)
        kind_of_error = ConflictError if status == HTTPStatus.CONFLICT else ApiError
        return kind_of_error(f"{self.server} refuses to {asked}: {message}")


def _name_kind(resource: Resource) -> str:
    group, _, plural = resource
    return f"{plural}.{group}" if group else plural


def _describe_request(verb: str, resource: Resource, namespace: str | None) -> str:
    where = f"namespace {namespace}" if namespace else "all namespaces"
    return f"{verb} {_name_kind(resource)} in {where}"


def _is_about_one_object(said: Mapping[str, Any]) -> bool:
    """Whether an answer means that one object is missing, not the whole kind."""
    return bool((said.get("details") or {}).get("name"))


def _parse_document(text: bytes) -> Document:
    found = _parse_json(text)
    if not found:
        raise AwayError("the answer is not from an API server: check the address")
    return found


def _parse_json(text: bytes) -> Document:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
