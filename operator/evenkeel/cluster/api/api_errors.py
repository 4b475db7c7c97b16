"""Errors of calls to the Kubernetes API, for the operator and for the commands."""

from evenkeel.errors import EvenkeelError


class NoClusterError(EvenkeelError):
    """There is no kubeconfig, or it is invalid, or its server is not an API server."""


class AwayError(EvenkeelError):
    """The API server did not answer."""


class NotAnApiServerError(AwayError):
    """Something answered, but not an API server."""


class ApiError(EvenkeelError):
    """The API server refused the request."""


class ConflictError(ApiError):
    """The object has changed since it was read, or it already exists."""


class NotFoundError(ApiError):
    """The object does not exist."""


class ForbiddenError(ApiError):
    """A right is missing."""


class InvalidError(ApiError):
    """The object is invalid."""
