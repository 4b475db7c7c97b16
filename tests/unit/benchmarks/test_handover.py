"""How the handover benchmark evaluates messages that were sent and consumed, and shows results."""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.handover import job, members, pods, report, scene
from benchmarks.handover.consumers import Consumers
from benchmarks.handover.effects import Consumed, Effect, Mark, Outcome, Sent, measure
from benchmarks.handover.pods import Program
from benchmarks.handover.rounds import Rounds
from benchmarks.handover.sides import SIDES, list_figures
from generate import handover
from mq_client.values import MessageQueue
from sandbox.node.shop import BROKER

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
CALM, STORM = "calm", "storm"


def played(*consumed: Consumed, sent: Sent | None = None) -> Outcome:
    """Measure two events of ten seconds, CALM and STORM. Then queue TWO gets another owner."""
    marks = [
        Mark(CALM, 0.0, {ONE: "a", TWO: "a"}),
        Mark(STORM, 10.0, {ONE: "a", TWO: "a"}),
        Mark("the end", 20.0, {ONE: "a", TWO: "b"}),
    ]
    return measure(consumed, marks, sent or Sent([(0.0, 4)]))


def storm(*consumed: Consumed, sent: Sent | None = None) -> Effect:
    return played(*consumed, sent=sent).effects[STORM]


def read(at: float, queue: MessageQueue, *numbers: int, by: str = "a") -> Consumed:
    return Consumed(at, queue, numbers, [at] * len(numbers), by)


def test_a_standstill_counts_where_it_ends_and_queues_add_theirs_up() -> None:
    found = storm(
        read(8, ONE, 0), read(9, TWO, 1), read(12, ONE, 2), read(15, TWO, 3), read(16, ONE)
    )
    assert (found.standstill, found.queue_seconds) == (6.0, 10.0)
    assert played(read(8, ONE, 0), read(12, ONE, 1)).effects[CALM].standstill == 8.0


def test_a_new_queue_stands_still_from_the_begin_of_its_event_on() -> None:
    assert storm(read(9, ONE, 0), read(11, ONE, 1), read(13, TWO, 2)).standstill == 3.0


def test_what_comes_again_is_counted_when_it_comes_and_what_never_comes_is_lost() -> None:
    found = played(read(8, ONE, 0, 1), read(12, TWO, 1, 2))
    assert (found.duplicates, found.effects[STORM].duplicates) == (1, 1)
    assert (found.effects[CALM].duplicates, found.lost, found.sent) == (0, 1, 4)


def test_what_was_not_confirmed_may_be_missing() -> None:
    sent = Sent([(0.0, 4)], frozenset({3}))
    assert played(read(8, ONE, 0, 1, 2), read(12, TWO), sent=sent).lost == 0


def test_the_backlog_is_what_was_sent_and_not_consumed() -> None:
    sent = Sent([(1.0, 2), (11.0, 5), (12.0, 6)])
    found = played(read(2, ONE, 0), read(13, ONE, 1, 2, 3, 4), read(14, TWO, 5), sent=sent)
    assert (found.effects[CALM].backlog, found.effects[STORM].backlog) == (2, 5)


@pytest.mark.parametrize(
    ("reads", "seconds"),
    [
        ([read(12, TWO, 1, by="a")], None),
        ([read(12, TWO, 1, by="b")], 2.0),
        ([read(12, TWO, 1, by="b"), read(13, TWO, 2, by="a")], None),
        ([read(11, TWO, 1, by="a"), read(13, TWO, 2, by="b"), read(14, TWO, 3, by="b")], 3.0),
        ([read(13, ONE, 1, by="b"), read(17, TWO, 2, by="c")], 7.0),
    ],
)
def test_a_queue_is_taken_up_when_its_last_reader_begins(
    reads: list[Consumed], seconds: float | None
) -> None:
    assert storm(read(8, ONE, 0), read(8, TWO), *reads).taken_up == seconds


def test_queues_that_have_another_owner_afterwards_have_moved() -> None:
    assert storm(read(8, ONE, 0), read(12, ONE, 1)).moved == 1


def test_each_broker_has_its_own_standstill_and_the_longest_counts() -> None:
    other = MessageQueue("orders", "broker-b", 0)
    found = storm(
        read(9, ONE, 0), read(9, TWO), read(9, other),
        read(11, ONE, 1), read(12, TWO), read(16, other, 2),
    )  # fmt: skip
    assert found.standstills == {"broker-a": 3.0, "broker-b": 7.0}
    assert found.standstill == 7.0
    assert found.find_standstill_beside("broker-b") == 3.0


def test_the_delay_is_what_99_of_100_messages_do_not_exceed() -> None:
    times = [15 - number / 100 for number in range(1, 201)]
    found = played(read(9, ONE), Consumed(15, ONE, range(200), times, "a"))
    assert found.effects[STORM].delay == pytest.approx(1.98)
    assert found.effects[STORM].median_delay == pytest.approx(1.0)
    assert found.effects[CALM].delay is None


