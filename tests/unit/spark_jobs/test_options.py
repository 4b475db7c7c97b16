"""Options are read and checked before anything runs, and errors name the option."""

import re
from pathlib import Path

import pytest

from mq_client import filters
from mq_client.acl import Credentials
from mq_client.errors import UsageError
from mq_client.values import MessageQueue
from spark_jobs import options
from spark_jobs.options import QueueEdge, Reading, StartOrEnd

GUIDE = Path(__file__).parents[3] / "docs" / "spark.md"
LEAST = {"nameServers": "mq:9876", "topics": "orders"}


def stream(**given: str) -> Reading:
    return options.parse_reading(LEAST | given, is_stream=True)


def bounded(**given: str) -> Reading:
    return options.parse_reading(LEAST | given, is_stream=False)


# --- defaults


def test_a_stream_without_a_group_starts_at_the_end_and_commits_nothing() -> None:
    reading = stream()
    assert (reading.start, reading.commits) == (StartOrEnd(QueueEdge.LATEST), False)
    assert reading.group == "evenkeel-source"
    assert reading.wanted == filters.EVERYTHING
    assert reading.fail_on_data_loss
    assert not reading.include_properties
    assert (reading.most_messages, reading.most_bytes) == (None, None)


def test_a_stream_of_a_group_starts_where_the_group_stands_and_commits() -> None:
    reading = stream(group="billing")
    assert (reading.start, reading.commits) == (StartOrEnd(QueueEdge.GROUP), True)
    assert reading.group == "billing"


def test_a_bounded_read_goes_from_the_earliest_to_the_latest_and_commits_nothing() -> None:
    reading = bounded()
    assert (reading.start, reading.end) == (
        StartOrEnd(QueueEdge.EARLIEST),
        StartOrEnd(QueueEdge.LATEST),
    )
    assert not bounded(group="billing").commits
    assert bounded(group="billing").start == StartOrEnd(QueueEdge.GROUP)


def test_the_group_of_an_empty_text_is_none() -> None:
    assert stream(group=" ") == stream()


def test_names_of_options_are_taken_in_any_case() -> None:
    given = {name.lower(): value for name, value in LEAST.items()}
    assert options.parse_reading(given | {"GROUP": "billing"}, is_stream=True) == stream(
        group="billing"
    )


# --- values


def test_name_servers_are_parted_by_semicolons() -> None:
    assert stream(nameServers=" a:1 ; [::1]:2 ;").cluster.name_servers == "a:1;[::1]:2"


def test_topics_are_a_list_with_commas() -> None:
    assert stream(topics=" orders, payments ,,").topics == ("orders", "payments")


def test_a_pattern_stands_instead_of_topics() -> None:
    given = {"nameServers": "mq:9876", "topicPattern": "order.*"}
    reading = options.parse_reading(given, is_stream=True)
    assert (reading.topics, reading.pattern) == ((), "order.*")


def test_a_filter_is_one_of_tags_or_of_sql() -> None:
    assert stream(tags="paid || refunded").wanted == filters.match_tags("paid || refunded")
    assert stream(sqlFilter="amount > 10").wanted == filters.match_sql("amount > 10")


def test_limits_flags_and_times_are_read() -> None:
    reading = stream(
        maxMessagesPerBatch="10", maxBytesPerBatch=" 20 ", failOnDataLoss="False",
        includeProperties="TRUE", requestTimeout="2s", fetchDeadline="1.5",
    )  # fmt: skip
    assert (reading.most_messages, reading.most_bytes) == (10, 20)
    assert (reading.fail_on_data_loss, reading.include_properties) == (False, True)
    assert (reading.cluster.request_timeout, reading.cluster.fetch_deadline) == (2.0, 1.5)


def test_credentials_are_read_and_the_secret_shows_nowhere() -> None:
    reading = stream(accessKey="keeper", secretKey="hush-hush")
    assert reading.cluster.credentials == Credentials("keeper", "hush-hush")
    assert "hush-hush" not in repr(reading)


