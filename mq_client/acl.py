"""
Sign requests for brokers that authenticate their clients.

The signature is an HMAC-SHA1, encoded in base64. It covers the values of all fields, in the order
of the fields' names, and the body. The request has one field with the signature and one with the
access key.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from mq_client import errors


@dataclass(frozen=True, slots=True)
class Credentials:
    """The identity of a client. Its `repr` does not show the secrets."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse an access key without a secret key, and the reverse."""
        if not self.access_key or not self.secret_key:
            raise errors.UsageError("credentials need an access key and a secret key")


def sign(fields: Mapping[str, str], body: bytes, who: Credentials) -> dict[str, str]:
    """Return the fields, with the access key and the signature added."""
    signed = {**fields, "AccessKey": who.access_key}
    if who.security_token is not None:
        signed["SecurityToken"] = who.security_token
    content = "".join(signed[name] for name in sorted(signed)).encode() + body
    digest = hmac.new(who.secret_key.encode(), content, hashlib.sha1).digest()
    return {**signed, "Signature": base64.b64encode(digest).decode()}
