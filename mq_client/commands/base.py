"""
The base of all requests. A request has a code, fields and a body, and can read its answer.

A request is a frozen dataclass. Its fields are sent under the names that Java uses, unless
`list_fields` is overridden. `read` converts a successful answer to a value.
"""

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from mq_client import errors, lenient_json
from mq_client.frames import Frame, to_text
from mq_client.values import MessageQueue

Value_co = TypeVar("Value_co", covariant=True)
SUCCESS = 0


class Request(ABC, Generic[Value_co]):
    """Base of all requests."""

    __slots__ = ()
    code: ClassVar[int]
    name: ClassVar[str]
    good_codes: ClassVar[frozenset[int]] = frozenset({SUCCESS})

    def list_fields(self) -> dict[str, str]:
        """List the header's fields, as strings."""
        names = _list_wire_names(type(self))
        return {wire: to_text(getattr(self, name)) for name, wire in names if wire}

    def encode_body(self) -> bytes:
        """Encode the body that follows the header."""
        return b""

    @abstractmethod
    def read(self, answer: Frame) -> Value_co:
        """Convert a successful answer to a value."""

    def describe(self) -> str:
        """Name the request and its object, for errors."""
        found = [
            str(value)
            for name in ("group", "topic", "queue_id")
            if (value := getattr(self, name, None)) not in (None, "")
        ]
        return " ".join([self.name, *found])

    def make_refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Make the error for an answer that reports a failure."""
        return errors.make_refusal(self.describe(), address, answer.code, answer.remark)


class Done(Request[None]):
    """A request whose successful answer has no content."""

    __slots__ = ()

    def read(self, answer: Frame) -> None:
        """Return None, because the answer has no content."""


def read_answer(request: Request[Value_co], answer: Frame, address: str) -> Value_co:
    """Convert an answer to a value, or raise its error."""
    if answer.code not in request.good_codes:
        raise request.make_refusal(answer, address)
    try:
        return request.read(answer)
    except errors.ProtocolError as error:
        raise errors.ProtocolError(f"{request.describe()} to {address}: {error}") from error


def to_json(value: object) -> bytes:
    """Encode a value as JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def read_whole(answer: Frame, name: str) -> int:
    """Read a field that must be a whole number."""
    text = answer.fields.get(name)
    try:
        return int(text or "")
    except ValueError as error:
        raise errors.ProtocolError(f"field {name} is {text!r}, not a whole number") from error


def parse_body(answer: Frame) -> "Node":
    """Read a body that must be a JSON object."""
    return Node(lenient_json.parse(memoryview(answer.body)), "the body")


class Node:
    """An object in a JSON answer. For an unexpected value, a `ProtocolError` names its field."""

    def __init__(self, value: object, where: str) -> None:
        """Check that the value is an object. `where` describes the object in errors."""
        if not isinstance(value, dict):
            raise errors.ProtocolError(f"{where} is not a JSON object")
        self.value: Mapping[Any, Any] = value
        self._where = where

    def read_text(self, name: str) -> str:
        """Read a string."""
        return self._read_typed(name, str)

    def read_optional_text(self, name: str) -> str | None:
        """Read a string that may be missing."""
        return None if self.value.get(name) is None else self.read_text(name)

    def read_number(self, name: str, default: int | None = None) -> int:
        """Read a whole number. If the field is missing, return the default, if there is one."""
        if default is not None and self.value.get(name) is None:
            return default
        if isinstance(self.value.get(name), bool):
            raise errors.ProtocolError(f"{name} of {self._where} is not a whole number")
        return self._read_typed(name, int)

    def read_list(self, name: str) -> list[Any]:
        """Read a list. A missing list is empty."""
        return [] if self.value.get(name) is None else self._read_typed(name, list)

    def read_nodes(self, name: str) -> "list[Node]":
        """Read a list of objects."""
        return [Node(value, f"an entry of {name}") for value in self.read_list(name)]

    def read_table(self, name: str) -> Mapping[Any, Any]:
        """Read an object whose keys are data. A missing object is empty."""
        return {} if self.value.get(name) is None else self._read_typed(name, dict)

    def _read_typed(self, name: str, kind: "type[Kind]") -> "Kind":
        value = self.value.get(name)
        if not isinstance(value, kind):
            raise errors.ProtocolError(f"{name} of {self._where} is not of type {kind.__name__}")
        return value


Kind = TypeVar("Kind")


def parse_key(key: object, where: str) -> Node:
    """Read a key that was an object, and that `lenient_json` has converted to a tuple."""
    try:
        return Node(dict(key), where)  # type: ignore[call-overload]  # checked by the except
    except (TypeError, ValueError) as error:
        raise errors.ProtocolError(f"a key of {where} is not an object") from error


def read_queue(node: Node) -> MessageQueue:
    """Read a queue from an object."""
    return MessageQueue(
        node.read_text("topic"), node.read_text("brokerName"), node.read_number("queueId")
    )


@cache
def _list_wire_names(kind: type) -> tuple[tuple[str, str], ...]:
    """Pair each field with the name under which it is sent, or with '' if it is not sent."""
    return tuple(
        (field.name, field.metadata.get("wire", _to_camel(field.name)))
        for field in dataclasses.fields(kind)
    )


def _to_camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def send_as(name: str, **options: Any) -> Any:
    """Declare a field that is sent under another name. With '' the field is not in the header."""
    return dataclasses.field(metadata={"wire": name}, **options)
