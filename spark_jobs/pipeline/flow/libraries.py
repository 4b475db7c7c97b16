"""Checks for libraries that only some jobs need, and that our image does not have."""

import importlib.util

from mq_client.errors import UsageError


def check_installed(what: str, package: str) -> None:
    """Raise a `UsageError` if a package is missing that `what`, a part of the job, needs."""
    if importlib.util.find_spec(package) is None:
        raise UsageError(
            f"{what} needs the Python package {package} in the image of driver and executors: see "
            "docs/operating/images.md"
        )
