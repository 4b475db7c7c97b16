"""Runs operators as processes, on a real API server, with a namespace for each test."""

import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from sandbox.kubernetes import Cluster
from tests.real.cluster import running
from tests.real.cluster.running import Namespace, RunningOperator

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Shared:
    """An operator, and those of its namespaces that no test has used yet."""

    operator: RunningOperator
    left: list[Namespace]


@pytest.fixture(scope="module")
def shared(kubernetes: Cluster, request: pytest.FixtureRequest) -> Iterator[Shared]:
    """One operator for the tests of a file that need it, and a namespace for each such test."""
    tests = [each for each in request.session.items if each.path == request.path]
    count = sum("shared" in getattr(each, "fixturenames", ()) for each in tests)
    file = request.path.stem.removeprefix("test_").replace("_", "-")
    names = [f"t{next(_numbers)}-{file}" for _ in range(count)]
    spaces = [running.make_namespace(kubernetes.admin, name) for name in names]
    first, *others = names
    options = [word for name in others for word in ("--namespace", name)]
    with RunningOperator(kubernetes.admin.kubeconfig, first, *options) as operator:
        operator.wait_until_ready()
        yield Shared(operator, spaces)


@pytest.fixture
def make_namespace(
    kubernetes: Cluster, request: pytest.FixtureRequest
) -> Callable[[str], Namespace]:
    """Make namespaces that only this test uses."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())

    def make(suffix: str) -> Namespace:
        name = f"t{next(_numbers)}-{words[:25].strip('-')}{suffix and f'-{suffix}'}"
        return running.make_namespace(kubernetes.admin, name)

    return make


@pytest.fixture
def namespace(
    request: pytest.FixtureRequest, make_namespace: Callable[[str], Namespace]
) -> Iterator[Namespace]:
    """An empty namespace that the test's operator watches and no other test uses."""
    if "shared" not in request.fixturenames:
        yield make_namespace("")
        return
    shared: Shared = request.getfixturevalue("shared")
    found = shared.left.pop()
    yield found
    found.empty()
    shared.operator.until_forgotten(found.name)


@pytest.fixture
def operator(shared: Shared) -> Iterator[RunningOperator]:
    """A ready operator, which other tests of the file use too: leave it as it is."""
    shared.operator.wait_until_ready()  # needed if the API server was down meanwhile
    begun = len(shared.operator.log)
    yield shared.operator
    sys.stdout.write(shared.operator.log[begun:])  # pytest shows the log if the test has failed


@pytest.fixture
def own_operator(kubernetes: Cluster, namespace: Namespace) -> Iterator[RunningOperator]:
    """A ready operator that watches only this test's namespace; the test may kill it."""
    with contextlib.ExitStack() as running:
        found = RunningOperator(kubernetes.admin.kubeconfig, namespace.name)
        running.enter_context(found)
        found.wait_until_ready()
        yield found
        sys.stdout.write(found.log)
