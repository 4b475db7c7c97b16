"""The base errors of this package."""


class EvenkeelError(Exception):
    """The base of all errors. The message names the object, what happened, and what to do."""


class ManifestError(EvenkeelError):
    """A manifest is invalid."""
