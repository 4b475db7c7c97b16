"""
Asks the API server which pod a token belongs to, and caches the answer for a while.

`read_review` and `TokenReviews` decide by this table:

| the API server answers | decision |
|---|---|
| authenticated, our audience, a pod of a service account | this pod |
| authenticated, our audience, but no pod | `NotAPod` |
| authenticated for another audience | `Forbidden` |
| not authenticated, with or without an error | `Forbidden`, with the error's words |
| 403, 5xx, no answer, or not a TokenReview | the pod of the last review, if that is at most |
| | `BELIEVED_SECONDS` ago; otherwise `ReviewUnavailable` |

Tokens are cached as hashes. The end of a pod is not noticed here, but by the watch of pods.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from contract.following import AUDIENCE, Denial
from evenkeel.cluster.manifest.names import Document
from evenkeel.errors import EvenkeelError
from evenkeel.members.doors import DeniedError

Clock = Callable[[], float]
PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
ACCOUNT = "system:serviceaccount:"
REVIEW_SECONDS = 5.0
FRESH_SECONDS = 300.0
"""A pod's token is reviewed again after this time."""
REFUSED_SECONDS = 5.0
"""A token that was refused is reviewed again after this time."""
BELIEVED_SECONDS = 600.0
"""If the API server makes no reviews, the last review of a pod's token is used for this time."""
MOST_KEPT = 10_000
"""Maximum number of cached tokens. The token that was used longest ago is dropped first."""
MOST_WAITING = 256
"""Maximum number of reviews that are in progress or wait for their turn."""
AT_ONCE = 16
"""Maximum number of reviews that are in progress."""


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """The pod to which a token is bound."""

    namespace: str
    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a token is refused."""

    denial: Denial
    message: str


Decision = PodIdentity | Denied


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    extra: dict[str, list[str]] | None = None


class _ReviewStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()
    audiences: list[str] | None = None
    error: str = ""


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus


def build_review(token: str) -> Document:
    """Build the request for a review."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }


def read_review(document: Document) -> Decision:
    """Read the API server's answer. Raise `msgspec.ValidationError` if it is not a review."""
    status = msgspec.convert(document, _Review).status
    if not status.authenticated:
        why = f": {status.error}" if status.error else ""
        return Denied(Denial.FORBIDDEN, f"the API server does not accept the token{why}")
    if AUDIENCE not in (status.audiences or ()):
        return Denied(Denial.FORBIDDEN, f"the token is not for the audience {AUDIENCE}")
    extra = status.user.extra or {}
    namespace, _, account = status.user.username.removeprefix(ACCOUNT).partition(":")
    pod, uid = extra.get(POD_NAME, []), extra.get(POD_UID, [])
    is_account = status.user.username.startswith(ACCOUNT) and bool(namespace and account)
    if not is_account or len(pod) != 1 or len(uid) != 1 or not (pod[0] and uid[0]):
        return Denied(
            Denial.NOT_A_POD,
            f"the token of {status.user.username or 'nobody'} is bound to no pod; use the token "
            "of a projected volume with a serviceAccountToken",
        )
    return PodIdentity(namespace, pod[0], uid[0])


@dataclass(frozen=True, slots=True)
class _Known:
    """The last decision on a token."""

    decision: Decision
    reviewed_at: float

    def is_fresh(self, now: float) -> bool:
        is_pod = isinstance(self.decision, PodIdentity)
        return now - self.reviewed_at < (FRESH_SECONDS if is_pod else REFUSED_SECONDS)


class TokenReviews:
    """The tokens that were reviewed recently."""

    def __init__(
        self, ask: Callable[[Document], Awaitable[Document]], clock: Clock = time.monotonic
    ) -> None:
        """Begin without any tokens. `ask` posts a review to the API server."""
        self._ask = ask
        self._clock = clock
        self._known: dict[bytes, _Known] = {}
        self._asking: dict[bytes, asyncio.Task[Decision]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def identify(self, token: str) -> PodIdentity:
        """Find the pod of a token, or raise `DeniedError`. Parallel requests share a review."""
        key = hashlib.sha256(token.encode()).digest()
        known = self._known.pop(key, None)
        if known is not None:
            self._known[key] = known  # the most recently used token comes last
        if known is not None and known.is_fresh(self._clock()):
            decision = known.decision
        else:
            decision = await self._review(key, token)
        if isinstance(decision, Denied):
            raise DeniedError(decision.denial, decision.message)
        return decision

    async def close(self) -> None:
        """End the reviews in progress."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _review(self, key: bytes, token: str) -> Decision:
        asking = self._asking.get(key)
        if asking is None:
            if len(self._asking) >= MOST_WAITING:
                return self._believe(key, f"already {MOST_WAITING} tokens are being reviewed")
            asking = asyncio.create_task(self._decide(key, token), name="a token's review")
            self._asking[key] = asking
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(asking)

    async def _decide(self, key: bytes, token: str) -> Decision:
        began = self._clock()
        try:
            async with self._turns, asyncio.timeout(REVIEW_SECONDS):
                decision = read_review(await self._ask(build_review(token)))
        except TimeoutError:
            return self._believe(key, f"no answer within {REVIEW_SECONDS:g} s")
        except (EvenkeelError, msgspec.ValidationError) as error:
            return self._believe(key, str(error))
        self._known.pop(key, None)
        self._known[key] = _Known(decision, began)
        if len(self._known) > MOST_KEPT:
            del self._known[next(iter(self._known))]
        return decision

    def _believe(self, key: bytes, why: str) -> Decision:
        """Decide by the last review, because a new review is not possible."""
        known = self._known.get(key)
        is_pod = known is not None and isinstance(known.decision, PodIdentity)
        if known and is_pod and self._clock() - known.reviewed_at < BELIEVED_SECONDS:
            return known.decision
        text = f"the API server could not say whose token this is: {why}"
        return Denied(Denial.REVIEW_UNAVAILABLE, text)
