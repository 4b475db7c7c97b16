"""
Whom a follower trusts to be the coordinator: the authorities in a file.

The file is read again for each request, as the token is: whoever provides it renews it.
"""

import ssl
from pathlib import Path

from follower.options import FollowerError


class TrustFile:
    """The newest authorities of a file."""

    def __init__(self, file: Path) -> None:
        """Refuse a file that holds none."""
        self._file = file
        self._text: str | None = None
        self._context = self.read()

    def read(self) -> ssl.SSLContext:
        """Read the file; the same context as long as it has not changed."""
        try:
            text = self._file.read_text("ascii")
            if text != self._text:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no others are trusted
                context.load_verify_locations(cadata=text)
                self._context, self._text = context, text
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            raise FollowerError(
                f"the authorities in {self._file} cannot be used: {error}"
            ) from error
        return self._context
