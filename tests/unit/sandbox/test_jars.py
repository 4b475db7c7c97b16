"""The jar resolver; scripts replace Maven and Java, so nothing is downloaded."""

import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from sandbox import jars

CLIENT = "org.apache.rocketmq:rocketmq-client:5.4.0"
KAFKA = "org.apache.kafka:kafka-clients:4.4.0"

# Logs its call and the dependencies in the pom, then creates two jars.
MAVEN = """#!{python}
import pathlib, sys, time
log = pathlib.Path({log!r})
pom = pathlib.Path(sys.argv[sys.argv.index("--file") + 1]).read_text()
log.open("a").write(pom + chr(10))
time.sleep(0.2)
place = pathlib.Path(next(a for a in sys.argv if a.startswith("-DoutputDirectory=")).split("=")[1])
for name in ("b.jar", "a.jar"):
    (place / name).write_text("")
"""

# Creates a jar in the folder of the retrieve pattern, as Ivy does.
JAVA = """#!{python}
import pathlib, sys
log = pathlib.Path({log!r})
log.open("a").write(pathlib.Path(sys.argv[sys.argv.index("-ivy") + 1]).read_text() + chr(10))
(pathlib.Path(sys.argv[-1]).parent / "from-ivy.jar").write_text("")
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def program(folder: Path, name: str, text: str) -> Path:
    """Put a program on PATH; return the file to which it logs."""
    log = folder / f"{name}.log"
    path = folder / name
    path.write_text(text.format(python=sys.executable, log=str(log)))
    path.chmod(0o755)
    return log


def pyspark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a PySpark importable that contains only Ivy."""
    (folder / "pyspark" / "jars").mkdir(parents=True)
    (folder / "pyspark" / "__init__.py").write_text("")
    (folder / "pyspark" / "jars" / "ivy-2.5.3.jar").write_text("")
    monkeypatch.syspath_prepend(folder)


def test_jars_come_sorted_and_are_fetched_once(programs: Path) -> None:
    log = program(programs, "mvn", MAVEN)
    first = jars.fetch_classpath(CLIENT)
    assert [Path(jar).name for jar in first.split(os.pathsep)] == ["a.jar", "b.jar"]
    assert jars.fetch_classpath(CLIENT) == first
    assert len(log.read_text().splitlines()) == 1


def test_the_order_of_coordinates_does_not_matter_but_the_set_does(programs: Path) -> None:
    program(programs, "mvn", MAVEN)
    assert jars.fetch_classpath(CLIENT, KAFKA) == jars.fetch_classpath(KAFKA, CLIENT)
    assert jars.fetch_classpath(CLIENT, KAFKA) != jars.fetch_classpath(CLIENT)


def test_maven_is_asked_for_each_coordinate(programs: Path) -> None:
    log = program(programs, "mvn", MAVEN)
    jars.fetch_classpath(CLIENT, KAFKA)
    assert "<artifactId>rocketmq-client</artifactId><version>5.4.0</version>" in log.read_text()
    assert "<artifactId>kafka-clients</artifactId><version>4.4.0</version>" in log.read_text()


def test_two_runs_at_the_same_moment_fetch_once(programs: Path) -> None:
    log = program(programs, "mvn", MAVEN)
    context = multiprocessing.get_context("spawn")
    runs = [context.Process(target=jars.fetch_classpath, args=(CLIENT,)) for _ in range(3)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0, 0]
    assert len(log.read_text().splitlines()) == 1


def test_what_a_killed_run_has_left_is_thrown_away(programs: Path) -> None:
    program(programs, "mvn", MAVEN)
    folder = Path(jars.fetch_classpath(CLIENT).split(os.pathsep)[0]).parent
    part = folder.rename(folder.with_name(f"{folder.name}.part"))
    (part / "half-a.jar").write_text("")
    assert "half-a.jar" not in jars.fetch_classpath(CLIENT)


def test_a_failure_shows_what_the_program_said_and_leaves_nothing_behind(programs: Path) -> None:
    program(programs, "mvn", "#!/bin/sh\necho 'Unknown host somewhere'\nexit 3\n")
    with pytest.raises(jars.StepFailedError, match=r"(?s)mvn ended with code 3.*offline.*Unknown"):
        jars.fetch_classpath(CLIENT)
    program(programs, "mvn", MAVEN)
    assert jars.fetch_classpath(CLIENT)


def test_no_jar_at_all_is_a_failure(programs: Path) -> None:
    program(programs, "mvn", "#!/bin/sh\nexit 0\n")
    with pytest.raises(jars.StepFailedError, match="no jar was found for"):
        jars.fetch_classpath(CLIENT)


def test_ivy_serves_where_maven_is_missing(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = program(programs, "java", JAVA)
    pyspark(tmp_path / "site", monkeypatch)
    assert jars.fetch_classpath(CLIENT).endswith("from-ivy.jar")
    assert 'org="org.apache.rocketmq" name="rocketmq-client" rev="5.4.0"' in log.read_text()


def test_without_maven_and_java_the_error_says_what_to_install(programs: Path) -> None:
    assert jars.find_java() is None
    with pytest.raises(jars.NoJavaError, match="install a JDK 17"):
        jars.fetch_classpath(CLIENT)


def test_a_runtime_without_a_compiler_is_named(programs: Path, tmp_path: Path) -> None:
    program(programs, "java", JAVA)
    source = tmp_path / "Nothing.java"
    source.write_text("class Nothing {}")
    with pytest.raises(jars.NoJavaError, match="no Java compiler"):
        jars.compile_sources([source], "")


def test_classes_for_an_older_java_are_compiled_apart(programs: Path, tmp_path: Path) -> None:
    program(programs, "java", "")
    log = program(programs, "javac", '#!/bin/sh\necho "$@" >> {log}\n')
    source = tmp_path / "Nothing.java"
    source.write_text("class Nothing {}")
    assert jars.compile_sources([source], "") != jars.compile_sources([source], "", release=8)
    own, older = log.read_text().splitlines()
    assert "--release" not in own
    assert "--release 8" in older


def test_java_home_comes_before_path(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(programs, "java", JAVA)
    home = tmp_path / "jdk" / "bin"
    home.mkdir(parents=True)
    program(home, "java", JAVA)
    program(home, "javac", JAVA)
    monkeypatch.setenv("JAVA_HOME", str(home.parent))
    assert jars.find_java() == home / "java"
    assert jars.find_javac() == home / "javac"


@pytest.mark.parametrize("bad", ["", "a:b", "a:b:c:d", "a b:c:1", "../../x:y:1"])
def test_a_coordinate_of_another_shape_is_refused(programs: Path, bad: str) -> None:
    with pytest.raises(jars.BadCoordinateError, match="is not group:artifact:version"):
        jars.fetch_classpath(bad)
