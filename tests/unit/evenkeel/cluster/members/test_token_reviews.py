"""Whose token a request has: every answer of an API server, and the decision that follows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contract.following import AUDIENCE, Denial
from evenkeel.cluster.api.api_errors import ApiError, AwayError, ForbiddenError, NotAnApiServerError
from evenkeel.cluster.members import token_reviews
from evenkeel.cluster.members.token_reviews import (
    BELIEVED_SECONDS,
    FRESH_SECONDS,
    POD_NAME,
    POD_UID,
    REFUSED_SECONDS,
    PodIdentity,
    TokenReviews,
)
from evenkeel.members.doors import DeniedError

ACCOUNT = "system:serviceaccount:shop:default"
POD = PodIdentity("shop", "billing-a", "uid-1")


def review(name: str = ACCOUNT, audiences: object = (AUDIENCE,), **status: Any) -> dict[str, Any]:
    extra = {POD_NAME: ["billing-a"], POD_UID: ["uid-1"]}
    found = {"authenticated": True, "user": {"username": name, "extra": extra}}
    return {"kind": "TokenReview", "status": {**found, "audiences": audiences, **status}}


def user(**extra: object) -> dict[str, Any]:
    return {"username": ACCOUNT, "extra": extra}


NOT_ACCEPTED: dict[str, Any] = {"authenticated": False, "user": {}, "audiences": None}
ANSWERS: dict[str, tuple[dict[str, Any] | Exception, PodIdentity | Denial]] = {
    "a pod": (review(), POD),
    "not authenticated": (review(**NOT_ACCEPTED), Denial.FORBIDDEN),
    "not authenticated, with an error": (
        review(**NOT_ACCEPTED, error="token has expired"),
        Denial.FORBIDDEN,
    ),
    "an empty status": ({"status": {}}, Denial.FORBIDDEN),
    "another audience": (review(audiences=["vault"]), Denial.FORBIDDEN),
    "an API server that knows no audiences": (review(audiences=None), Denial.FORBIDDEN),
    "no extra": (review(user={"username": ACCOUNT}), Denial.NOT_A_POD),
    "no uid": (review(user=user(**{POD_NAME: ["billing-a"]})), Denial.NOT_A_POD),
    "an empty name": (review(user=user(**{POD_NAME: [""], POD_UID: ["1"]})), Denial.NOT_A_POD),
    "two names": (review(user=user(**{POD_NAME: ["a", "b"], POD_UID: ["1"]})), Denial.NOT_A_POD),
    "a user that is no service account": (review("admin"), Denial.NOT_A_POD),
    "a service account without a name": (review("system:serviceaccount:shop"), Denial.NOT_A_POD),
    "no status": ({"kind": "Status"}, Denial.REVIEW_UNAVAILABLE),
    "a status of another kind": ({"status": "Failure"}, Denial.REVIEW_UNAVAILABLE),
    "403": (ForbiddenError("may not create tokenreviews"), Denial.REVIEW_UNAVAILABLE),
    "500": (ApiError("HTTP 500"), Denial.REVIEW_UNAVAILABLE),
    "nobody listens": (AwayError("refused"), Denial.REVIEW_UNAVAILABLE),
    "something else answers": (NotAnApiServerError("HTML"), Denial.REVIEW_UNAVAILABLE),
    "no answer in time": (TimeoutError(), Denial.REVIEW_UNAVAILABLE),
}


class ApiServer:
    """An API server that gives the test's answer, and counts the requests."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.now = 0.0
        self.reviews = TokenReviews(self.ask, lambda: self.now)

    async def ask(self, document: dict[str, Any]) -> dict[str, Any]:
        assert document["spec"]["audiences"] == [AUDIENCE]
        self.asked.append(document["spec"]["token"])
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def decide(self, token: str = "t") -> PodIdentity | Denial:
        try:
            return await self.reviews.identify(token)
        except DeniedError as error:
            return error.denial


def play(server: ApiServer, story: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await story()
        await server.reviews.close()

    asyncio.run(run())


@pytest.mark.parametrize(("answer", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_every_answer_has_its_decision(
    answer: dict[str, Any] | Exception, expected: PodIdentity | Denial
) -> None:
    server = ApiServer(answer)

    async def story() -> None:
        assert await server.decide() == expected

    play(server, story)


def test_a_pod_is_reviewed_once_a_minute_and_a_refused_token_sooner() -> None:
    server = ApiServer(review())

    async def story() -> None:
        for now in (0, FRESH_SECONDS - 1, FRESH_SECONDS, FRESH_SECONDS + 1):
            server.now = now
            assert await server.decide() == POD
        assert len(server.asked) == 2
        server.answer = review(**NOT_ACCEPTED)
        for now in (0, REFUSED_SECONDS - 1, REFUSED_SECONDS):
            server.now = 2 * FRESH_SECONDS + now
            assert await server.decide() is Denial.FORBIDDEN
        assert len(server.asked) == 4

    play(server, story)


def test_without_reviews_a_pod_is_believed_for_a_while() -> None:
    server = ApiServer(review())

    async def story() -> None:
        assert await server.decide() == POD
        server.answer = AwayError("the API server is away")
        for now, expected in (
            (FRESH_SECONDS, POD),
            (BELIEVED_SECONDS - 1, POD),
            (BELIEVED_SECONDS, Denial.REVIEW_UNAVAILABLE),
        ):
            server.now = now
            assert await server.decide() == expected
        assert await server.decide("another token") is Denial.REVIEW_UNAVAILABLE

    play(server, story)


def test_requests_at_the_same_time_share_a_review() -> None:
    server = ApiServer(review())

    async def story() -> None:
        assert await asyncio.gather(*(server.decide() for _ in range(100))) == [POD] * 100
        assert len(server.asked) == 1

    play(server, story)


def test_a_request_that_is_given_up_ends_no_review_of_another() -> None:
    server = ApiServer(review())

    async def story() -> None:
        first = asyncio.create_task(server.decide())
        second = asyncio.create_task(server.decide())
        await asyncio.sleep(0)
        first.cancel()
        assert await second == POD

    play(server, story)


def test_a_flood_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_reviews, "MOST_KEPT", 10)
    server = ApiServer(review(**NOT_ACCEPTED))
    most = token_reviews.MOST_WAITING

    async def story() -> None:
        found = await asyncio.gather(*(server.decide(f"t{n}") for n in range(2 * most)))
        assert found.count(Denial.FORBIDDEN) == most
        assert found.count(Denial.REVIEW_UNAVAILABLE) == most
        server.asked.clear()
        await server.decide(f"t{most - 1}")
        await server.decide("t0")
        assert server.asked == ["t0"]

    play(server, story)
