"""
The certificate authorities that a follower trusts for the coordinator's certificate.

The provider of the file renews it. So the follower reads the file again for each request, as it
reads the token.
"""

import ssl
from pathlib import Path

from follower.options import FollowerError


class TrustFile:
    """The current authorities in a file."""

    def __init__(self, file: Path) -> None:
        """Refuse a file without authorities."""
        self._file = file
        self._text: str | None = None
        self._context = self.read()

    def read(self) -> ssl.SSLContext:
        """Read the file. Return the same context as long as the file has not changed."""
        try:
            text = self._file.read_text("ascii")
            if text != self._text:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no authorities yet
                context.load_verify_locations(cadata=text)
                self._context, self._text = context, text
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            raise FollowerError(
                f"the authorities in {self._file} cannot be used: {error}"
            ) from error
        return self._context
