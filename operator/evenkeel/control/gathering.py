"""Runs coroutines in parallel."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Value = TypeVar("Value")


async def gather(asked: Iterable[Coroutine[Any, Any, Value]]) -> list[Value]:
    """Run all in parallel. After all have ended, raise the first error, if there is one."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]