def test_tls_is_on_off_or_a_file_of_authorities(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.touch()
    assert [stream(tls=text).cluster.tls for text in ("true", "false", str(authorities))] == [
        "true", "false", str(authorities),
    ]  # fmt: skip
    assert stream().cluster.tls == "false"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("2026-11-21T08:00:00.123Z", 1795248000123),
        ("2026-11-21T10:00:00.001+02:00", 1795248000001),
        ("1795248000000", 1795248000000),
    ],
)
def test_a_time_is_rfc_3339_or_milliseconds(text: str, expected: int) -> None:
    """The time is exact even where a float would lose a millisecond."""
    assert stream(startTimestamp=text).start == StartOrEnd(QueueEdge.TIMESTAMP, expected)
    assert bounded(endTimestamp=text).end == StartOrEnd(QueueEdge.TIMESTAMP, expected)


def test_every_millisecond_of_a_second_is_read_exactly() -> None:
    for number in range(1000):
        place = stream(startTimestamp=f"2026-11-21T08:00:00.{number:03}Z").start
        assert place.timestamp_ms == 1795248000000 + number


@pytest.mark.parametrize("edge", ["earliest", "latest", "Earliest"])
def test_a_start_is_an_edge(edge: str) -> None:
    assert stream(startFrom=edge).start == StartOrEnd(QueueEdge(edge.lower()))


def test_a_start_is_the_group_or_a_time() -> None:
    assert stream(startFrom="group", group="billing").start == StartOrEnd(QueueEdge.GROUP)
    place = StartOrEnd(QueueEdge.TIMESTAMP, 7)
    assert stream(startFrom="timestamp", startTimestamp="7").start == place


def test_a_start_is_offsets_and_an_edge_for_all_other_queues() -> None:
    text = '{"orders": {"broker-a": {"0": 23, "1": -1, "2": -2}}}'
    offsets = {MessageQueue("orders", "broker-a", 0): 23, MessageQueue("orders", "broker-a", 1): -1,
               MessageQueue("orders", "broker-a", 2): -2}  # fmt: skip
    assert stream(startFrom=text).start == StartOrEnd(QueueEdge.LATEST, offsets=offsets)
    assert bounded(startFrom=text).start == StartOrEnd(QueueEdge.EARLIEST, offsets=offsets)
    assert bounded(endAt=text).end == StartOrEnd(QueueEdge.LATEST, offsets=offsets)
    assert stream(startFrom=text, group="billing").start == StartOrEnd(
        QueueEdge.EARLIEST, offsets=offsets
    )


# --- errors


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nameServers": ""}, "option nameServers is missing; an example is 'localhost:9876'"),
        ({"topics": ""}, "give either topics"),
        ({"topics": " , "}, "give either topics"),
        ({"topicPattern": ".*"}, "give either topics"),
        ({"topics": "", "topicPattern": "("}, "topicPattern: '(' is not a regular expression"),
        ({"nameserver": "x"}, "option 'nameserver' is unknown here; did you mean nameServers?"),
        ({"qwertyuiop": "x"}, "option 'qwertyuiop' is unknown here"),
        ({"accessKey": "x"}, "accessKey and secretKey belong together"),
        ({"secretKey": "x"}, "accessKey and secretKey belong together"),
        ({"tls": "yes"}, "tls: 'yes' is neither true nor false, nor a file"),
        ({"requestTimeout": "soon"}, "requestTimeout: 'soon' is not a time in seconds"),
        ({"fetchDeadline": "0"}, "fetchDeadline: '0' is not a time"),
        ({"fetchDeadline": "nan"}, "fetchDeadline: 'nan' is not a time"),
        ({"fetchDeadline": "inf"}, "fetchDeadline: 'inf' is not a time"),
        ({"tags": "a", "sqlFilter": "b > 1"}, "give either tags or sqlFilter"),
        ({"tags": "a || || b"}, "separate tags by ||"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss: 'maybe' is neither true nor false"),
        ({"includeProperties": "1"}, "includeProperties: '1' is neither true nor false"),
        ({"startFrom": "group"}, "startFrom: 'group' needs the option group"),
        ({"startFrom": "begin"}, "startFrom: 'begin' is neither one of earliest, latest, group"),
        ({"startFrom": "[1]"}, "startFrom: '[1]' is neither one of"),
        ({"nameServers": "a:1, b:2"}, "nameServers: 'a:1, b:2' has commas; separate name servers"),
        ({"nameServers": "a:1,b:2"}, "nameServers: 'a:1,b:2' has commas; separate name servers"),
        ({"nameServers": "a:1 b:2"}, "nameServers: 'a:1 b:2' is not an address"),
        ({"nameServers": "mq"}, "nameServers: 'mq' is not an address"),
        ({"orderingKey": "x"}, "option 'orderingKey' is for the sink"),
        ({"startFrom": "timestamp"}, "startFrom=timestamp and startTimestamp belong together"),
        (
            {"startFrom": "latest", "startTimestamp": "7"},
            "startFrom=timestamp and startTimestamp belong together",
        ),
        ({"startTimestamp": "yesterday"}, "startTimestamp: 'yesterday' is not a time, as in"),
        ({"startTimestamp": "2026-11-21T08:00:00"}, "is not a time, as in"),
        ({"startFrom": "{"}, "startFrom: '{' is not JSON (Expecting property name"),
        ({"startFrom": "{'orders': {}}"}, "offsets look like {"),
        ({"startFrom": '{"orders": 7}'}, "startFrom: the brokers of topic 'orders' must be an"),
        (
            {"startFrom": '{"orders": {"a": {"0": -3}}}'},
            "startFrom: topic 'orders', broker 'a', queue '0': -3 is not an offset of at least -2; "
            "-2 is the earliest offset, -1 the latest",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "batch"])
