"""
The certificates with which the leader proves to members that it is the coordinator.

The operator's own authority signs one certificate, for the names of one Service. Members trust
every authority that is still valid, so a new authority can be added before it signs anything:

- A new certificate is made when a third of the current certificate's lifetime is left. The newest
  authority signs it.
- A new authority is made when the time left for the current authority is less than two lifetimes of
  a certificate. At the same time, the current authority signs a last certificate. The new authority
  signs the next certificate, eight months later. Until then, members can read the new list of
  authorities.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=365)
CLOCKS_DIFFER = timedelta(hours=1)
"""A certificate is valid from this long before its creation: clocks of machines may be behind."""
MOST_AUTHORITIES = 4


@dataclass(frozen=True, slots=True)
class Certificates:
    """The authorities, the certificate and their keys, as strings in PEM."""

    authorities: str
    """All authorities that members trust. The newest one comes first, and it signs."""
    authority_key: str
    certificate: str
    key: str


def renew(kept: Certificates | None, names: Sequence[str], now: datetime) -> Certificates:
    """Replace what is missing, damaged, for other names or too old; otherwise return `kept`."""
    if kept is None or not _is_sound(kept):
        kept = _make_authority(now)
    else:
        left = _split(kept.authorities)[0].not_valid_after_utc - now
        if LIFE < left < 2 * LIFE:
            kept = _issue(kept, names, now)
        if left < 2 * LIFE:
            kept = _replace_authority(kept, now)
    if _needs_certificate(kept, names, now):
        return _issue(kept, names, now)
    return kept


def _replace_authority(kept: Certificates, now: datetime) -> Certificates:
    made = _make_authority(now)
    still = [each for each in _split(kept.authorities) if each.not_valid_after_utc > now]
    old = "".join(map(_write_certificate, still[: MOST_AUTHORITIES - 1]))
    return replace(kept, authorities=made.authorities + old, authority_key=made.authority_key)


def _is_sound(kept: Certificates) -> bool:
    """Whether all parts can be read, and each key belongs to its certificate."""
    pairs = [(kept.authorities, kept.authority_key), (kept.certificate, kept.key)]
    try:
        return all(
            _read_key(key).public_key() == _split(text)[0].public_key() for text, key in pairs
        )
    except (ValueError, TypeError):
        return False


def _needs_certificate(kept: Certificates, names: Sequence[str], now: datetime) -> bool:
    if not kept.certificate:
        return True
    found = _split(kept.certificate)[0]
    try:
        told = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return True
    return (
        told.get_values_for_type(x509.DNSName) != list(names)
        or found.not_valid_after_utc - now < LIFE / 3
        or found.not_valid_before_utc > now
        or not any(_has_signed(each, found) for each in _split(kept.authorities))
    )


def _has_signed(authority: x509.Certificate, found: x509.Certificate) -> bool:
    try:
        found.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _make_authority(now: datetime) -> Certificates:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "evenkeel members")])
    made = (
        _begin_certificate(name, name, key.public_key(), now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_build_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificates(_write_certificate(made), _write_key(key), "", "")


def _issue(kept: Certificates, names: Sequence[str], now: datetime) -> Certificates:
    authority, signer = _split(kept.authorities)[0], _read_key(kept.authority_key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "evenkeel coordinator")])
    its = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    served = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    made = (
        _begin_certificate(authority.subject, subject, key.public_key(), now, LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_build_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(served, critical=False)
        .add_extension(its, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return replace(kept, certificate=_write_certificate(made), key=_write_key(key))


def _begin_certificate(
    issuer: x509.Name,
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _build_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _split(text: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(text.encode())


def _read_key(text: str) -> ec.EllipticCurvePrivateKey:
    found = serialization.load_pem_private_key(text.encode(), None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise TypeError("this is not a key of an elliptic curve")
    return found


def _write_certificate(found: x509.Certificate) -> str:
    return found.public_bytes(serialization.Encoding.PEM).decode()


def _write_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
