"""
Writes a job's newest report to the ConfigMap of the job, in a separate thread.

So an API server that is slow or down never delays the driver. A report with news for the operator
is written at once. A report in which only counters have changed can wait.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from contract import names
from contract.report import COUNTERS, BareReport
from mq_client.directory import Times
from spark_jobs.pipeline import kube
from spark_jobs.pipeline.kube import KubeApi, KubeError, KubeMissingError

log = logging.getLogger("evenkeel.job")
COUNTERS_SECONDS = 10.0
"""The time between two writes if only counters have changed."""
PATIENCE = Times(first_pause=1.0, longest_pause=10.0)
LAST_TRIES = 3
END_SECONDS = 30.0
"""How long a driver that ends waits for its last report to be written."""


class EncodedReport(NamedTuple):
    """An encoded report. When its `news` change, the report must be written at once."""

    text: bytes
    news: bytes


def encode_report(report: BareReport) -> EncodedReport:
    """Encode a report at once, because the objects in it may change later."""
    fields = msgspec.to_builtins(report)
    news = {name: value for name, value in fields.items() if name not in COUNTERS}
    return EncodedReport(msgspec.json.encode(fields), msgspec.json.encode(news))


def compute_delay(
    newest: EncodedReport | None, written: EncodedReport | None, age: float
) -> float | None:
    """
    Compute how long to wait before the next write. Return None if there is nothing to write.

    `age` is the time in seconds since the last write.
    """
    if newest is None or newest == written:
        return None
    if written is None or newest.news != written.news:
        return 0.0
    return max(0.0, COUNTERS_SECONDS - age)


class ReportWriter:
    """Writes the reports of one driver."""

    def __init__(self, api: KubeApi, namespace: str, name: str) -> None:
        """Write nothing yet."""
        self._api = api
        self._name = f"ConfigMap {namespace}/{name}"
        self._path = kube.build_path("/api/v1", namespace, "configmaps", name)
        self._newest: EncodedReport | None = None
        self._written: EncodedReport | None = None
        self._written_at = 0.0
        self._pauses = PATIENCE.make_pauses()
        self._changed = threading.Condition()
        self._over = threading.Event()

    def submit(self, report: BareReport) -> None:
        """Take this as the newest report, and write it soon."""
        newest = encode_report(report)
        with self._changed:
            self._newest = newest
            self._changed.notify()

    @contextmanager
    def run_in_thread(self) -> Iterator[None]:
        """Write reports until the block ends. Then write the last one, and wait for this write."""
        writing = threading.Thread(target=self._keep_writing, name="reporting", daemon=True)
        writing.start()
        try:
            yield
        finally:
            self._over.set()
            with self._changed:
                self._changed.notify()
            writing.join(END_SECONDS)

    def _keep_writing(self) -> None:
        while not self._over.is_set():
            self._wait_until_due()
            if pause := self._write():
                self._over.wait(pause)
        self._pauses = PATIENCE.make_pauses()
        for _ in range(LAST_TRIES):
            if not (pause := self._write()):
                return
            time.sleep(pause)
        log.error("%s: the last report is not written", self._name)

    def _wait_until_due(self) -> None:
        with self._changed:
            while not self._over.is_set():
                age = time.monotonic() - self._written_at
                left = compute_delay(self._newest, self._written, age)
                if left == 0:
                    return
                self._changed.wait(left)

    def _write(self) -> float:
        """Write the newest report, if it is not written yet; return the pause after a failure."""
        newest = self._newest
        if newest is None or newest == self._written:
            return 0.0
        try:
            change = {"data": {names.REPORT: newest.text.decode()}}
            self._api.ask("PATCH", self._path, change, kube.MERGE)
        except KubeError as error:
            pause = next(self._pauses)
            is_missing = isinstance(error, KubeMissingError)
            why = "it does not exist yet; the operator creates it" if is_missing else error
            log.warning("%s: the report is written again in %g s: %s", self._name, pause, why)
            return pause
        self._written, self._written_at = newest, time.monotonic()
        self._pauses = PATIENCE.make_pauses()
        return 0.0