def test_the_others_are_all_owners_but_the_last_which_faults_strike() -> None:
    found = measure(
        [read(9, ONE, 0), read(9, TWO, 1), read(17, ONE, 2), read(12, TWO, 3)],
        [Mark(STORM, 8.0, {ONE: "a", TWO: "b"}), Mark("the end", 20.0, {})],
        Sent([(0.0, 4)]),
    ).effects[STORM]
    assert (found.standstill, found.standstill_of_others) == (8.0, 8.0)


def test_the_lines_of_a_consumer_are_what_it_consumed(tmp_path: Path) -> None:
    line = (
        '{"ms": 1500, "broker": "broker-a", "queue": 1, "numbers": [4, 5], "stored": [1250, 1500]}'
    )
    (tmp_path / "orders-0.77").write_text(f"a warning of Java\n{line}\n{line[:20]}")
    crew = Crew()
    with contextlib.ExitStack() as struck:
        side = Consumers(crew, print, "orders", tmp_path, struck, queues=8)
        assert side.list_consumed() == [Consumed(1.5, TWO, [4, 5], [1.25, 1.5], "orders-0.77")]
        assert side.find_owners() == {TWO: "orders-0"}
        side.finish(Sent([(0.0, 6)], frozenset({0, 1, 2, 3})))
    assert crew.sizes == [0]


def test_members_mount_what_the_example_mounts_and_rocketmqs_own_consumers_do_not(
    tmp_path: Path,
) -> None:
    member = members.make_program("image", "follow", {"/code": tmp_path})
    alone = Program("image", "push", {"/classes": tmp_path})
    found = [
        pods.build("orders", program, tmp_path)["spec"]["template"]["spec"]
        for program in (member, alone)
    ]
    mounts = [
        {each["mountPath"]: each["readOnly"] for each in spec["containers"][0]["volumeMounts"]}
        for spec in found
    ]
    assert mounts == [
        {"/code": True, "/said": False, "/var/run/evenkeel": True},
        {"/classes": True, "/said": False},
    ]
    volumes = [{each["name"] for each in spec["volumes"]} for spec in found]
    assert volumes == [{"folder-0", "folder-1", "evenkeel"}, {"folder-0", "folder-1"}]
    assert {each["name"] for each in found[0]["containers"][0]["env"]} >= {
        "POD_NAME",
        "COORDINATOR",
    }
    for path in (members.TOKEN, members.AUTHORITIES):
        assert Path(path).parent == Path("/var/run/evenkeel")


class Crew:
    """A crew without processes. It records the sizes that it gets."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def scale(self, count: int) -> None:
        self.sizes.append(count)

    def kill(self, seat: str) -> None:
        raise AssertionError(f"no story kills {seat}")


def make_outcome(still: float, events: Iterable[str], duplicates: int = 0) -> Outcome:
    """Make a round in which queues of the first broker stand still twice as long as the others."""
    standstills = {BROKER: 2 * still, "rocketmq-broker-1": still}
    effect = Effect(
        duplicates,
        standstills,
        8 * still,
        40,
        0,
        None,
        still / 2,
        still / 3,
        {"a": still / 2, "b": still},
    )
    effects = dict.fromkeys(events, effect)
    return Outcome(effects, sent=400, lost=0, duplicates=duplicates * len(effects))


def make_rounds(name: str, *outcomes: Outcome) -> Rounds:
    return Rounds(SIDES[name].name, outcomes)


@pytest.fixture
def all_played() -> dict[str, Rounds]:
    """All sides; Evenkeel's consumers meet every target."""
    return {
        "job": make_rounds("job", make_outcome(0.5, job.EVENTS), make_outcome(0.6, job.EVENTS)),
        "flow": make_rounds("flow", make_outcome(0.05, job.EVENTS)),
        "python": make_rounds("python", make_outcome(0.1, scene.EVENTS)),
        "java": make_rounds("java", make_outcome(0.1, scene.EVENTS)),
        "plain": make_rounds("plain", make_outcome(70.0, scene.EVENTS, duplicates=50)),
    }


def test_every_target_belongs_to_a_side_and_rocketmqs_side_has_none(
    all_played: dict[str, Rounds],
) -> None:
    figures = list(list_figures(all_played))
    assert [each.name for each in figures if not each.is_ok] == []
    counts = Counter(each.name.partition(":")[0] for each in figures)
    assert counts == {"Spark job": 23, "Spark flow": 13, "Python follower": 15, "Java follower": 15}


