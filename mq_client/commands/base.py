"""
What every request is: a value that knows its code, its fields, its body, and its answer.

A request is a frozen dataclass. Its fields are the request's, in Java's spelling on the wire,
unless `fields` says otherwise. `read` turns the answer into a value, or raises what the code means.
"""

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from mq_client import errors, lenient_json
from mq_client.frames import Frame, as_text

Value_co = TypeVar("Value_co", covariant=True)
SUCCESS = 0


class Request(ABC, Generic[Value_co]):
    """Base of all requests."""

    __slots__ = ()
    code: ClassVar[int]
    name: ClassVar[str]
    good_codes: ClassVar[frozenset[int]] = frozenset({SUCCESS})

    def fields(self) -> dict[str, str]:
        """List the fields of the header, as text."""
        names = _wire_names(type(self))
        return {wire: as_text(getattr(self, name)) for name, wire in names if wire}

    def body(self) -> bytes:
        """What follows the header."""
        return b""

    @abstractmethod
    def read(self, answer: Frame) -> Value_co:
        """Make a value of a good answer."""

    def about(self) -> str:
        """Name the request and what it is about, for errors."""
        found = [
            str(value)
            for name in ("group", "topic", "queue_id")
            if (value := getattr(self, name, None)) not in (None, "")
        ]
        return " ".join([self.name, *found])

    def refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Make the error of an answer that is not good."""
        return errors.refusal(self.about(), address, answer.code, answer.remark)


class Done(Request[None]):
    """A request whose good answer says nothing more."""

    __slots__ = ()

    def read(self, answer: Frame) -> None:
        """Nothing to read."""


def result(request: Request[Value_co], answer: Frame, address: str) -> Value_co:
    """Turn an answer into a value, or raise."""
    if answer.code not in request.good_codes:
        raise request.refusal(answer, address)
    try:
        return request.read(answer)
    except errors.ProtocolError as error:
        raise errors.ProtocolError(f"{request.about()} to {address}: {error}") from error


def as_json(value: object) -> bytes:
    """Write a body."""
    return json.dumps(value, separators=(",", ":")).encode()


def whole(answer: Frame, name: str) -> int:
    """Read a field that must be a whole number."""
    text = answer.fields.get(name)
    try:
        return int(text or "")
    except ValueError as error:
        raise errors.ProtocolError(f"field {name} is {text!r}, not a whole number") from error


def parsed(answer: Frame) -> "Node":
    """Read a body that must be a JSON object."""
    return Node(lenient_json.loads(memoryview(answer.body)), "the body")


class Node:
    """A piece of a JSON answer. Whatever is not as expected is a `ProtocolError` that names it."""

    def __init__(self, value: object, where: str) -> None:
        """Remember where it stood."""
        if not isinstance(value, dict):
            raise errors.ProtocolError(f"{where} is no JSON object")
        self.value: Mapping[Any, Any] = value
        self._where = where

    def text(self, name: str) -> str:
        """Read a text."""
        return self._typed(name, str)

    def maybe_text(self, name: str) -> str | None:
        """Read a text that may be missing."""
        return None if self.value.get(name) is None else self.text(name)

    def number(self, name: str, default: int | None = None) -> int:
        """Read a whole number; one that is missing is the default, if there is one."""
        if default is not None and self.value.get(name) is None:
            return default
        if isinstance(self.value.get(name), bool):
            raise errors.ProtocolError(f"{name} of {self._where} is no whole number")
        return self._typed(name, int)

    def items(self, name: str) -> list[Any]:
        """Read a list; one that is missing is empty."""
        return [] if self.value.get(name) is None else self._typed(name, list)

    def nodes(self, name: str) -> "list[Node]":
        """Read a list of objects."""
        return [Node(value, f"an entry of {name}") for value in self.items(name)]

    def table(self, name: str) -> Mapping[Any, Any]:
        """Read an object whose keys are data; one that is missing is empty."""
        return {} if self.value.get(name) is None else self._typed(name, dict)

    def _typed(self, name: str, kind: "type[Kind]") -> "Kind":
        value = self.value.get(name)
        if not isinstance(value, kind):
            raise errors.ProtocolError(f"{name} of {self._where} is no {kind.__name__}")
        return value


Kind = TypeVar("Kind")


def node_of_key(key: object, where: str) -> Node:
    """Read a key that was an object: `lenient_json` made a tuple of it."""
    try:
        return Node(dict(key), where)  # type: ignore[call-overload]  # checked by the except
    except (TypeError, ValueError) as error:
        raise errors.ProtocolError(f"a key of {where} is no object") from error


@cache
def _wire_names(kind: type) -> tuple[tuple[str, str], ...]:
    """Pair each field with its name on the wire; metadata may rename it, or hide it by ''."""
    return tuple(
        (field.name, field.metadata.get("wire", _camel(field.name)))
        for field in dataclasses.fields(kind)
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def wire(name: str, **options: Any) -> Any:
    """Declare a field whose name on the wire is another one; '' keeps it off the header."""
    return dataclasses.field(metadata={"wire": name}, **options)
