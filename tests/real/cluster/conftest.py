"""An operator as a process of its own, on a real API server, and a namespace for each test."""

import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator

import pytest

from sandbox.kubernetes import Cluster
from tests.real.cluster import running
from tests.real.cluster.running import Namespace, RunningOperator

_numbers = itertools.count(1)


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
def namespace(make_namespace: Callable[[str], Namespace]) -> Namespace:
    return make_namespace("")


@pytest.fixture
def operator(kubernetes: Cluster, namespace: Namespace) -> Iterator[RunningOperator]:
    """It looks at the test's namespace only, and is ready."""
    with contextlib.ExitStack() as running:
        found = RunningOperator(kubernetes.admin.kubeconfig, namespace.name)
        running.enter_context(found)
        found.until_ready()
        yield found
        sys.stdout.write(found.log)  # pytest shows it when the test has failed
