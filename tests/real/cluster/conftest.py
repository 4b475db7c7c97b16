"""Operators as processes, on a real API server, and a namespace for each test."""

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
    """An operator that looks at some namespaces, and those that no test had yet."""

    operator: RunningOperator
    left: list[Namespace]


@pytest.fixture(scope="module")
def shared(kubernetes: Cluster, request: pytest.FixtureRequest) -> Iterator[Shared]:
    """One operator for all tests of a file that ask for it, with a namespace for each of them."""
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
    """Make namespaces of the test's own."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())

    def make(suffix: str) -> Namespace:
        name = f"t{next(_numbers)}-{words[:25].strip('-')}{suffix and f'-{suffix}'}"
        return running.make_namespace(kubernetes.admin, name)

    return make


@pytest.fixture
def namespace(
    request: pytest.FixtureRequest, make_namespace: Callable[[str], Namespace]
) -> Iterator[Namespace]:
    """One that the test's operator looks at; it is empty, and the test's own."""
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
    """It is ready, and the file's other tests use it too: leave it as it is."""
    shared.operator.wait_until_ready()  # again, where an API server was away
    begun = len(shared.operator.log)
    yield shared.operator
    sys.stdout.write(shared.operator.log[begun:])  # pytest shows it when the test has failed


@pytest.fixture
def own_operator(kubernetes: Cluster, namespace: Namespace) -> Iterator[RunningOperator]:
    """It looks at the test's namespace only, and is ready; the test may kill it or count on it."""
    with contextlib.ExitStack() as running:
        found = RunningOperator(kubernetes.admin.kubeconfig, namespace.name)
        running.enter_context(found)
        found.wait_until_ready()
        yield found
        sys.stdout.write(found.log)
