"""A file of manifests that is edited while its groups run."""

import asyncio
import importlib.util
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel.control import loop as control_loop
from evenkeel.control.groups.group_status import Notice
from evenkeel.control.loop import Loop
from evenkeel.embedded import driver
from evenkeel.embedded.alone import NotAloneError, hold_locks
from evenkeel.embedded.driver import MissingToolError
from evenkeel.embedded.world import FileWorld
from evenkeel.objects import Key

BILLING = Key("default", "billing")
API = "evenkeel.dev/v1alpha1"
TOPIC = {
    "apiVersion": API,
    "kind": "Topic",
    "metadata": {"name": "orders"},
    "spec": {"route": [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]},
}


def group(*names: str) -> dict[str, Any]:
    consumers = {"static": [{"id": each} for each in names]}
    spec = {"topics": [{"name": "orders"}], "consumers": consumers}
    return {
        "apiVersion": API,
        "kind": "ConsumerGroup",
        "metadata": {"name": "billing"},
        "spec": spec,
    }


def test_a_group_that_leaves_the_file_and_comes_back_is_kept_again(tmp_path: Path) -> None:
    async def body() -> None:
        told = asyncio.Queue[Notice]()
        file = tmp_path / "billing.yaml"
        file.write_text(yaml.safe_dump_all([TOPIC, group("a")]))
        world = FileWorld(file, tmp_path / "state", lambda key, what: told.put_nowait(what))
        loop = Loop(world)
        world.attach(loop)
        assert (await asyncio.wait_for(told.get(), 10)).reason == "Assigned"
        file.write_text(yaml.safe_dump_all([TOPIC]))
        world.look()
        assert world.find_group(BILLING) is None
        file.write_text("")
        world.look()
        file.write_text(yaml.safe_dump_all([TOPIC, group("a", "b")]))
        world.look()
        await asyncio.wait_for(told.get(), 10)
        found = world.find_group(BILLING)
        assert found is not None
        assert [each.consumer for each in found.status.assignments] == ["a", "b"]
        await loop.close()
        await world.close()

    asyncio.run(body())


def test_a_job_hears_of_executors_to_drain_as_soon_as_the_file_says_so(tmp_path: Path) -> None:
    async def body() -> None:
        file = tmp_path / "billing.yaml"
        heard = tmp_path / "state" / "default" / "billing" / "assignment.json"
        sink = {"format": "noop"}
        job = {"executors": 0, "sink": sink, "checkpoint": {"url": "/state"}}
        spec = {"topics": [{"name": "orders"}], "job": job}
        billing = {**group(), "spec": spec}
        file.write_text(yaml.safe_dump_all([TOPIC, billing]))
        world = FileWorld(file, tmp_path / "state", lambda key, what: None)
        loop = Loop(world)
        world.attach(loop)
        found = world.find_group(BILLING)
        assert found is not None
        await world.stop_driver(found)  # the world knows the job, although no driver runs
        metadata = {"name": "billing", "annotations": {"evenkeel.dev/drain": "1"}}
        file.write_text(yaml.safe_dump_all([TOPIC, {**billing, "metadata": metadata}]))
        world.look()
        assert json.loads(heard.read_text())["drain"] == ["1"]
        await loop.close()
        await world.close()

    asyncio.run(body())


def test_no_other_user_of_the_machine_reads_a_jobs_secrets(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text("{}")
    file.chmod(0o644)
    driver.write_private(file, '{"secretKey": "x"}')
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == '{"secretKey": "x"}'


def test_options_of_a_sink_are_written_as_a_volume_has_them(tmp_path: Path) -> None:
    file = tmp_path / "billing.yaml"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "database"},
              "stringData": {"password": "x"}}  # fmt: skip
    topic = {**TOPIC, "spec": {"nameServers": ["mq:9876"]}}
    sink = {"format": "jdbc", "optionsFrom": {"name": "database"}}
    job = {"sink": sink, "checkpoint": {"url": "/state"}}
    billing = {**group(), "spec": {"topics": [{"name": "orders"}], "job": job}}
    file.write_text(yaml.safe_dump_all([topic, billing, secret]))

    async def body() -> None:
        world = FileWorld(file, tmp_path / "state", lambda key, what: None)
        world.look()
        found = world.find_group(BILLING)
        assert found is not None
        world.compute_identity(found)

    asyncio.run(body())
    option = tmp_path / "state" / "default" / "billing" / "options-database" / "password"
    assert option.read_text() == "x"
    assert stat.S_IMODE(option.stat().st_mode) == 0o600


def test_two_runs_of_one_folder_or_one_file_are_kept_apart(tmp_path: Path) -> None:
    file, other = tmp_path / "billing.yaml", tmp_path / "other.yaml"
    (tmp_path / "link.yaml").symlink_to(file)
    with hold_locks(file, tmp_path / "state"):
        _refused(
            other, tmp_path / "state", f"process {os.getpid()}; choose another one with --state"
        )
        _refused(
            tmp_path / "link.yaml",
            tmp_path / "x",
            r"another evenkeel run already uses .*link\.yaml",
        )
        with hold_locks(other, tmp_path / "x"):
            pass
    with hold_locks(file, tmp_path / "state"):
        pass


def _refused(file: Path, folder: Path, why: str) -> None:
    with pytest.raises(NotAloneError, match=why), hold_locks(file, folder):
        pass


def test_a_rebalance_that_is_asked_for_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a request, moves would wait for an hour here."""
    monkeypatch.setattr(control_loop, "MOST_DEBOUNCE_SECONDS", 3600.0)

    async def body() -> None:
        told = asyncio.Queue[Notice]()
        file = tmp_path / "billing.yaml"

        def write(*names: str, **annotations: str) -> None:
            found = group(*names)
            found["metadata"] = {"name": "billing", "annotations": annotations}
            found["spec"]["rebalance"] = {"interval": "1h", "debounce": "1h"}
            file.write_text(yaml.safe_dump_all([TOPIC, found]))

        write("a")
        world = FileWorld(file, tmp_path / "state", lambda key, what: told.put_nowait(what))
        loop = Loop(world)
        world.attach(loop)
        assert (await asyncio.wait_for(told.get(), 10)).reason == "Assigned"
        write("a", "b", **{"evenkeel.dev/rebalance": "now"})
        world.look()
        assert (await asyncio.wait_for(told.get(), 10)).message.startswith("epoch 2, Asked: ")
        await loop.close()
        await world.close()

    asyncio.run(body())


def test_why_a_topic_is_not_known_is_told_too(tmp_path: Path) -> None:
    async def body() -> None:
        told = asyncio.Queue[tuple[Key, Notice]]()
        file = tmp_path / "billing.yaml"
        unreachable = {**TOPIC, "spec": {"nameServers": ["127.0.0.1:1"]}}
        file.write_text(yaml.safe_dump_all([unreachable, group("a")]))
        world = FileWorld(file, tmp_path / "state", lambda key, what: told.put_nowait((key, what)))
        loop = Loop(world)
        world.attach(loop)
        found = [await asyncio.wait_for(told.get(), 10) for _ in range(2)]
        [(key, why)] = [each for each in found if each[0] != BILLING]
        assert (key.name, why.is_warning) == ("orders", True)
        assert why.message.startswith("Topic orders: none of 1 name servers answered: ")
        topic = world.find_topic(key)
        assert topic is not None
        await world.write_topic(topic, topic.status)
        assert told.empty(), "an unchanged fact is reported once"
        await loop.close()
        await world.close()

    asyncio.run(body())


def test_where_pyspark_is_missing_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingToolError, match=r"pip install '\.\[spark\]'"):
        driver.refuse_if_missing()
