"""Lists the coordinator's refusals, and writes them as a table into a page."""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from contract.following import MOST_REQUEST_BYTES, Denial, Refusal
from evenkeel.attribute_docs import read_attribute_docs
from evenkeel.members import doors, server
from generate import marks

PAGE = Path("docs", "reference", "coordinator.md")
POST, DELETE = "post", "delete"
HEAD = "| status | reason | meaning |\n|---|---|---|\n"


class Refused(NamedTuple):
    """A refusal: an answer without grants."""

    status: HTTPStatus
    reason: str
    meaning: str
    methods: tuple[str, ...]
    """The operations that may get this answer."""


def list_refusals() -> list[Refused]:
    """List all refusals, by status."""
    return sorted(_make_refusals(), key=lambda each: each.status)


def _make_refusals() -> Iterator[Refused]:
    denials, refusals = read_attribute_docs(Denial), read_attribute_docs(Refusal)
    for denial, status in doors.STATUSES.items():
        methods = (POST,) if denial is Denial.SLOW_BODY else (POST, DELETE)
        yield Refused(status, denial.value, _flatten(denials[denial.name]), methods)
    for refusal, status in server.REFUSED_STATUSES.items():
        yield Refused(status, refusal.value, _flatten(refusals[refusal.name]), (POST,))
    bad = Denial.BAD_REQUEST.value
    yield Refused(HTTPStatus.NOT_FOUND, bad, "The coordinator has no such path.", ())
    yield Refused(HTTPStatus.METHOD_NOT_ALLOWED, bad, "The method is neither POST nor DELETE.", ())
    too_long = f"The body has more than {MOST_REQUEST_BYTES:,} bytes."
    yield Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, bad, too_long, (POST,))


def _flatten(text: str) -> str:
    return " ".join(text.split())


def make_table() -> str:
    """Make the table."""
    rows = [f"| {each.status} | `{each.reason}` | {each.meaning} |" for each in list_refusals()]
    return HEAD + "\n".join(rows)


def write(root: Path) -> None:
    """Update the table."""
    marks.write(root / PAGE, {"refusals": make_table()})
