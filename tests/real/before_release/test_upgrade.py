"""An upgrade of chart and operator from an earlier commit, and back, while a job runs."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import jars, kubernetes
from sandbox.kubernetes import Cluster
from sandbox.rocketmq import RocketMq
from sandbox.statuses import Document, count_loads, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster import release
from tests.real.cluster.kubelet import Kubelet
from tests.real.cluster.release import Release
from tests.real.cluster.running import Namespace, make_namespace
from tests.real.numbers import Numbers, arrived

BEFORE = "6eedfe9"
"""The first commit with a chart. As soon as there is a release, use the last release instead."""
GROUPS = "consumergroups"
PATIENCE_SECONDS = 900.0


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A checkout of the earlier commit."""
    folder = tmp_path / "before"
    folder.mkdir()
    archive = folder / "archive.tar"
    command = ["git", "archive", "--output", str(archive), BEFORE]
    done = subprocess.run(command, cwd=release.ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NO EARLIER VERSION: {done.stderr.strip()}; this is no whole clone")
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    return folder


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that does not have our kinds yet; the chart installs them."""
    try:
        with kubernetes.run() as found:
            yield found
    except jars.JarsError as error:
        pytest.skip(f"NO REAL KUBERNETES: {error}")


def is_settled(status: Document) -> bool:
    is_running = read_condition(status, "Ready") == ("True", "Running")
    return is_running and status["adoptedEpoch"] == status["epoch"]


def find_owners(status: Document) -> dict[str, object]:
    return {each["consumer"]: each.get("queues", []) for each in status["assignments"]}


def test_nothing_moves_and_nothing_is_lost_when_a_chart_is_upgraded_and_taken_back(
    before: Path, cluster: Cluster, rocketmq: RocketMq, topic: str, tmp_path: Path
) -> None:
    where, rows = rocketmq.name_server.address, tmp_path / "rows"
    shop = make_namespace(cluster.admin, "shop")
    first = Release(cluster, "evenkeel-system", before)
    first.install("--set-json", 'lease={"duration": 3, "deadline": 2, "period": 0.3}')
    with (
        Numbers(where, topic) as numbers,
        Kubelet(cluster, shop) as kubelet,
        first.running() as old,
    ):
        old.wait_until_ready()
        make_groups(shop, where, topic, tmp_path)
        job = shop.until(GROUPS, "billing", is_settled, PATIENCE_SECONDS)
        listed = shop.until(GROUPS, "listed", lambda it: read_condition(it, "Ready")[0] == "True")
        assert count_loads(job) == {"billing-0": 2, "billing-1": 2}

        def assert_nothing_has_moved() -> None:
            count = sum(arrived(rows).values())
            read = wait_for(
                lambda: sum(arrived(rows).values()), lambda now: now > count, PATIENCE_SECONDS
            )
            assert read > count, "the job continues to read"
            now = shop.until(GROUPS, "billing", is_settled, PATIENCE_SECONDS)
            assert (find_owners(now), now["moved"]) == (find_owners(job), 0)
            again = shop.status(GROUPS, "listed")
            assert (find_owners(again), again["epoch"]) == (find_owners(listed), listed["epoch"])

        second = first.upgrade(release.ROOT, "--reset-then-reuse-values")
        with second.running() as new:
            old.stop()
            new.wait_until_ready()
            assert_nothing_has_moved()
            back = second.upgrade(before, "--reset-then-reuse-values")
            with back.running() as last:
                new.stop()
                last.wait_until_ready()
                assert_nothing_has_moved()
                assert kubelet.started <= 3, "a driver restarts only if its pod has changed"
                numbers.stop()
                wanted = dict.fromkeys(range(numbers.sent), 1)
                found = wait_for(lambda: arrived(rows), lambda it: it == wanted, PATIENCE_SECONDS)
                assert found == wanted, "lost 0, duplicated 0"
                for each in (new, last):
                    assert "Traceback" not in each.log


def make_groups(shop: Namespace, name_server: str, topic: str, folder: Path) -> None:
    shop.make("Topic", "orders", {"topic": topic, "nameServers": [name_server]})
    job = {
        "executors": 2,
        "startFrom": "Earliest",
        "transform": {"sql": "SELECT CAST(body AS string) AS body FROM messages"},
        "sink": {"format": "json", "path": str(folder / "rows")},
        "checkpoint": {"url": str(folder / "checkpoint")},
    }
    shop.make("ConsumerGroup", "billing", {"topics": [{"name": "orders"}], "job": job})
    static = {"static": [{"id": f"c-{number}"} for number in range(3)]}
    shop.make("ConsumerGroup", "listed", {"topics": [{"name": "orders"}], "consumers": static})
