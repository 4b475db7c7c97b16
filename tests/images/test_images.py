"""Both images: their contents, and how they run read-only as a user without rights."""

import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path

from sandbox import images
from tests.images.box import Box

PROJECT = tomllib.loads((images.ROOT / "pyproject.toml").read_text())["project"]
MOST_MEGABYTES = 220
UNCHECKED = b"\1\0\0\0"
"""The flags of bytecode that Python uses without comparing it with its source."""


def files(folder: Path) -> Iterator[Path]:
    """List the files, but no links: link targets are paths of the image, not of this machine."""
    for place, _, names in os.walk(folder):
        paths = (Path(place, name) for name in names)
        yield from (path for path in paths if stat.S_ISREG(path.lstat().st_mode))


def packages(box: Box) -> Path:
    (found,) = (box.root / "opt/evenkeel/venv/lib").glob("python3*/site-packages")
    return found


def test_tini_is_the_first_process_and_the_user_is_a_number_that_is_not_root(box: Box) -> None:
    assert box.entrypoint[:2] == ["/usr/bin/tini", "--"]
    assert box.config["User"] == "65532:65532"


def test_labels_tell_name_version_and_license(box: Box) -> None:
    label = {name.rpartition(".")[2]: value for name, value in box.labels.items()}
    assert label["title"].startswith("evenkeel-")
    assert label["version"] == PROJECT["version"]
    assert label["licenses"] == PROJECT["license"]


def test_only_tmp_and_the_work_folder_are_written(box: Box) -> None:
    """The root is read-only in a box. Without a mount, the work folder belongs to the user."""
    told = box.tell("sh", "-c", "id -u; pwd; touch /tmp/a a && touch /opt/a 2>&1; true")
    user, folder, refused = told.splitlines()
    assert (user, folder) == ("65532", "/work")
    assert "Read-only file system" in refused
    assert (box.root / "work").stat().st_uid == 65532


def test_python_is_the_one_that_has_the_packages(box: Box) -> None:
    assert box.tell("which", "python").strip() == "/opt/evenkeel/venv/bin/python"
    box.tell("python", "-c", "import lb_core.plan, mq_client.blocking, msgspec")


def test_all_bytecode_is_there_and_depends_on_no_time(box: Box) -> None:
    """On a read-only root, bytecode could not be saved, so each start would compile again."""
    code = [path for path in files(box.root / "opt") if path.suffix == ".pyc"]
    assert {path.read_bytes()[4:8] for path in code} == {UNCHECKED}
    compiled = {path.parent.parent / f"{path.name.partition('.')[0]}.py" for path in code}
    sources = {path for path in files(box.root / "opt/evenkeel/code") if path.suffix == ".py"}
    assert sources
    assert sources <= compiled


def test_nothing_is_left_of_the_build(box: Box) -> None:
    gone = [
        "build", "etc/pip.conf", "requirements", "root/.cache", "run/secrets", "var/log/apt",
        "var/log/dpkg.log",
    ]  # fmt: skip
    assert [name for name in gone if (box.root / name).exists()] == []
    empty = ["tmp", "work", "var/cache/apt", "var/lib/apt/lists"]
    assert [list((box.root / name).iterdir()) for name in empty] == [[]] * len(empty)


def test_no_file_lends_its_owners_rights(box: Box) -> None:
    assert [path for path in files(box.root) if path.lstat().st_mode & 0o6000] == []


def test_the_operators_image_has_its_own_packages_alone_and_is_small(operator: Box) -> None:
    code = operator.root / "opt/evenkeel/code"
    assert {path.name for path in code.iterdir()} == {
        "contract",
        "coordinator",
        "evenkeel",
        "evenkeel_cli",
        "lb_core",
        "mq_client",
    }
    for absent in ("java", "pip"):
        assert operator.tell("sh", "-c", f"command -v {absent} || echo none") == "none\n"
    for absent in ("numpy", "pyarrow", "pyspark"):
        assert not (packages(operator) / absent).exists()
    whole = sum(path.stat().st_size for path in files(operator.root))
    assert whole < MOST_MEGABYTES * 1_000_000


def test_the_operators_image_runs_every_command_of_the_project(operator: Box) -> None:
    for name in PROJECT["scripts"]:
        operator.tell("sh", "-c", f"command -v {name}")
    assert operator.run("--version").stdout == f"evenkeel {PROJECT['version']}\n"
    assert "kubectl evenkeel" in operator.tell("kubectl-evenkeel", "--help")


def test_the_operators_image_has_all_that_its_modules_import(operator: Box) -> None:
    code = operator.root / "opt/evenkeel/code"
    sources = (path.relative_to(code) for path in (code / "evenkeel").rglob("*.py"))
    modules = [path.with_suffix("") for path in sources if path.name != "__main__.py"]
    operator.tell("python", "-c", "\n".join(f"import {'.'.join(each.parts)}" for each in modules))


def test_the_operator_says_that_there_is_no_cluster(operator: Box) -> None:
    answer = operator.run("operator")
    assert answer.returncode == 1
    assert answer.stderr.startswith("evenkeel: no cluster is configured")


def test_the_image_of_spark_has_its_own_packages_alone(spark: Box) -> None:
    code = spark.root / "opt/evenkeel/code"
    assert {path.name for path in code.iterdir()} == {
        "contract",
        "coordinator",
        "follower",
        "lb_core",
        "mq_client",
        "spark_jobs",
    }


def test_the_image_of_spark_tells_its_version_and_sparks(spark: Box) -> None:
    (found,) = (packages(spark) / "pyspark/jars").glob("spark-core_*.jar")
    version = found.stem.rpartition("-")[2]
    told = spark.run("--version").stdout
    assert told == f"evenkeel {PROJECT['version']}, Spark {version}\n"
