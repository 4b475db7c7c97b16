"""`python -m lb_core`: a contract that other programs rely on."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lb_core import answers

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "rocketmq.json").read_text(encoding="utf-8"))
QUEUES = [["t", "b", number] for number in range(4)]


def ask(request: object) -> Any:
    """Answer one request inside this process."""
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    return json.loads(answers.answer(line, itertools.count().__next__))


def run(lines: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run the filter in a Python that sees only the checkout."""
    return subprocess.run(
        [sys.executable, "-S", "-m", "lb_core"],
        input=lines,
        capture_output=True,
        cwd=ROOT,
        check=True,
    )


def kind(answer: Any) -> str:
    found: str = answer["error"]["kind"]
    return found


def golden_requests() -> list[tuple[dict[str, Any], Any]]:
    cases = [(case, case["expected"]) for case in GOLDEN["cases"] + GOLDEN["calls"]]
    return cases + [(case, case["expectedQueueIds"]) for case in GOLDEN["pop"]["cases"]]


def test_every_golden_entry_is_answered_exactly() -> None:
    requests = golden_requests()
    lines = b"".join(json.dumps(request).encode() + b"\n" for request, _ in requests)
    found = [json.loads(line) for line in run(lines).stdout.splitlines()]
    assert len(found) == len(requests)
    for (request, expected), answer in zip(requests, found, strict=True):
        if isinstance(expected, dict) and "error" in expected:
            assert kind(answer) == expected["error"], request["id"]
        else:
            assert answer["assignment"] == expected, request["id"]
        if "unowned" in request:
            assert answer["unowned"] == request["unowned"], request["id"]


