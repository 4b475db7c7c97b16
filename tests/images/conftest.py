"""Builds the images once per session, on a base that is made here, and unpacks their files."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import debian, images, jars
from tests.images.box import Box

TAG = "tests"


@pytest.fixture(scope="session")
def base() -> str:
    """Build the base, or skip if that is impossible. The later parts are ours and must not fail."""
    if os.geteuid() != 0:
        pytest.skip("NO REAL IMAGES: without a registry, only root can make their base image")
    try:
        return images.build_base()
    except (debian.NoDebianError, jars.StepFailedError) as error:
        pytest.skip(f"NO REAL IMAGES: {error}")


@pytest.fixture(scope="session")
def built(base: str) -> dict[str, images.Image]:
    return dict(
        zip(images.TARGETS, images.build(images.set_up_buildah(), base, tag=TAG), strict=True)
    )


@pytest.fixture(scope="session")
def operator(built: dict[str, images.Image]) -> Iterator[Box]:
    yield from opened(built["operator"].name)


@pytest.fixture(scope="session")
def spark(built: dict[str, images.Image]) -> Iterator[Box]:
    yield from opened(built["spark"].name)


@pytest.fixture(params=images.TARGETS)
def box(request: pytest.FixtureRequest) -> Box:
    found: Box = request.getfixturevalue(request.param)
    return found


def opened(name: str) -> Iterator[Box]:
    """Unpack the files of an image until the block ends."""
    container = told("from", "--pull-never", name)
    try:
        image = json.loads(told("inspect", "--type=image", name))
        yield Box(Path(told("mount", container)), image["OCIv1"]["config"])
    finally:
        # Another process may have removed the container already, by cleaning the shared store.
        command = [*images.set_up_buildah().command, "rm", container]
        subprocess.run(command, capture_output=True, check=False)


def told(*arguments: str) -> str:
    command = [*images.set_up_buildah().command, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()
