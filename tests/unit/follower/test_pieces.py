"""How the follower divides the messages of a pull for the handler."""

import random

from follower.pieces import Piece, cut
from mq_client.messages import StoredMessage, Unreadable
from mq_client.pulling import Batch
from mq_client.values import MessageQueue
from tests import stored

BLANK = StoredMessage("orders", "broker-a", 0, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)


def message(offset: int) -> StoredMessage:
    return BLANK._replace(queue_offset=offset)


def broken(offset: int) -> Unreadable:
    return Unreadable(message(offset), "wrong checksum", offset + 1)


def shape(pieces: "list[Piece]") -> list[tuple[int, int, list[int]]]:
    return [
        (each.first, each.stop, [message.queue_offset for message in each.messages])
        for each in pieces
    ]


def test_no_piece_is_larger_than_asked_for() -> None:
    found = cut(5, 10, [*map(message, range(5, 10))], (), 2)
    assert shape([*found]) == [(5, 7, [5, 6]), (7, 9, [7, 8]), (9, 10, [9])]


def test_offsets_that_a_filter_left_out_belong_to_the_piece_before_them() -> None:
    found = cut(0, 20, [*map(message, (3, 7, 12))], (), 2)
    assert shape([*found]) == [(0, 12, [3, 7]), (12, 20, [12])]


def test_a_pull_of_which_the_filter_left_nothing_is_one_empty_piece() -> None:
    assert shape([*cut(0, 20, (), (), 2)]) == [(0, 20, [])]


def test_a_message_that_cannot_be_read_is_a_piece_of_its_own() -> None:
    found = [*cut(0, 5, [*map(message, (0, 1, 3, 4))], [broken(2)], 10)]
    assert shape(found) == [(0, 2, [0, 1]), (2, 3, []), (3, 5, [3, 4])]
    assert [each.unreadable is not None for each in found] == [False, True, False]


def test_singles_are_about_the_same_offsets() -> None:
    piece = Piece(0, 9, tuple(map(message, (2, 5))))
    assert shape([*piece.cut_singles()]) == [(0, 5, [2]), (5, 9, [5])]


def test_pieces_of_anything_make_up_all_offsets(rng: random.Random) -> None:
    for _ in range(300):
        first = rng.randrange(100)
        stop = first + rng.randrange(1, 60)
        chosen = [each for each in range(first, stop) if rng.random() < 0.7]
        bad = {each for each in chosen if rng.random() < 0.1}
        good = [each for each in chosen if each not in bad]
        most = rng.randrange(1, 9)
        found = [*cut(first, stop, [*map(message, good)], map(broken, bad), most)]
        assert [each.first for each in found] == [first, *(each.stop for each in found[:-1])]
        assert found[-1].stop == stop
        assert all(len(each.messages) <= most for each in found)
        assert [one.queue_offset for each in found for one in each.messages] == good
        assert {each.unreadable.first for each in found if each.unreadable} == bad


def test_arrow_columns_are_cut_in_the_same_way() -> None:
    body = b"".join(stored.message(b"order %d" % each, offset=each) for each in range(5, 12))
    batch = Batch(MessageQueue("orders", "broker-a", 3), 5, 12, body)
    columns = batch.to_columns()
    found = [*cut(5, 12, columns, [], 3, batch)]
    assert [(each.first, each.stop, len(each.messages)) for each in found] == [
        (5, 8, 3), (8, 11, 3), (11, 12, 1),
    ]  # fmt: skip
    assert found[1].messages.column("body").to_pylist() == [b"order 8", b"order 9", b"order 10"]
    singles = [*found[1].cut_singles()]
    assert [each.begin for each in singles] == [8, 9, 10]
    assert singles[1].read_message() == batch.to_messages()[4]