def test_what_cannot_be_is_an_error_that_names_the_option(
    given: dict[str, str], said: str, is_stream: bool
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        options.parse_reading(LEAST | given, is_stream)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "1e3", "²"])
@pytest.mark.parametrize("name", ["maxMessagesPerBatch", "maxBytesPerBatch"])
def test_a_limit_is_a_whole_number_above_0(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: '{value}' is not a whole number above 0"):
        stream(**{name: value})


@pytest.mark.parametrize("edge", ["group", "earliest"])
def test_an_end_is_not_at_the_start(edge: str) -> None:
    with pytest.raises(UsageError, match=f"endAt: '{edge}' is not an end; use latest"):
        bounded(endAt=edge)


@pytest.mark.parametrize("name", ["endAt", "endTimestamp", "ENDAT"])
def test_a_stream_has_no_end(name: str) -> None:
    said = rf"option '{name}' is for a batch read \(spark.read\), not for a stream"
    with pytest.raises(UsageError, match=said):
        stream(**{name: "latest"})


@pytest.mark.parametrize("name", ["maxMessagesPerBatch", "maxBytesPerBatch"])
def test_a_bounded_read_has_no_batches_to_limit(name: str) -> None:
    with pytest.raises(UsageError, match=f"option '{name}' is for a stream"):
        bounded(**{name: "10"})


# --- the sink


def test_a_sink_needs_name_servers_only() -> None:
    sending = options.parse_sending({"nameServers": "mq:9876"})
    assert (sending.topic, sending.group, sending.ordering_key) == (None, "evenkeel-sink", None)


def test_a_sinks_options_are_read() -> None:
    given = {"nameServers": "mq:9876", "topic": "orders", "group": "g", "orderingKey": "customer"}
    sending = options.parse_sending(given)
    assert (sending.topic, sending.group, sending.ordering_key) == ("orders", "g", "customer")


def test_a_sink_passes_over_sparks_own_option() -> None:
    options.parse_sending({"nameServers": "mq:9876", "checkpointLocation": "/x"})


def test_a_sink_refuses_what_is_not_its_own() -> None:
    with pytest.raises(
        UsageError, match=r"option 'topics' is for .*, not for the sink .*; did you mean topic\?"
    ):
        options.parse_sending({"nameServers": "mq:9876", "topics": "orders"})


# --- the guide


def test_the_guides_table_lists_the_options_and_where_they_apply() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([a-z, ]+) \|", GUIDE.read_text("utf-8"), re.MULTILINE)
    told = {name: set(where.split(", ")) for name, where in rows}
    taken = {"stream": options.STREAM, "batch": options.BATCH, "sink": options.SINK}
    names = {name for group in taken.values() for name in group}
    assert told == {
        name: {where for where, group in taken.items() if name in group} for name in names
    }
    assert len(rows) == len(names)
