"""The two views of `evenkeel top`: all groups, or one group with its driver's metrics."""

import time
from collections import deque
from datetime import UTC, datetime
from typing import Protocol

from rich.text import Text

from contract.conditions import ConditionType
from evenkeel.cluster.api.api_errors import ApiError, AwayError
from evenkeel.cluster.manifest import names, pod_paths
from evenkeel.control import conditions
from evenkeel.objects import ConsumerGroup, Key
from evenkeel_cli.cluster import reading
from evenkeel_cli.cluster.client import ClusterClient
from evenkeel_cli.facts import measured, picture
from evenkeel_cli.facts.measured import Measured
from evenkeel_cli.facts.picture import Look

LOOKS = 6
"""Rates are averages over this number of reads, because a batch may take longer than one pause."""
NOT_KNOWN = "lag by queue and rates are not known"


class LiveView(Protocol):
    """A view that is read and drawn repeatedly."""

    @property
    def gains_from_another_look(self) -> bool:
        """Whether a second read shows more, such as rates."""

    def look(self) -> None:
        """Read the current state."""

    def draw(self) -> list[Text]:
        """Draw the state that was read last."""

    def describe(self) -> object:
        """Return the state that was read last, for JSON and YAML."""


class OfAll:
    """The view of all groups, in one namespace or in all."""

    gains_from_another_look = False

    def __init__(self, cluster: ClusterClient, namespace: str | None) -> None:
        """Prepare the view. Nothing is read yet."""
        self._cluster = cluster
        self._namespace = namespace
        self._groups: list[ConsumerGroup] = []

    def look(self) -> None:
        """Read the current state."""
        found = reading.read_outlines(self._cluster, self._namespace)
        self._groups = sorted(found, key=lambda group: group.head.key)

    def draw(self) -> list[Text]:
        """Draw the state that was read last."""
        if not self._groups:
            where = f"namespace {self._namespace}" if self._namespace else "the cluster"
            return [Text(f"there is no ConsumerGroup in {where}")]
        return picture.draw_all(self._groups, everywhere=self._namespace is None)

    def describe(self) -> object:
        """Return the state that was read last, for JSON and YAML."""
        return [picture.describe_group(group) for group in self._groups]


class OfOne:
    """The view of one group."""

    def __init__(self, cluster: ClusterClient, key: Key) -> None:
        """Prepare the view. Nothing is read yet."""
        self._cluster = cluster
        self._key = key
        self._seen: Look | None = None
        self._measured: deque[Measured] = deque(maxlen=LOOKS)

    @property
    def gains_from_another_look(self) -> bool:
        """Whether a second read shows more, such as rates."""
        return self._look.measured is not None

    def look(self) -> None:
        """Read the current state."""
        group = reading.read_group(self._cluster, self._key)
        found, trouble = self._measure(group)
        if found is None:
            self._measured.clear()
        else:
            self._measured.append(found)
        rates = measured.compute_rates(self._measured[0], self._measured[-1]) if found else {}
        self._seen = Look(group, found, rates, trouble)

    def draw(self) -> list[Text]:
        """Draw the state that was read last."""
        return picture.draw_one(self._look, datetime.now(UTC))

    def describe(self) -> object:
        """Return the state that was read last, for JSON and YAML."""
        return picture.describe(self._look)

    @property
    def _look(self) -> Look:
        assert self._seen is not None
        return self._seen

    def _measure(self, group: ConsumerGroup) -> tuple[Measured | None, str]:
        """Read the driver's metrics. If that fails, return the reason."""
        if group.spec.job is None:
            return None, "lag by queue is known only for groups with a job"
        running = conditions.find(group.status.conditions, ConditionType.JOB_RUNNING)
        if running is None or not running.holds:
            return None, f"{NOT_KNOWN}: the driver is not running"
        driver = group.find_key(names.name_driver(group))
        try:
            page = self._cluster.read_page(driver, pod_paths.METRICS_PORT, "/metrics")
            return measured.parse(page, time.monotonic()), ""
        except ApiError as error:
            return None, f"{NOT_KNOWN}: {error}"
        except AwayError:
            return None, f"{NOT_KNOWN}: the pod {driver.name} does not answer"
        except (ValueError, KeyError):
            return None, f"{NOT_KNOWN}: the pod {driver.name} serves a page without metrics"
