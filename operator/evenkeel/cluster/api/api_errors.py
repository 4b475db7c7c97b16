"""Errors of calls to the Kubernetes API, for the operator and for the commands."""

from evenkeel.errors import EvenkeelError


class NoClusterError(EvenkeelError):
    """No kubeconfig says how to reach a cluster, or it is invalid."""


class AwayError(EvenkeelError):
    """The API server did not answer."""


class NotAnApiServerError(AwayError):
    """Something answered, but not an API server."""


class ApiError(EvenkeelError):
    """The API server refused the request."""


class ConflictError(ApiError):
    """The object has changed since it was read, or exists already."""


class NotFoundError(ApiError):
    """The object does not exist."""


class ForbiddenError(ApiError):
    """A right is missing."""


class InvalidError(ApiError):
    """The object is invalid."""
