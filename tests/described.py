"""What docs/reference/coordinator.yaml says about requests to the coordinator and its answers."""

from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import yaml
from jsonschema import Draft202012Validator

from evenkeel.members import server

DOCUMENT: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "docs/reference/coordinator.yaml").read_text("utf-8")
)
OPERATIONS = DOCUMENT["paths"][server.PATH]
_REFUSAL = {"schema": {"$ref": "#/components/schemas/MemberRefusal"}}


def check_request(body: bytes) -> None:
    """Check the body of a POST request."""
    _check_json(OPERATIONS["post"]["requestBody"], "application/json", body)


def check_answer(method: str, status: int, content_type: str | None, body: bytes) -> None:
    """Check that the document lists this status for this method, and describes this body."""
    operation = OPERATIONS.get(method.lower())
    if operation is None:
        assert status == HTTPStatus.METHOD_NOT_ALLOWED
        check_refusal(content_type, body)
        return
    assert str(status) in operation["responses"], f"{method} is answered with {status}"
    described = operation["responses"][str(status)]
    if "content" in described:
        _check_json(described, content_type, body)
    else:
        assert body == b""


def check_refusal(content_type: str | None, body: bytes) -> None:
    """Check an answer that the document describes in its introduction only."""
    _check_json({"content": {"application/json": _REFUSAL}}, content_type, body)


def _check_json(described: dict[str, Any], content_type: str | None, body: bytes) -> None:
    assert list(described["content"]) == [content_type]
    schema = described["content"][content_type]["schema"]
    with_parts = {**schema, "components": DOCUMENT["components"]}  # the schema refers to them
    Draft202012Validator(with_parts).validate(msgspec.json.decode(body))