@pytest.mark.parametrize(
    ("event", "worse", "missed"),
    [
        (scene.JOIN, {"standstills": {BROKER: 0.51}}, "longest gap, one joins"),
        (scene.KILL, {"standstills": {BROKER: 1.31}}, "longest gap, one is killed"),
        (scene.FREEZE, {"standstills": {BROKER: 12.1}}, "longest gap, one is frozen"),
        (scene.ADD, {"standstills": {BROKER: 2.1}}, "longest gap, queues are added"),
        (scene.BROKER, {"standstills": {BROKER: 9.0, "b": 0.31}},
         "longest gap, a broker is killed, queues of others"),
        (scene.QUIET, {"delay": 0.051}, "stored until read, 99 %, quiet"),
        (scene.LEAVE, {"duplicates": 1}, "messages read twice, one leaves"),
        (scene.THAW, {"duplicates": 21}, "messages read twice, it is thawed"),
        (scene.KILL, {"duplicates": 100}, None),
        (scene.BROKER, {"standstills": {BROKER: 60.0, "b": 0.3}}, None),
    ],
)  # fmt: skip
def test_a_member_misses_the_target_of_the_event_that_went_wrong(
    event: str, worse: dict[str, Any], missed: str | None
) -> None:
    good = make_outcome(0.1, scene.EVENTS)
    bad = replace(good, effects={**good.effects, event: replace(good.effects[event], **worse)})
    figures = list_figures({"java": make_rounds("java", good, bad)})
    expected = [] if missed is None else [f"Java follower: {missed}"]
    assert [each.name for each in figures if not each.is_ok] == expected


def test_the_overview_has_a_column_per_side_and_the_worst_round(
    all_played: dict[str, Rounds],
) -> None:
    lines = list(report.make_tables(all_played))
    cells = [re.split(" {2,}", line) for line in lines[: len(job.EVENTS) + 1]]
    assert cells[0] == ["longest gap, s", *(side.name for side in SIDES.values())]
    assert cells[1] == [scene.QUIET, "1.20", "0.10", "0.20", "0.20", "140.00"]
    assert cells[-1] == [job.DRIVER_CUT, "1.20", "0.10", "-", "-", "-"]


def test_the_page_describes_the_sides_that_have_played(all_played: dict[str, Rounds]) -> None:
    played = {name: all_played[name] for name in ("python", "plain")}
    page = report.format_page("make", played, list(report.make_tables(played)), [])
    assert "- Python follower: " in page
    assert "- DefaultMQPushConsumer: " in page
    assert "Spark job" not in page


@pytest.mark.parametrize("names", [["job", "plain"], ["python", "java"], [*SIDES]])
def test_the_table_of_the_readme_has_a_column_for_each_side_that_has_played(
    all_played: dict[str, Rounds], names: list[str]
) -> None:
    results = "\n".join(report.make_tables({name: all_played[name] for name in names}))
    table = [line.strip("| ").split(" | ") for line in handover.make_table(results).splitlines()]
    columns = [handover.SIDES[SIDES[name].name] for name in names]
    assert table[0] == columns
    still = {
        "job": "1.2 s",
        "flow": "0.1 s",
        "python": "0.2 s",
        "java": "0.2 s",
        "plain": "140.0 s",
    }
    found = [still[name] for name in names]
    best = found if len(set(found)) == 1 else [
        f"**{each}**" if each == min(found, key=lambda it: float(it[:-2])) else each
        for each in found
    ]  # fmt: skip
    assert table[2][1:] == best


RESULTS = """
quiet
  Spark job                       0       0        0.11   1.42     11.4    11.4    1,080         -
  DefaultMQPushConsumer           0       0        0.11   0.21      1.5     1.5       55         -
one is frozen
  Spark job                       0       0       0.11   10.87     86.9    86.9    4,600     174.9
  DefaultMQPushConsumer           5       4      0.11   137.81    552.4   552.4   27,560     137.8
one is cut off
  Spark job                       0       0       0.11   10.13     81.1    81.1    4,200      40.0
  DefaultMQPushConsumer          17       4      0.11   116.45    466.4   466.4   23,280     116.4
queues are added
  Spark job                       0       0        0.11   1.86     17.4    17.4      680       1.9
  DefaultMQPushConsumer           0       0       0.11   37.33    111.1   111.1    2,446      37.3
a broker is killed
  Spark job                       0       0       0.11   45.23    542.8   542.8   18,675         -
  DefaultMQPushConsumer           0       0        0.11   8.33     51.3    51.3      240         -

Spark job, round 1: sent 217,720, lost 0, duplicated 0
Spark job, round 2: sent 217,720, lost 0, duplicated 3
DefaultMQPushConsumer, round 1: sent 188,640, lost 0, duplicated 56,483
DefaultMQPushConsumer, round 2: sent 188,640, lost 0, duplicated 1,000
"""


def test_the_table_of_the_readme_has_one_number_a_cell_of_the_worst_round() -> None:
    cells = [line.split(" | ")[1:] for line in handover.make_table(RESULTS).splitlines()[2:]]
    assert cells == [
        ["**10.9 s**", "137.8 s |"],
        ["**10.1 s**", "116.5 s |"],
        ["**1.9 s**", "37.3 s |"],
        ["**3**", "56,483 |"],
        ["1.4 s", "**0.2 s** |"],
        ["45.2 s", "**8.3 s** |"],
    ]


def test_a_page_of_results_without_an_event_is_an_error() -> None:
    without = RESULTS.replace("one is frozen", "one is thawed")
    with pytest.raises(ValueError, match="one is frozen"):
        handover.make_table(without)
