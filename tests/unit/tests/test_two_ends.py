"""The order in which two processes take the tests, and the tests that one process must keep."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest

from tests import two_ends
from tests.rule_checks import ROOT

UNIT, SPARK, OPERATOR = (
    f"tests/{folder}/test_it.py::test_it" for folder in ("unit", "real/spark", "real/cluster")
)


def test_tests_that_take_long_stand_at_both_ends() -> None:
    items: Any = [SimpleNamespace(nodeid=each) for each in (OPERATOR, UNIT, SPARK)]
    assert [each.nodeid for each in two_ends.in_order(items)] == [SPARK, UNIT, OPERATOR]


@pytest.mark.parametrize("folder", [*two_ends.FIRST, *two_ends.LAST])
def test_a_folder_that_is_named_is_there(folder: str) -> None:
    assert (ROOT / folder).is_dir()


class Worker:
    """One of the processes, with the files that it got."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices


def test_one_process_takes_files_from_the_beginning_and_the_other_from_the_end() -> None:
    files = [f"tests/{name}.py::test_it" for name in "abcd"]
    scheduling: Any = two_ends.FromTwoEnds.__new__(two_ends.FromTwoEnds)
    first, second = Worker("gw0"), Worker("gw1")
    scheduling.assigned_work = {}
    scheduling.registered_collections = {first: files, second: files}
    scheduling.workqueue = OrderedDict((file, {file: False}) for file in files)
    for worker in (first, second, first, second):
        scheduling._assign_work_unit(worker)
    assert (first.given, second.given) == ([0, 1], [3, 2])


def test_images_are_for_one_process() -> None:
    scheduling: Any = two_ends.FromTwoEnds.__new__(two_ends.FromTwoEnds)
    files = ("tests/images/test_from.py::test_it", "tests/images/test_images.py::test_it[a::b]")
    assert {scheduling._split_scope(each) for each in files} == {"tests/images"}
    assert scheduling._split_scope(UNIT) == "tests/unit/test_it.py"
