"""Calls that wait on a connection, and what ends the wait."""

import struct

import pytest

from mq_client import frames
from mq_client.acl import Credentials, sign
from mq_client.commands.offsets import GetMaxOffset
from mq_client.connection import Connection
from mq_client.frames import Frame

ASKED = GetMaxOffset("orders", 3)


class Peer:
    """The other end: it receives frames, and answers."""

    def __init__(self, credentials: Credentials | None = None) -> None:
        self.connection: Connection[str] = Connection(credentials)
        self.answers: list[tuple[str, Frame]] = []
        self.asked: list[Frame] = []

    def hears(self, waiter: str, now: float = 0, deadline: float = 5) -> Frame:
        return parse(self.connection.request(ASKED, waiter, now, deadline))

    def says(self, frame: Frame, now: float = 1) -> bytes:
        data = frames.encode(frame)
        self.connection.reader.get_space()[: len(data)] = data
        return self.connection.receive(
            len(data), now, lambda *pair: self.answers.append(pair), self.asked.append
        )


def parse(data: bytes) -> Frame:
    assert struct.unpack_from(">I", data)[0] == len(data) - 4
    return frames.parse(memoryview(data)[4:])


def test_answers_find_who_waits_in_any_order() -> None:
    peer = Peer()
    first, second = peer.hears("first"), peer.hears("second")
    peer.says(Frame(0, second.opaque, frames.ANSWER, {"offset": "2"}))
    peer.says(Frame(0, first.opaque, frames.ANSWER, {"offset": "1"}))
    assert [(who, frame.fields["offset"]) for who, frame in peer.answers] == [
        ("second", "2"),
        ("first", "1"),
    ]
    assert peer.connection.is_idle


def test_the_peers_own_request_is_no_answer_even_under_a_number_of_ours() -> None:
    peer = Peer()
    heard = peer.hears("first")
    reply = peer.says(Frame(40, heard.opaque, frames.ONE_WAY, {"consumerGroup": "g"}))
    assert (reply, peer.answers, peer.asked[0].code) == (b"", [], 40)
    assert not peer.connection.is_idle


def test_a_request_of_the_peer_that_waits_is_told_that_it_is_unknown() -> None:
    reply = parse(Peer().says(Frame(307, 77)))
    assert (reply.code, reply.opaque, reply.is_answer) == (3, 77, True)


def test_an_answer_is_given_once_and_a_late_one_to_nobody() -> None:
    peer = Peer()
    heard = peer.hears("first", deadline=5)
    assert peer.connection.expire(4.9) == ([], False)
    assert peer.connection.expire(5)[0] == ["first"]
    peer.says(Frame(0, heard.opaque, frames.ANSWER))
    assert peer.answers == []


def test_a_peer_that_said_nothing_since_the_request_is_called_silent() -> None:
    peer = Peer()
    peer.hears("first", now=10, deadline=15)
    assert peer.connection.expire(15) == (["first"], True)


def test_a_peer_that_answered_others_meanwhile_is_not_silent() -> None:
    peer = Peer()
    peer.hears("slow", now=10, deadline=15)
    quick = peer.hears("quick", now=11, deadline=16)
    peer.says(Frame(0, quick.opaque, frames.ANSWER), now=12)
    assert peer.connection.expire(15) == (["slow"], False)


def test_only_those_whose_time_is_over_stop_waiting() -> None:
    peer = Peer()
    peer.hears("short", deadline=2)
    peer.hears("long", deadline=9)
    assert peer.connection.next_deadline == 2
    assert peer.connection.expire(3)[0] == ["short"]
    assert peer.connection.next_deadline == 9


def test_the_end_of_the_connection_ends_every_wait() -> None:
    peer = Peer()
    peer.hears("first")
    peer.hears("second")
    assert peer.connection.end() == ["first", "second"]
    assert peer.connection.is_idle


def test_requests_are_signed_when_there_are_credentials() -> None:
    who = Credentials("me", "secret", "token")
    heard = Peer(who).hears("first")
    fields = {"topic": "orders", "queueId": "3"}
    assert heard.fields == sign(fields, b"", who)
    assert set(heard.fields) == {*fields, "AccessKey", "SecurityToken", "Signature"}


def test_the_signature_covers_fields_and_body() -> None:
    who = Credentials("me", "secret")
    base = sign({"a": "1", "b": "2"}, b"body", who)["Signature"]
    assert base != sign({"a": "1", "b": "3"}, b"body", who)["Signature"]
    assert base != sign({"a": "1", "b": "2"}, b"bodY", who)["Signature"]
    assert base == sign({"b": "2", "a": "1"}, b"body", who)["Signature"]


def test_a_secret_does_not_show() -> None:
    assert "secret" not in repr(Credentials("me", "secret", "also secret"))


@pytest.mark.parametrize(("access", "secret"), [("", "x"), ("x", "")])
def test_half_a_pair_of_keys_is_refused(access: str, secret: str) -> None:
    with pytest.raises(ValueError, match="access key and a secret key"):
        Credentials(access, secret)
