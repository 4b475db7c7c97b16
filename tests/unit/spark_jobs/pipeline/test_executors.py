"""The list of executors is read again only when their ids have changed."""

from types import SimpleNamespace
from typing import Any

from spark_jobs.pipeline.executors import Executor, RegisteredExecutors

ONE, TWO = Executor("1", "host-a", 1), Executor("2", "host-b", 1)


class FakeJava:
    """What a driver's JVM knows: registered ids, and executors that it lists a little later."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.listed: list[tuple[str, str]] = []
        self.lists = 0

    def getExecutorIds(self) -> Any:  # noqa: N802  # Spark's name
        return SimpleNamespace(mkString=lambda separator: separator.join(self.ids))

    def statusStore(self) -> Any:  # noqa: N802
        return SimpleNamespace(executorList=self.list)

    def list(self, _: bool) -> Any:
        self.lists += 1
        found = [
            SimpleNamespace(id=lambda i=i: i, hostPort=lambda p=p: p, totalCores=lambda: 1)
            for i, p in [("driver", "host-d:1"), *self.listed]
        ]
        return SimpleNamespace(length=lambda: len(found), apply=lambda index: found[index])


def test_the_list_is_kept_while_the_ids_stay_the_same() -> None:
    java = FakeJava()
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: java))
    executors = RegisteredExecutors(context)
    assert executors.list() == []
    java.ids = ["1", "2"]
    java.listed = [("1", "host-a:7")]
    assert executors.list() == [ONE], "the second is registered, and not listed yet"
    java.listed.append(("2", "host-b"))
    assert executors.list() == [ONE], "it has no port yet, so it is not ready"
    java.listed[1] = ("2", "host-b:7")
    assert executors.list() == [ONE, TWO]
    lists = java.lists
    assert executors.list() == [ONE, TWO]
    assert java.lists == lists, "nothing has changed"
    java.ids = ["2"]
    java.listed = [("2", "host-b:7")]
    assert executors.list() == [TWO]
