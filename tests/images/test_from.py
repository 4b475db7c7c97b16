"""An image that is built on ours, as the documentation shows it."""

import re
from collections.abc import Iterator

import pytest

from sandbox import images
from tests.images import conftest
from tests.images.box import Box

NAME = "localhost/evenkeel-spark-and-more:tests"


@pytest.fixture(scope="module")
def shown() -> str:
    page = (images.ROOT / "docs/operating/images.md").read_text()
    (found,) = re.findall(r"```dockerfile\n(.*?)```", page, re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def more(
    shown: str, built: dict[str, images.Image], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Box]:
    folder = tmp_path_factory.mktemp("from")
    ours = built["spark"].name
    text = shown.replace(f"FROM evenkeel-spark:{images.read_version()}", f"FROM {ours}")
    assert ours in text
    (folder / "Dockerfile").write_text(text)
    builder = images.set_up_buildah()
    with images.write_secrets() as known:
        # The page shows no secrets. Settings for this machine are put where secrets would be.
        places = {"pip": "/etc/pip.conf"}
        volumes = [
            f"--volume={path}:{places.get(name, f'/run/secrets/{name}')}:ro"
            for name, path in known.items()
        ]
        conftest.told(*builder.build, *volumes, f"--tag={NAME}", str(folder))
    yield from conftest.opened(NAME)


def test_it_has_the_libraries_and_packages_that_were_added(more: Box) -> None:
    packages = next((more.root / "opt/evenkeel/venv/lib").glob("python3*/site-packages"))
    assert (packages / "pyspark/jars/postgresql-42.7.8.jar").exists()
    more.tell("python", "-c", "import deltalake, duckdb, pyiceberg.catalog")


def test_it_runs_as_ours_does(more: Box, spark: Box) -> None:
    assert (more.entrypoint, more.config["User"]) == (spark.entrypoint, spark.config["User"])
    assert more.run("--version").stdout == spark.run("--version").stdout
