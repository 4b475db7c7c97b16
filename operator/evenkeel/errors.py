"""The base errors of this package."""


class EvenkeelError(Exception):
    """The base of all errors: the text says what happened, to which object, and what to do."""


class ManifestError(EvenkeelError):
    """A manifest is invalid."""