def test_every_line_has_one_answer_also_a_blank_a_broken_and_an_unended_one() -> None:
    done = run(
        b'\n\xff\xfe\n{"strategy"\n[]\nnull\n7\n"x"\n' + b"[" * 100_000 + b"\n" + b"9" * 5_000
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [kind(answer) for answer in found] == ["BadRequest"] * 9
    assert (done.stderr, done.returncode) == (b"", 0)


def test_an_answer_is_there_before_the_next_request_is_read() -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-S", "-m", "lb_core"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=buffered,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write(b"{}\n")
            process.stdin.flush()
            assert kind(json.loads(process.stdout.readline())) == "BadRequest"
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_a_reader_that_goes_away_ends_the_filter_without_a_traceback() -> None:
    with subprocess.Popen(
        [sys.executable, "-S", "-m", "lb_core"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"{}\n")
        process.stdin.close()
        assert process.stderr.read() == b""


def test_answers_are_ascii() -> None:
    answer = answers.answer(
        '{"strategy": "AVG", "queues": [["主题", "b", 0]], "consumers": ["消费者"]}'.encode(),
        itertools.count().__next__,
    )
    assert answer.isascii()
    assert json.loads(answer)["assignment"] == {"消费者": [0]}


def test_sticky_answers_in_places_of_the_request() -> None:
    """Queues can come in any order. The places in each list ascend."""
    answer = ask(
        {
            "strategy": "STICKY",
            "queues": QUEUES[::-1],
            "consumers": ["a", "b"],
            "previous": {"a": [0, 1, 2], "gone": [3]},
            "unknown": "fields are ignored",
        }
    )
    assert answer["assignment"] == {"a": [1, 2], "b": [0, 3]}
    assert answer["unowned"] == answer["deferred"] == []
    assert answer["moved"] == [0, 3]
    assert (answer["planMs"], answer["elapsedMs"]) == (1000.0, 3000.0)


def test_sticky_reads_its_settings() -> None:
    request = {
        "strategy": "STICKY",
        "queues": [["t", "x", 0, "z1"], ["t", "y", 0, "z2"], ["t", "y", 1, "z2"]],
        "consumers": [{"id": "a", "zone": "z1"}, {"id": "b", "zone": "z2", "capacity": 2}, "c"],
        "config": {"zones": "Require", "draining": ["c"], "pinned": ["a", "b", "c"]},
        "previous": {"c": [0, 1, 2]},
    }
    assert ask(request)["assignment"] == {"a": [0], "b": [1, 2], "c": []}
    capped = request | {"config": {"zones": "Ignore", "draining": ["c"], "maxMoves": "1%"}}
    assert len(ask(capped)["moved"]) == 1
    assert len(ask(capped)["deferred"]) == 2
    weighed = request | {"config": {"zones": "Ignore", "weights": [9, 1, 1], "minGain": "50%"}}
    assert ask(weighed)["moved"] == [0]


def test_sticky_without_consumers_leaves_all_unowned() -> None:
    answer = ask({"strategy": "STICKY", "queues": QUEUES, "consumers": [], "previous": {"a": [1]}})
    assert (answer["assignment"], answer["unowned"], answer["moved"]) == ({}, [0, 1, 2, 3], [1])


def test_sticky_answers_one_caller_with_queues() -> None:
    request = {"strategy": "STICKY", "queues": QUEUES, "consumers": ["a", "b"]}
    assert ask(request | {"caller": "b"}) == {"assignment": [["t", "b", 2], ["t", "b", 3]]}
    assert ask(request | {"caller": "x"}) == {"assignment": []}


def test_rocketmq_strategies_tell_moves_too() -> None:
    request = {
        "strategy": "AVG",
        "queues": QUEUES,
        "consumers": ["a", "b"],
        "previous": {"a": [0, 3], "b": [1], "x": [0, 1]},
    }
    answer = ask(request)
    assert (answer["moved"], answer["deferred"]) == ([1, 3], [])


def test_pinned_consumers_share_the_queues_of_any_strategy() -> None:
    request = {"strategy": "AVG", "queues": QUEUES, "consumers": ["a", "b", "c"]}
    pinned = request | {"config": {"pinned": ["a", "c"]}}
    assert ask(pinned)["assignment"] == {"a": [0, 1], "b": [], "c": [2, 3]}
    assert ask(pinned | {"caller": "b"}) == {"assignment": []}
    nobody = request | {"config": {"pinned": ["x"]}}
    assert ask(nobody)["unowned"] == [0, 1, 2, 3]


def test_pop_requests_know_pins_and_zones() -> None:
    request = {"popShareQueueNum": 1, "queues": 4, "consumers": ["a", "b", "c"]}
    pinned = request | {"config": {"pinned": ["a", "c"]}}
    assert ask(pinned)["assignment"] == {"a": [-1] * 4, "b": [], "c": [-1] * 4}
    zoned = {
        "popShareQueueNum": 1,
        "queues": [["t", "b", number, "z1"] for number in range(3)],
        "consumers": [{"id": name, "zone": "z1"} for name in "abc"],
        "inner": "MACHINE_ROOM_NEARBY",
        "config": {"inner": "AVG"},
    }
    assert ask(zoned)["assignment"] == {"a": [0, 1], "b": [1, 2], "c": [2, 0]}


def test_broadcasting_gives_everybody_everything() -> None:
    request = {"strategy": "BROADCASTING", "queues": QUEUES, "consumers": ["a", "b"]}
    assert ask(request)["assignment"] == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}


def test_repeated_queues_stay_two_places_for_rocketmq() -> None:
    request = {"strategy": "AVG", "queues": [QUEUES[0], QUEUES[0]], "consumers": ["a", "b"]}
    assert ask(request)["assignment"] == {"a": [0], "b": [1]}


STICKY: dict[str, Any] = {"strategy": "STICKY", "queues": QUEUES, "consumers": ["a", "b"]}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"strategy": "NOPE", "queues": QUEUES, "consumers": ["a"]}, "UnknownStrategy"),
        ({"strategy": None}, "BadRequest"),
        ({}, "BadRequest"),
        (STICKY | {"consumers": ["a", "a"]}, "DuplicateConsumer"),
        (STICKY | {"consumers": None}, "BadRequest"),
        (STICKY | {"consumers": [7]}, "BadRequest"),
        (STICKY | {"consumers": [""]}, "BadRequest"),
        (STICKY | {"consumers": [{"id": "a", "zone": 7}]}, "BadRequest"),
        (STICKY | {"consumers": [{"id": "a", "capacity": -1}]}, "BadCapacity"),
        (STICKY | {"consumers": [{"id": "a", "capacity": 1e999}]}, "BadCapacity"),
        (STICKY | {"queues": [QUEUES[0], QUEUES[0]]}, "DuplicateQueue"),
        (STICKY | {"queues": None}, "BadRequest"),
        (STICKY | {"queues": [["t", "b"]]}, "BadRequest"),
        (STICKY | {"queues": [["t", "b", 1.5]]}, "BadRequest"),
        (STICKY | {"queues": [["t", "b", True]]}, "BadRequest"),
        (STICKY | {"queues": [["t", "b", -1]]}, "BadRequest"),
        (STICKY | {"queues": [["t", "b", 2**31]]}, "BadRequest"),
        (STICKY | {"previous": {"a": [4]}}, "UnknownQueue"),
        (STICKY | {"previous": {"a": [-1]}}, "UnknownQueue"),
        (STICKY | {"previous": {"a": ["0"]}}, "BadRequest"),
        (STICKY | {"previous": {"a": 0}}, "BadRequest"),
        (STICKY | {"previous": []}, "BadRequest"),
        (STICKY | {"config": {"weights": [1]}}, "BadWeight"),
        (STICKY | {"config": {"weights": [1, 1, 1, -1]}}, "BadWeight"),
        (STICKY | {"config": {"weights": [1, 1, 1, "1"]}}, "BadWeight"),
        (STICKY | {"config": {"weights": [1, 1, 1, 10**400]}}, "BadWeight"),
        (STICKY | {"config": {"zones": "Sometimes"}}, "BadRequest"),
        (STICKY | {"config": {"minGain": "much"}}, "BadRequest"),
        (STICKY | {"config": {"maxMoves": "many"}}, "BadRequest"),
        (STICKY | {"config": {"maxMoves": -1}}, "BadRequest"),
        (STICKY | {"config": {"draining": "a"}}, "BadRequest"),
        (STICKY | {"config": {"pinned": [1]}}, "BadRequest"),
        (STICKY | {"config": 7}, "BadRequest"),
        (STICKY | {"caller": 7}, "BadRequest"),
        ({"strategy": "AVG", "queues": [], "consumers": ["a"]}, "IllegalArgumentException"),
        ({"strategy": "AVG", "queues": QUEUES, "consumers": []}, "IllegalArgumentException"),
        (
            {"strategy": "MACHINE_ROOM_NEARBY", "queues": QUEUES, "consumers": ["a-1"]},
            "NullPointerException",
        ),
        (
            {
                "strategy": "CONFIG",
                "queues": QUEUES,
                "consumers": ["a"],
                "config": {"queues": [["x", "y", 0]]},
            },
            "UnknownQueue",
        ),
        ({"popShareQueueNum": 1, "queues": 10**9, "consumers": ["a"]}, "BadRequest"),
        ({"popShareQueueNum": "1", "queues": 4, "consumers": ["a"]}, "BadRequest"),
        ({"popShareQueueNum": 1, "queues": -4, "consumers": ["a"]}, "BadRequest"),
        (b'{"strategy": NaN}', "BadRequest"),
        (
            json.dumps(STICKY | {"config": {"weights": [1, 1, 1, float("nan")]}}).encode(),
            "BadWeight",
        ),
        (
            {"strategy": "BROADCASTING", "queues": 2_001 * [QUEUES[0]]}
            | {"consumers": [str(number) for number in range(1_000)]},
            "BadRequest",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_by_name(request_: object, expected: str) -> None:
    answer = ask(request_)
    assert kind(answer) == expected
    assert len(answer["error"]["message"]) < 400


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (STICKY | {"previously": {}}, "there is no field previously; did you mean previous?"),
        (STICKY | {"Caller": "a"}, "there is no field Caller; did you mean caller?"),
        (
            STICKY | {"config": {"maxmoves": 1}},
            "no field config.maxmoves; did you mean config.maxMoves?",
        ),
        (STICKY | {"maxMoves": 1}, "there is no field maxMoves; did you mean config.maxMoves?"),
        (
            STICKY | {"config": {"min_gain": 1}},
            "no field config.min_gain; did you mean config.minGain?",
        ),
        (
            STICKY | {"consumers": [{"id": "a", "capacities": 2}]},
            "consumers: a: there is no field capacities; did you mean capacity?",
        ),
        (
            {"strategy": "CONSISTENT_HASH", "queues": QUEUES, "consumers": ["a"]}
            | {"config": {"virtualNode": 3}},
            "there is no field config.virtualNode; did you mean config.virtualNodes?",
        ),
        (
            {"popShareQueueNums": 1, "queues": QUEUES, "consumers": ["a"], "strategy": "AVG"},
            "there is no field popShareQueueNums; did you mean popShareQueueNum?",
        ),
        (
            {"popShareQueueNum": 1, "queues": 4, "consumers": ["a"], "iner": "AVG"},
            "there is no field iner; did you mean inner?",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_misspelt_field_is_refused_with_the_right_name(
    request_: dict[str, object], complaint: str
) -> None:
    answer = ask(request_)
    assert kind(answer) == "BadRequest"
    assert complaint in answer["error"]["message"]


def test_a_caller_may_keep_notes_of_its_own_in_a_request() -> None:
    request = STICKY | {"id": 7, "note": "the third try", "config": {"comment": "none"}}
    assert "assignment" in ask(request)


def test_a_hostile_name_of_a_megabyte_is_only_a_name() -> None:
    name = "x" * 1_000_000
    assert ask(STICKY | {"consumers": [name]})["assignment"] == {name: [0, 1, 2, 3]}
    refused = ask(STICKY | {"consumers": [name, name]})
    assert len(refused["error"]["message"]) < 400


@given(st.binary())
def test_any_bytes_are_answered(line: bytes) -> None:
    assert kind(ask(line)) in {"BadRequest", "UnknownStrategy"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
QUEUE = st.tuples(st.sampled_from("st"), st.sampled_from("ab"), st.integers(-1, 9)).map(list)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "strategy": st.sampled_from(["STICKY", "AVG", "CONSISTENT_HASH", "CONFIG"]) | JSON,
        "queues": st.lists(QUEUE, max_size=6) | JSON,
        "consumers": st.lists(st.sampled_from("abc") | JSON, max_size=4) | JSON,
        "config": st.dictionaries(
            st.sampled_from(
                ["zones", "weights", "minGain", "draining", "maxMoves", "pinned", "inner", "rooms",
                 "queues", "virtualNodes"]
            ),
            JSON | st.just(["a"]),
        )
        | JSON,
        "previous": st.dictionaries(st.sampled_from("abx"), st.lists(st.integers(-1, 6)) | JSON),
        "caller": st.sampled_from("abx") | JSON,
        "popShareQueueNum": st.integers(-1, 3) | JSON,
    },
)  # fmt: skip


@given(FIELDS)
def test_any_request_is_answered_or_refused_by_name(request_: dict[str, object]) -> None:
    """If STICKY answers, every queue is in exactly one list."""
    answer = ask(request_)
    assert kind(answer) != "Internal" if "error" in answer else "assignment" in answer
    if request_.get("strategy") == "STICKY" and "unowned" in answer:
        places = [place for mine in answer["assignment"].values() for place in mine]
        assert sorted(places + answer["unowned"]) == list(
            range(len(places) + len(answer["unowned"]))
        )


def test_who_asks_how_it_is_called_is_told_and_not_waited_for() -> None:
    def called(word: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-S", "-m", "lb_core", word],
            stdin=subprocess.DEVNULL, capture_output=True, cwd=ROOT, check=False,
        )  # fmt: skip

    ended = called("--help")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"usage: python -m lb_core")
    assert b"0002-the-filter.md" in ended.stdout
    assert called("requests.json").returncode == 64
