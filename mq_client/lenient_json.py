"""
Parse JSON as RocketMQ writes it. Keys of objects may be any values.

RocketMQ's fastjson writes `{0: "..."}` and even `{{"topic": ...}: {...}}`. A key that is an object
becomes a tuple of its sorted items, because it must be hashable. Other keys stay as they are.
"""

import contextlib
import json
import re
from typing import Any, NoReturn

from mq_client import errors

MOST_LEVELS = 64
"""Maximum depth. RocketMQ's answers have five levels; Python's parser fails at about 1,000."""
MOST_FAILURES = 64

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def parse(data: bytes | bytearray | memoryview) -> Any:
    """Parse JSON. A `ProtocolError` says what is wrong and where."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise errors.ProtocolError(f"JSON is not UTF-8: {error}") from error
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    try:
        return _JsonParser(text).parse()
    except RecursionError as error:
        raise errors.ProtocolError("JSON has too many levels") from error


class _JsonParser:
    """
    A recursive descent parser. The standard library parses the values that it can: it is faster.

    It fails at the first key that is not a string. After `MOST_FAILURES`, it parses only strings,
    numbers and words, so that no text takes long.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.failures = 0

    def parse(self) -> Any:
        value = self._parse_value(0)
        if self._peek():
            self._refuse("more text after the value")
        return value

    def _parse_value(self, level: int) -> Any:
        if level > MOST_LEVELS:
            self._refuse(f"more than {MOST_LEVELS} levels")
        mark = self._peek()
        if mark not in ("{", "[") or self.failures < MOST_FAILURES:
            try:
                value, self.place = _DECODER.raw_decode(self.text, self.place)
            except (ValueError, RecursionError):
                self.failures += 1
            else:
                return value
        if mark == "{":
            return self._parse_object(level)
        if mark != "[":
            self._refuse("no value")
        return self._parse_array(level)

    def _parse_object(self, level: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        self.place += 1
        while self._peek() != "}":
            key = _make_hashable(self._parse_value(level + 1))
            self._expect(":")
            found[key] = self._parse_value(level + 1)
            self._expect_comma_or("}")
        self.place += 1
        return found

    def _parse_array(self, level: int) -> list[Any]:
        found = []
        self.place += 1
        while self._peek() != "]":
            found.append(self._parse_value(level + 1))
            self._expect_comma_or("]")
        self.place += 1
        return found

    def _expect_comma_or(self, end: str) -> None:
        if self._peek() != end:
            self._expect(",")

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            self._refuse(f"no {mark!r}")
        self.place += 1

    def _peek(self) -> str:
        """Skip white space, and return the next character; at the end, an empty string."""
        found = _SPACE.match(self.text, self.place)
        self.place = found.end() if found else self.place
        return self.text[self.place : self.place + 1]

    def _refuse(self, complaint: str) -> NoReturn:
        near = self.text[max(0, self.place - 20) : self.place + 20]
        raise errors.ProtocolError(
            f"bad JSON at character {self.place}: {complaint}, near {near!r}"
        )


def _make_hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted(((str(k), _make_hashable(v)) for k, v in value.items()), key=repr))
    return tuple(map(_make_hashable, value)) if isinstance(value, list) else value
