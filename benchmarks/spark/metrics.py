"""Read a job's metrics, and a histogram often enough to see each observation alone."""

import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from benchmarks import peers

_PAUSE_SECONDS = 0.2
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram without labels that a job serves on this port."""

    port: int
    name: str

    def wait_for_observations(self, wanted: int) -> list[float]:
        """Wait for `wanted` observations. Of two at once, only the mean is known."""
        found: list[float] = []
        count, total = self._read()
        heard = time.monotonic()
        while len(found) < wanted:
            time.sleep(_PAUSE_SECONDS)
            before, total_before = count, total
            count, total = self._read()
            if new := count - before:
                found += [(total - total_before) / new] * new
                heard = time.monotonic()
            if time.monotonic() - heard > _PATIENCE_SECONDS:
                raise peers.ProgramFailedError(f"{self.name} has stopped at {count} observations")
        return found

    def _read(self) -> tuple[int, float]:
        count, total = read(self.port, [f"{self.name}_count", f"{self.name}_sum"])
        return int(count), total


def read(port: int, names: Sequence[str]) -> list[float]:
    """
    Read the values of these metrics, which have no labels.

    No other metrics are requested, because others query brokers or are long.
    """
    query = urllib.parse.urlencode({"name[]": names}, doseq=True)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?{query}") as answer:
            families = text_string_to_metric_families(answer.read().decode())
    except OSError as error:
        raise peers.ProgramFailedError(f"the job does not show its metrics: {error}") from error
    values = {sample.name: sample.value for family in families for sample in family.samples}
    return [values[name] for name in names]
