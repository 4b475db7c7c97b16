"""
Lets only one driver run at a time. It uses a Lease, as Kubernetes' own controllers do.

The clocks of machines differ, so each process uses only durations that it has measured itself. A
driver takes another driver's Lease if that Lease stays unchanged for the Lease's duration. A driver
ends if it could not renew its own Lease for `deadline`, counted from the start of the last
successful request. The duration is longer than the deadline, so a driver has time to end before
another one starts. The clock also counts the time during which a machine sleeps.

One thread renews the Lease. Another thread only checks the clock, so that no request can delay this
check. Before an irreversible step, `confirm` renews the Lease again.
"""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from contract import exit_codes
from spark_jobs.pipeline.kube import KubeApi, KubeConflictError, KubeError, KubeMissingError

log = logging.getLogger("evenkeel.job")
LEASES = "/apis/coordination.k8s.io/v1"
END_SECONDS = 15.0
"""How long an ending driver waits until its Lease is released."""
LOOK_SECONDS = 0.2
"""
The pause between two checks of the clock. One long wait would not include the time during which the
machine sleeps.
"""
_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DriverTerms:
    """How long a Lease is valid, and when it is renewed, in seconds."""

    duration: float = 30.0
    """Another driver may take the Lease if it was not renewed for this time."""
    deadline: float = 25.0
    """A driver ends if it could not renew its Lease for this time."""
    period: float = 5.0
    """The time between two renewals."""
    pause: float = 2.0
    """The time between two attempts to renew the Lease, or to take it from another driver."""


TERMS = DriverTerms()


