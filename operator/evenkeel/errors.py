"""What goes wrong, as users may have to decide about it."""


class EvenkeelError(Exception):
    """The base of all: its text says what happened, to which object, and what to do."""


class ManifestError(EvenkeelError):
    """A manifest says what cannot be."""
