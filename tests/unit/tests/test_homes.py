"""Which process takes which tests, and the tests that stay with one."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest

from tests import homes
from tests.rule_checks import ROOT


@pytest.mark.parametrize("folder", [each for folders in homes.HOMES for each in folders])
def test_a_folder_that_is_named_is_there(folder: str) -> None:
    assert (ROOT / folder).is_dir()


class Worker:
    """One of the processes, with the files that it got."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices


def test_each_process_begins_at_home_and_ends_with_what_others_have_left() -> None:
    places = ("unit/a", "unit/b", "real/spark/c", "real/cluster/d", "real/e", "real/spark/f")
    tests = [f"tests/{place}.py::test_it" for place in places]
    scheduling: Any = homes.FromHomes.__new__(homes.FromHomes)
    workers = [Worker(f"gw{number}") for number in range(3)]
    scheduling.assigned_work = {}
    scheduling.registered_collections = dict.fromkeys(workers, tests)
    scheduling.workqueue = OrderedDict((each.split("::")[0], {each: False}) for each in tests)
    for number in (0, 1, 2, 1, 2, 2):
        scheduling._assign_work_unit(workers[number])
    assert [worker.given for worker in workers] == [[2], [3, 0], [4, 1, 5]]


def test_images_are_for_one_process() -> None:
    scheduling: Any = homes.FromHomes.__new__(homes.FromHomes)
    tests = ("tests/images/test_from.py::test_it", "tests/images/test_images.py::test_it[a::b]")
    assert {scheduling._split_scope(each) for each in tests} == {"tests/images"}
    assert homes.find_home("tests/images") == 1
    assert scheduling._split_scope("tests/unit/test_it.py::test_it") == "tests/unit/test_it.py"
