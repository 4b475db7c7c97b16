"""Provides the real helm, built once."""

import pytest

from sandbox import go, jars, programs
from tests.chart.rendering import Helm


@pytest.fixture(scope="session")
def helm() -> Helm:
    try:
        return Helm(go.build(programs.HELM))
    except jars.JarsError as error:
        pytest.skip(f"NO REAL HELM: {error}")
