"""`evenkeel check` in a cluster that refuses requests: what the command deletes and prints."""

import pytest

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_errors import AwayError, ForbiddenError
from evenkeel.cluster.api.paths import Resource
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Key
from evenkeel_cli import frame
from evenkeel_cli.cluster import connecting
from evenkeel_cli.cluster.client import Document, NotInstalledError
from evenkeel_cli.codes import FAILED


class Refusing:
    """A cluster that creates no objects of one kind, and deletes none."""

    namespace = "team-a"

    def __init__(self, refused: Resource, error: EvenkeelError) -> None:
        self._refused = refused
        self._error = error

    def create(self, resource: Resource, _: str, document: Document) -> Document:
        if resource == self._refused:
            raise self._error
        return document

    def delete(self, _: Resource, __: Key) -> None:
        raise ForbiddenError("you may not delete")


@pytest.mark.parametrize(
    ("refused", "error", "left"),
    [
        (paths.TOPICS, ForbiddenError("no"), []),
        (paths.TOPICS, NotInstalledError("no"), []),
        (paths.GROUPS, ForbiddenError("no"), ["topics"]),
        (paths.TOPICS, AwayError("no"), ["topics"]),
        (paths.GROUPS, AwayError("no"), ["consumergroups", "topics"]),
    ],
    ids=["topic", "not installed", "group", "topic, perhaps", "group, perhaps"],
)
def test_what_was_never_made_is_not_left_behind(
    refused: Resource,
    error: EvenkeelError,
    left: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "connect", lambda _: Refusing(refused, error))
    assert frame.main(["check"]) == FAILED
    *deleting, last = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[0] for line in deleting] == left
    assert last == "evenkeel: no"
