"""When certificates are renewed, and that members trust them at any time."""

import contextlib
import datetime
import socket
import ssl
import threading
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from evenkeel.cluster.members import certificate_store, certificates, documents
from evenkeel.cluster.members.certificates import AUTHORITY_LIFE, LIFE, Certificates
from evenkeel.cluster.members.documents import Place
from evenkeel.objects import Key

NOW = datetime.datetime.now(datetime.UTC)
NAMES = ["evenkeel-members.evenkeel.svc", "localhost"]
DAY = datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def made() -> Certificates:
    return certificates.renew(None, NAMES, NOW)


def shake_hands(served: Certificates, trusted: str, name: str = NAMES[0]) -> None:
    """Connect as a member does; raise if it does not trust the server."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate_store.load(server, served)
    client = ssl.create_default_context(cadata=trusted)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with (
            theirs,
            server.wrap_socket(theirs, server_side=True, do_handshake_on_connect=False) as it,
        ):
            try:
                it.do_handshake()
                it.recv(1)
            except (OSError, ssl.SSLError):
                return

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with ours, client.wrap_socket(ours, server_hostname=name):
            pass
    finally:
        thread.join()


def test_a_member_trusts_the_leader_under_its_names_only(made: Certificates) -> None:
    for name in NAMES:
        shake_hands(made, made.authorities, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(made, made.authorities, "other.evenkeel.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(made, certificates.renew(None, NAMES, NOW).authorities)


def test_what_is_young_and_whole_stays(made: Certificates) -> None:
    assert certificates.renew(made, NAMES, NOW + 200 * DAY) == made


def test_a_certificate_is_renewed_when_a_third_of_its_time_is_left(made: Certificates) -> None:
    later = certificates.renew(made, NAMES, NOW + LIFE * 2 / 3 + DAY)
    assert later.certificate != made.certificate
    assert (later.authorities, later.authority_key) == (made.authorities, made.authority_key)


def test_an_authority_is_known_for_months_before_it_signs(made: Certificates) -> None:
    """For thirty years, each new certificate's authority was in the list half a year earlier."""
    kept, lists, authorities = made, [made.authorities], set()
    for day in range(1, 30 * 365):
        before, kept = kept, certificates.renew(kept, NAMES, NOW + day * DAY)
        lists.append(kept.authorities)
        if kept.certificate != before.certificate:
            assert is_signed_by(kept.certificate, lists[max(0, day - 182)]), f"day {day}"
        authorities.add(kept.authority_key)
    assert len(authorities) == 4


def is_signed_by(certificate: str, authorities: str) -> bool:
    (found,) = x509.load_pem_x509_certificates(certificate.encode())
    for authority in x509.load_pem_x509_certificates(authorities.encode()):
        with contextlib.suppress(InvalidSignature):
            found.verify_directly_issued_by(authority)
            return found.not_valid_after_utc <= authority.not_valid_after_utc
    return False


def test_a_member_trusts_both_authorities_while_the_new_one_signs_nothing(
    made: Certificates,
) -> None:
    first = certificates.renew(made, NAMES, NOW + AUTHORITY_LIFE - 2 * LIFE + DAY)
    assert first.authorities.count("BEGIN CERTIFICATE") == 2
    assert first.authorities.endswith(made.authorities)
    assert is_signed_by(first.certificate, made.authorities)
    second = certificates.renew(first, NAMES, NOW + AUTHORITY_LIFE - LIFE)
    assert second.authorities == first.authorities
    assert second.certificate != first.certificate
    assert not is_signed_by(second.certificate, made.authorities)
    last = certificates.renew(second, NAMES, NOW + AUTHORITY_LIFE + DAY)
    assert made.authorities in last.authorities


def test_other_names_need_another_certificate(made: Certificates) -> None:
    renamed = certificates.renew(made, ["localhost"], NOW)
    assert renamed.authorities == made.authorities
    shake_hands(renamed, made.authorities, "localhost")


@pytest.mark.parametrize("part", ["authorities", "authority_key", "certificate", "key"])
def test_what_is_damaged_is_made_anew(made: Certificates, part: str) -> None:
    other = certificates.renew(None, NAMES, NOW)
    for damage in ("", "-----BEGIN", getattr(made, part)[:200], getattr(other, part)):
        found = certificates.renew(replace(made, **{part: damage}), NAMES, NOW)
        assert found.authorities != made.authorities or part == "certificate"
        shake_hands(found, found.authorities)


def test_a_secret_keeps_them(made: Certificates) -> None:
    place = Place(Key("evenkeel", "evenkeel-members"), "10.0.0.1", 8443)
    document = documents.build_secret(place, made, "7")
    assert document["metadata"]["resourceVersion"] == "7"
    assert documents.read_secret(document) == made
    del document["data"]["ca.key"]
    assert documents.read_secret(document) is None
    assert documents.read_secret({**document, "data": {"ca.crt": "%%%"}}) is None


@pytest.mark.parametrize(("address", "kind"), [("10.0.0.1", "IPv4"), ("fd00::1", "IPv6")])
def test_the_endpoint_is_this_pod(address: str, kind: str) -> None:
    place = Place(Key("evenkeel", "evenkeel-members"), address, 8443)
    found = documents.build_endpoint_slice(place)
    assert found["addressType"] == kind
    assert found["endpoints"][0]["addresses"] == [address]
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "evenkeel-members"
