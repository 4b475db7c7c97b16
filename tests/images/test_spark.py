"""Driver and executor in Spark's image, started as Spark and the operator do."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.images import box
from tests.images.box import Box

DRIVER = Path(__file__).with_name("spark_driver.py").read_text()
NOWHERE = "spark://CoarseGrainedScheduler@127.0.0.1:{}"


def executors_environment(url: str, application: str = "app", **more: str) -> dict[str, str]:
    """Return the environment that Spark gives to an executor's pod."""
    return {
        "SPARK_APPLICATION_ID": application,
        "SPARK_DRIVER_URL": url,
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "billing-exec-7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        **more,
    }


def heard(child: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the driver's next line of JSON, and skip the lines of Spark's log."""
    assert child.stdout is not None
    said = []
    for line in child.stdout:
        said.append(line)
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise AssertionError("".join(said))


def test_a_driver_says_what_is_wrong_with_its_job(spark: Box) -> None:
    answer = spark.run("driver", "/etc/evenkeel/job.json")
    assert answer.returncode == 78
    assert answer.stderr.startswith("evenkeel: job /etc/evenkeel/job.json: ")


def test_what_it_cannot_run_is_refused_in_a_sentence(spark: Box) -> None:
    for arguments in ([], ["bash"], ["executor", "now"]):
        answer = spark.run(*arguments)
        assert answer.returncode == 64
        assert answer.stderr.startswith(f"evenkeel: '{' '.join(arguments)}' is none of ")
    answer = spark.run("executor")
    assert answer.returncode == 64
    assert "lacks SPARK_DRIVER_URL" in answer.stderr


def test_an_executor_whose_driver_is_away_ends_by_itself(spark: Box) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = NOWHERE.format(free.getsockname()[1])
        executor = spark.started(
            *spark.entrypoint, "executor", environment=executors_environment(url)
        )
        with executor as child:
            said, _ = child.communicate(timeout=box.PATIENCE_SECONDS)
    assert "KubernetesExecutorBackend: Started daemon" in said
    assert "Connection refused: /127.0.0.1" in said
    assert child.returncode == 1


def test_a_signal_to_the_container_reaches_the_executors_java(spark: Box) -> None:
    """Without the signal, the executor would wait for a driver that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = NOWHERE.format(silent.getsockname()[1])
        executor = spark.started(
            *spark.entrypoint, "executor", environment=executors_environment(url)
        )
        with executor as child:
            silent.accept()[0].close()
            os.kill(box.first_process(child), signal.SIGTERM)
            said, _ = child.communicate(timeout=box.PATIENCE_SECONDS)
    assert "RECEIVED SIGNAL TERM" in said
    assert child.returncode == 128 + signal.SIGTERM


def test_an_executor_works_for_a_driver_until_spark_decommissions_it(spark: Box) -> None:
    """Python works too: rows go through Arrow in a worker of the image."""
    tini = spark.entrypoint[:2]
    with spark.started(*tini, "python", "-c", DRIVER) as driver:
        where = heard(driver)
        options = {f"SPARK_JAVA_OPT_{n}": text for n, text in enumerate(where["options"])}
        environment = executors_environment(where["url"], where["application"], **options)
        executor = spark.started(*spark.entrypoint, "executor", environment=environment)
        with executor as child:
            assert heard(driver) == {"rows": 1000, "executors": ["driver", "7"]}
            box.tell_beside(child, "/opt/decom.sh")
            said, _ = child.communicate(timeout=box.PATIENCE_SECONDS)
        assert "Executor self-exiting due to : Finished decommissioning" in said
        assert child.returncode == 0
        driver.communicate("\n", timeout=box.PATIENCE_SECONDS)
    assert driver.returncode == 0
