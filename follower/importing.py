"""Finds the user's handler by its place, `package.module:function`."""

import importlib
import os
import sys

from follower.handling import Handler
from follower.options import FollowerError


def import_handler(place: str) -> Handler:
    """Import a handler. Modules in the current folder are found too."""
    module_name, colon, name = place.partition(":")
    if not (module_name and colon and name):
        raise FollowerError(f"handler {place!r}: give MODULE:FUNCTION, such as shop.billing:handle")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109  # sys.path has strings
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found = importlib.import_module(module_name)
    except Exception as error:
        raise FollowerError(
            f"handler {place!r}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise FollowerError(f"handler {place!r}: {module_name} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise FollowerError(f"handler {place!r}: {name} cannot be called")
    handler: Handler = found
    return handler
