"""A follower trusts the authorities that a file contains at the moment of the request."""

import datetime
from pathlib import Path

import pytest

from evenkeel.cluster.members import certificates
from follower.options import FollowerError
from follower.trust import TrustFile


def make_authorities() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return certificates.renew(None, ["localhost"], now).authorities


def test_the_file_is_read_again_and_a_new_one_is_trusted(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(make_authorities())
    trust = TrustFile(file)
    first = trust.read()
    assert trust.read() is first
    file.write_text(make_authorities())
    second = trust.read()
    assert second is not first
    assert len(second.get_ca_certs()) == 1


@pytest.mark.parametrize("text", [None, b"", b"no certificate", b"\xff", b"-----BEGIN CERTIFICATE"])
def test_a_file_without_authorities_is_refused(tmp_path: Path, text: bytes | None) -> None:
    file = tmp_path / "ca.crt"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(FollowerError, match=r"the authorities in .*ca\.crt cannot be used"):
        TrustFile(file)


def test_a_file_that_is_damaged_later_is_refused_until_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    whole = make_authorities()
    file.write_text(whole)
    trust = TrustFile(file)
    file.write_text(whole[:100])
    with pytest.raises(FollowerError):
        trust.read()
    file.write_text(whole)
    assert trust.read().get_ca_certs()
