"""
Asks the coordinator over HTTP which queues a member may read.

The member keeps two connections, because it sends a newer request while an older one still waits
for its answer. It reads the token again for each request, because the token's provider renews it.
"""

import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import aiohttp
import msgspec

from contract.following import UNREADABLE, Asked, MemberAnswer, MemberRefusal, MemberRequest
from follower.asks import NoAnswerError, RefusedError
from follower.options import FollowerError
from follower.queues import write_queues
from follower.trust import TrustFile
from mq_client.values import MessageQueue

CONNECTIONS = 2
MOST_ANSWER_BYTES = 8 * 1024 * 1024
LEAVE_SECONDS = 3.0
IDLE_SECONDS = 15.0


class Coordinator:
    """Sends the requests of one member to the coordinator of its group."""

    def __init__(
        self,
        url: str,
        group: str,
        member: str,
        token_file: Path | None,
        ca_file: Path | None = None,
    ) -> None:
        """Connect to nothing yet. Without `ca_file`, trust the machine's authorities."""
        if not url.startswith(("http://", "https://")):
            raise FollowerError(f"coordinator {url!r}: give a URL, as http://127.0.0.1:9410")
        namespace, slash, name = group.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise FollowerError(
                f"group {group!r}: give NAMESPACE/NAME of the ConsumerGroup, as shop/billing; a "
                "manifest without a namespace is in the namespace default"
            )
        if not member:
            raise FollowerError("the member's name is empty")
        self.url = url.rstrip("/")
        self.group = group
        self.member = member
        parts: Sequence[str] = ("v1", "groups", namespace, name, "members", member)
        self._path = "/".join([self.url, *(quote(part, safe="") for part in parts)])
        self._token_file = token_file
        self._trust = None if ca_file is None else TrustFile(ca_file)
        self._http: aiohttp.ClientSession | None = None
        self.read_token()

    async def __aenter__(self) -> Self:
        """Prepare the connections."""
        connector = aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=IDLE_SECONDS)
        self._http = aiohttp.ClientSession(connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        """Close the connections."""
        assert self._http is not None
        await self._http.close()

    async def ask(
        self, asked: Asked[MessageQueue], wait_seconds: float, seconds: float, *, pops: bool = False
    ) -> MemberAnswer:
        """Send a request, and wait at most `seconds` for its answer."""
        request = MemberRequest(
            asked.session, asked.number, asked.revision, write_queues(asked.holds), wait_seconds,
            pops=pops,
        )  # fmt: skip
        status, body = await self._send("POST", self._path, msgspec.json.encode(request), seconds)
        if status != 200:
            raise RefusedError(status, self._read_refusal(status, body))
        try:
            return msgspec.json.decode(body, type=MemberAnswer)
        except UNREADABLE as error:
            raise NoAnswerError(f"{self.url}: the answer cannot be read: {error}") from error

    async def leave(self, session: str) -> None:
        """End the session, so that the coordinator can grant its queues to others at once."""
        path = f"{self._path}?session={quote(session, safe='')}"
        status, body = await self._send("DELETE", path, b"", LEAVE_SECONDS)
        if status >= 300:
            raise RefusedError(status, self._read_refusal(status, body))

    def read_token(self) -> str | None:
        """Read the token; None if none is needed."""
        if self._token_file is None:
            return None
        try:
            token = self._token_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FollowerError(
                f"the token cannot be read: {error}; `evenkeel run` writes it when it has started"
            ) from error
        if not token or not token.isascii() or not token.isprintable():
            raise FollowerError(f"the file {self._token_file} holds no token: one line of text")
        return token

    def _prepare(self) -> tuple[dict[str, str], ssl.SSLContext | bool]:
        """Make the headers of a request, and read the authorities to trust."""
        headers = {"Content-Type": "application/json"}
        try:
            token = self.read_token()
            trust = True if self._trust is None else self._trust.read()
        except FollowerError as error:  # it was valid at the start, so it is being renewed
            raise NoAnswerError(str(error)) from error
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return headers, trust

    async def _send(self, method: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        assert self._http is not None, "enter it first"
        headers, trust = self._prepare()
        try:
            async with self._http.request(
                method, path, data=body, headers=headers, ssl=trust, allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as response:  # fmt: skip
                found = bytearray()
                async for chunk in response.content.iter_any():
                    found += chunk
                    if len(found) > MOST_ANSWER_BYTES:
                        raise NoAnswerError(
                            f"{self.url} answers with more than {MOST_ANSWER_BYTES:,} bytes"
                        )
                return response.status, bytes(found)
        except TimeoutError as error:
            raise NoAnswerError(f"{self.url} did not answer within {seconds:.1f} s") from error
        except (aiohttp.ClientError, ValueError) as error:
            raise NoAnswerError(f"{self.url} cannot be reached: {_reason(error)}") from error

    def _read_refusal(self, status: int, body: bytes) -> MemberRefusal:
        try:
            return msgspec.json.decode(body, type=MemberRefusal)
        except UNREADABLE:
            raise NoAnswerError(
                f"{self.url} answers {status} and no reason: is it a coordinator?"
            ) from None


def _reason(error: Exception) -> str:
    """Describe an error without the connection settings that aiohttp adds."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"it is not trusted: {error.certificate_error}; see --ca-file"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        return os.strerror(number) if number > 0 else str(error.os_error) or "it hung up"
    return str(error) or type(error).__name__