def read_clock() -> float:
    """Read the seconds since this machine started, including the time that it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseLostError(Exception):
    """Another driver may have taken over: this one must do nothing more."""


def compute_wait(spec: Spec, holder: str, unchanged_for: float) -> float:
    """Compute how many seconds a driver must wait before it may take a Lease, unless renewed."""
    if spec.get("holderIdentity") in (None, "", holder):
        return 0.0
    duration: float = spec.get("leaseDurationSeconds") or TERMS.duration
    return max(0.0, duration - unchanged_for)


def make_held_spec(holder: str, spec: Spec, duration: float, now: datetime) -> dict[str, Any]:
    """Make the spec that a holder writes when it takes or renews a Lease."""
    text = now.strftime(_MICRO_TIME)
    held = {
        **spec,
        "holderIdentity": holder,
        "leaseDurationSeconds": max(1, round(duration)),
        "renewTime": text,
    }
    if spec.get("holderIdentity") != holder:
        held["acquireTime"] = text
        held["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
    return held


class DriverLease:
    """One driver's view of the Lease at a path of the API."""

    def __init__(
        self,
        api: KubeApi,
        path: str,
        holder: str,
        lose: Callable[[str], object],
        terms: DriverTerms = TERMS,
        clock: Callable[[], float] = read_clock,
    ) -> None:
        """Send no request yet. `lose` is called, from any thread, when this driver must end."""
        self._api = api
        self._path = path
        self._holder = holder
        self._lose = lose
        self._terms = terms
        self._clock = clock
        self._seen: dict[str, Any] = {}
        self._changed_at = 0.0
        """When the current content of the Lease was first seen."""
        self._renewed_at = 0.0
        self._over = threading.Event()
        self._is_lost = False
        self._writing = threading.Lock()
        """Held while a thread writes the Lease: one of two concurrent writes would be refused."""

    def take(self, stop: threading.Event) -> bool:
        """Wait until the Lease is free, and take it; False if `stop` is set first."""
        logged = ""
        while not stop.is_set():
            why = self._try_to_take()
            if not why:
                return True
            if why != logged:
                log.info("the driver waits: %s", why)
            logged = why
            stop.wait(self._terms.pause)
        return False

    @contextlib.contextmanager
    def keep(self) -> Iterator[None]:
        """Renew the Lease until the block ends; then release it."""
        renewing = threading.Thread(target=self._keep_renewing, name="lease", daemon=True)
        threading.Thread(target=self._keep_checking, name="lease-guard", daemon=True).start()
        renewing.start()
        try:
            yield
        finally:
            self._over.set()
            renewing.join(END_SECONDS)

    def confirm(self) -> None:
        """
        Renew the Lease, and return only if that succeeds.

        After that, no other driver can start for a while. If the API does not answer, retry until
        this driver must end anyway.
        """
        while not self._is_lost:
            is_renewed = self._renew_alone()
            self._end_if_late()
            if self._is_lost or (not is_renewed and self._over.wait(self._terms.pause)):
                break
            if is_renewed:
                return
        raise LeaseLostError(f"the Lease {self._path} no longer belongs to this driver")

    def _try_to_take(self) -> str:
        """Take the Lease if it is free, and return an empty string. Otherwise return the reason."""
        try:
            self._read()
            spec = self._seen["spec"]
            if compute_wait(spec, self._holder, self._clock() - self._changed_at) > 0:
                return f"the Lease {self._path} is held by {spec['holderIdentity']}"
            self._renew()
        except KubeMissingError:
            return f"the Lease {self._path} does not exist yet; the operator creates it"
        except KubeError as error:
            return f"the Lease cannot be taken for now: {error}"
        return ""

    def _read(self) -> None:
        found = self._api.ask("GET", self._path)
        found.setdefault("spec", {})
        if found["spec"] != self._seen.get("spec"):
            self._changed_at = self._clock()
        self._seen = found

    def _renew(self) -> None:
        """Take or renew the Lease, unless it has changed since it was read."""
        begun = self._clock()
        spec = make_held_spec(
            self._holder, self._seen["spec"], self._terms.duration, datetime.now(tz=UTC)
        )
        self._write(spec)
        self._renewed_at = begun

    def _write(self, spec: Spec) -> None:
        self._seen = self._api.ask("PUT", self._path, {**self._seen, "spec": spec})

    def _keep_renewing(self) -> None:
        pause = self._terms.period
        while not self._over.wait(pause) and not self._is_lost:
            pause = self._terms.period if self._renew_alone() else self._terms.pause
        if not self._is_lost:  # otherwise another driver may hold it
            self._release()

    def _renew_alone(self) -> bool:
        with self._writing:
            return self._try_to_renew()

    def _try_to_renew(self) -> bool:
        try:
            try:
                self._renew()
            except KubeConflictError:
                held = self._seen["spec"].get("leaseTransitions")
                self._read()
                spec = self._seen["spec"]
                if spec.get("leaseTransitions") != held:
                    who = spec.get("holderIdentity") or "another driver, which has ended,"
                    self._end(f"{who} has taken the Lease {self._path}")
                    return False
                self._renew()
        except KubeError as error:
            log.warning("the Lease is not renewed: %s", error)
            return False
        return True

    def _keep_checking(self) -> None:
        while not self._is_lost and not self._over.wait(min(LOOK_SECONDS, self._terms.period)):
            self._end_if_late()

    def _end_if_late(self) -> None:
        deadline = self._terms.deadline
        if self._clock() - self._renewed_at >= deadline:
            self._end(f"the Lease {self._path} could not be renewed for {deadline:g} s")

    def _end(self, why: str) -> None:
        self._is_lost = True
        self._lose(why)

    def _release(self) -> None:
        try:
            self._write({**self._seen["spec"], "holderIdentity": ""})
        except KubeError as error:
            log.warning(
                "the Lease is not released, so the next driver waits for %g s: %s",
                self._terms.duration, error,
            )  # fmt: skip


def end_at_once(why: str) -> NoReturn:
    """End this process and Spark's process at once, so that neither does anything more."""
    try:
        _kill_children()  # a JVM that lost its parent would end too late
        log.critical("the driver ends at once: %s", why)
    finally:
        os._exit(exit_codes.TRY_AGAIN)


def _kill_children() -> None:
    for each in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # threads and processes come and go
            for pid in each.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
