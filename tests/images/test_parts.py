"""The scripts that build images, without building one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from images.build import commands
from images.spark import add_packages, entrypoint
from sandbox import images

DESCRIBED = {
    "SPARK_APPLICATION_ID": "app-1",
    "SPARK_CLASSPATH": "/jars/mine.jar",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_DRIVER_URL": "spark://driver",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_MEMORY": "700m",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "billing-exec-3",
    "SPARK_HOME": "/opt/spark",
    "SPARK_JAVA_OPT_10": "-Dtenth=a b",
    "SPARK_JAVA_OPT_9": "-Dninth=1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def test_an_executor_is_started_as_spark_describes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived = tmp_path / "classpath"
    archived.write_text("/opt/spark/jars/a.jar:/opt/spark/jars/b.jar")
    monkeypatch.setattr(entrypoint, "ARCHIVED", archived)
    assert entrypoint.executor(DESCRIBED) == [
        "java", "-XX:SharedArchiveFile=/opt/evenkeel/classes.jsa",
        "-Dninth=1", "-Dtenth=a b", "-Xms700m", "-Xmx700m", "-cp",
        "/jars/mine.jar:/opt/spark/jars/a.jar:/opt/spark/jars/b.jar:/opt/spark/conf:/opt/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", "spark://driver", "--executor-id", "3", "--cores", "2",
        "--app-id", "app-1", "--hostname", "10.0.0.7", "--resourceProfileId", "0",
        "--podName", "billing-exec-3",
    ]  # fmt: skip


def test_an_executor_that_is_not_described_whole_is_refused_by_what_is_missing() -> None:
    described = {name: text for name, text in DESCRIBED.items() if name != "SPARK_EXECUTOR_ID"}
    with pytest.raises(entrypoint.UsageError, match="lacks SPARK_EXECUTOR_ID;"):
        entrypoint.asked_for(["executor"], described)


def test_a_library_that_spark_has_in_any_version_is_not_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sparks, fetched = tmp_path / "spark", tmp_path / "fetched"
    sparks.mkdir()
    (sparks / "guava-33.0.jar").touch()
    for name in ("guava/guava-31.1.jar", "guava-extras/guava-extras-1.0.jar", "aws/aws-2.0.jar"):
        (fetched / name).parent.mkdir(parents=True)
        (fetched / name).touch()
    monkeypatch.setattr(add_packages, "SPARK", sparks)
    add_packages.add(fetched)
    there = {jar.name for jar in sparks.iterdir()}
    assert there == {"guava-33.0.jar", "guava-extras-1.0.jar", "aws-2.0.jar"}
    assert "guava-31.1.jar: left out, because Spark has guava-33.0.jar" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["postgresql"], ["a:b:c", "a:b"], ["a:b:$(c)"]])
def test_only_coordinates_are_fetched(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert add_packages.main(arguments) == 64
    assert "not group:artifact:version" in capsys.readouterr().err


def test_commands_of_the_project_are_written_as_programs(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project.scripts]\nhere = "os:getcwd"\n')
    commands.write(project, tmp_path / "bin")
    program = tmp_path / "bin/here"
    first, *_ = program.read_text().splitlines()
    assert (first, os.access(program, os.X_OK)) == ("#!/opt/evenkeel/venv/bin/python", True)
    answer = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert answer.stderr.strip() == os.getcwd()  # noqa: PTH109 what the program says


def test_the_images_have_the_project_s_version() -> None:
    versions = re.findall(r"^ARG VERSION=(.*)$", (images.ROOT / "Dockerfile").read_text(), re.M)
    assert versions == [images.read_version()] * 2


@pytest.mark.parametrize("lock", ["operator", "spark"])
def test_images_have_the_versions_that_the_tests_run_with(lock: str) -> None:
    pinned = re.compile(r"^([\w.-]+==\S+)", re.MULTILINE)
    folder = images.ROOT / "requirements"
    theirs = set(pinned.findall((folder / f"images/{lock}.txt").read_text()))
    tested = set(pinned.findall((folder / "dev.txt").read_text()))
    extra = {each.partition("==")[0] for each in theirs - tested}
    assert extra <= {"pip"}  # images that are built on ours use it


def test_a_build_reaches_packages_as_this_machine_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://user:word@mirror.example/simple\nno-input = 1\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_CERT", "/etc/mine.crt")
    with images.write_secrets() as known:
        text = known["pip"].read_text()
        assert known["certificates"] == Path("/etc/mine.crt")
    assert "index-url = https://user:word@mirror.example/simple\n" in text
    assert "cert = /run/secrets/certificates\n" in text
    assert "no-input" not in text
    assert not known["pip"].exists()


def test_where_nothing_builds_images_a_sentence_says_what_would(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandbox", "images", "build"]
    nothing = {**os.environ, "PATH": str(tmp_path)}
    answer = subprocess.run(
        command, env=nothing, cwd=images.ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert line.endswith(
        "missing: buildah; install it, or run as root, to install it with apt-get; or start docker"
    )
