"""
Reads JSON as RocketMQ writes it: strictly if it can, else with any value as the key of an object.

RocketMQ's fastjson writes `{0: "..."}` and even `{{"topic": ...}: {...}}`. A key that is an object
becomes a tuple of its sorted items, so that it can be looked up; other keys stay as they are.
"""

import json
import re
from typing import Any, NoReturn

from mq_client import errors

MOST_LEVELS = 64
"""RocketMQ's own answers have five. Python's parser ends at about a thousand by an exception."""

_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = json.JSONDecoder()


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Parse; a `ProtocolError` says what is wrong and where."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise errors.ProtocolError(f"JSON is not UTF-8: {error}") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _Parser(text).parse()


class _Parser:
    """A recursive descent that leaves strings, numbers and words to the standard library."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def parse(self) -> Any:
        value = self._value(0)
        if self._peek():
            self._refuse("more text behind the value")
        return value

    def _value(self, level: int) -> Any:
        if level > MOST_LEVELS:
            self._refuse(f"more than {MOST_LEVELS} levels")
        match self._peek():
            case "{":
                return self._object(level)
            case "[":
                return self._array(level)
            case _:
                return self._scalar()

    def _object(self, level: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        self.place += 1
        while self._peek() != "}":
            key = _hashable(self._value(level + 1))
            self._expect(":")
            found[key] = self._value(level + 1)
            self._comma_or("}")
        self.place += 1
        return found

    def _array(self, level: int) -> list[Any]:
        found = []
        self.place += 1
        while self._peek() != "]":
            found.append(self._value(level + 1))
            self._comma_or("]")
        self.place += 1
        return found

    def _scalar(self) -> Any:
        try:
            value, self.place = _SCALAR.raw_decode(self.text, self.place)
        except ValueError:
            self._refuse("no value")
        return value

    def _comma_or(self, end: str) -> None:
        if self._peek() != end:
            self._expect(",")

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            self._refuse(f"no {mark!r}")
        self.place += 1

    def _peek(self) -> str:
        """Skip white space; the next character, or nothing at the end."""
        found = _SPACE.match(self.text, self.place)
        self.place = found.end() if found else self.place
        return self.text[self.place : self.place + 1]

    def _refuse(self, complaint: str) -> NoReturn:
        near = self.text[max(0, self.place - 20) : self.place + 20]
        raise errors.ProtocolError(
            f"bad JSON at character {self.place}: {complaint}, near {near!r}"
        )


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted(((str(k), _hashable(v)) for k, v in value.items()), key=repr))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
