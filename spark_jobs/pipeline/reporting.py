"""
Writes a job's newest report to its ConfigMap, from a thread of its own.

So an API server that is slow or away never holds the driver up. What is written tells the operator
something new at once; rows that were read in the meantime can wait.
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
from spark_jobs.pipeline.kube import Api, KubeError, MissingError

log = logging.getLogger("evenkeel.job")
COUNTERS_SECONDS = 10.0
"""Counters alone are written so often."""
PATIENCE = Times(first_pause=1.0, longest_pause=10.0)
LAST_TRIES = 3
END_SECONDS = 30.0
"""So long a driver that ends waits for its last report to be written."""


class Text(NamedTuple):
    """A report as it is written, and what of it is worth a write at once."""

    text: bytes
    news: bytes


def write(report: BareReport) -> Text:
    """Write a report down: what it was made of may change later."""
    fields = msgspec.to_builtins(report)
    news = {name: value for name, value in fields.items() if name not in COUNTERS}
    return Text(msgspec.json.encode(fields), msgspec.json.encode(news))


def due_in(newest: Text | None, written: Text | None, age: float) -> float | None:
    """Tell when a report is to be written, if the last write was so many seconds ago."""
    if newest is None or newest == written:
        return None
    if written is None or newest.news != written.news:
        return 0.0
    return max(0.0, COUNTERS_SECONDS - age)


class Reporting:
    """The reports of one driver."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        """Write nothing yet."""
        self._api = api
        self._name = f"ConfigMap {namespace}/{name}"
        self._path = kube.url_path("/api/v1", namespace, "configmaps", name)
        self._newest: Text | None = None
        self._written: Text | None = None
        self._written_at = 0.0
        self._pauses = PATIENCE.make_pauses()
        self._changed = threading.Condition()
        self._over = threading.Event()

    def tell(self, report: BareReport) -> None:
        """Let this be the newest report; it is written soon."""
        newest = write(report)
        with self._changed:
            self._newest = newest
            self._changed.notify()

    @contextmanager
    def kept_up(self) -> Iterator[None]:
        """Write until left; then write a last time, and wait for that."""
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
                left = due_in(self._newest, self._written, age)
                if left == 0:
                    return
                self._changed.wait(left)

    def _write(self) -> float:
        """Write the newest report, if it is not; how long to wait if that failed."""
        newest = self._newest
        if newest is None or newest == self._written:
            return 0.0
        try:
            change = {"data": {names.REPORT: newest.text.decode()}}
            self._api.ask("PATCH", self._path, change, kube.MERGE)
        except KubeError as error:
            pause = next(self._pauses)
            is_missing = isinstance(error, MissingError)
            why = "it is missing, and the operator makes it" if is_missing else error
            log.warning("%s gets its report in %g s: %s", self._name, pause, why)
            return pause
        self._written, self._written_at = newest, time.monotonic()
        self._pauses = PATIENCE.make_pauses()
        return 0.0
