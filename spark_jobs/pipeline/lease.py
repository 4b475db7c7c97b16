"""
Lets one driver run at a time: a Lease, as Kubernetes' own controllers use it.

Clocks of machines differ, so each process goes by what it has measured itself: a driver waits until
it has seen another's Lease unchanged for as long as that holds, and ends at the latest when its own
was not renewed for `deadline`, counted from before the last request that succeeded. The difference
of the two is the time that it has to be gone. The clock is one that goes on while a machine sleeps.

One thread renews. Another one looks at the clock alone, so that no request can keep it from that.
Before something is done that cannot be undone, `confirm` asks once more.
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
from spark_jobs.pipeline.kube import Api, ConflictError, KubeError, MissingError

log = logging.getLogger("evenkeel.job")
LEASES = "/apis/coordination.k8s.io/v1"
END_SECONDS = 15.0
"""So long a driver that ends waits to give its Lease back."""
LOOK_SECONDS = 0.2
"""So often the clock is looked at: a wait would stand still while a machine sleeps."""
_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DriverTerms:
    """How long a Lease holds, in seconds."""

    duration: float = 30.0
    """Others take it when it was not renewed for so long."""
    deadline: float = 25.0
    """A driver that could not renew it for so long ends."""
    period: float = 5.0
    """It is renewed so often."""
    pause: float = 2.0
    """Before it is tried again, and between two looks at one that another holds."""


TERMS = DriverTerms()


def now() -> float:
    """Tell the seconds since this machine started, those of its sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LostError(Exception):
    """Another driver may have taken over: nothing may be done any more."""


def free_in(spec: Spec, holder: str, unchanged_for: float) -> float:
    """Tell after how many seconds a driver may take a Lease that nobody renews meanwhile."""
    if spec.get("holderIdentity") in (None, "", holder):
        return 0.0
    duration: float = spec.get("leaseDurationSeconds") or TERMS.duration
    return max(0.0, duration - unchanged_for)


def held_by(holder: str, spec: Spec, duration: float, now: datetime) -> dict[str, Any]:
    """Write a Lease as its holder does when it takes or renews it."""
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
        api: Api,
        path: str,
        holder: str,
        lose: Callable[[str], object],
        terms: DriverTerms = TERMS,
        clock: Callable[[], float] = now,
    ) -> None:
        """Ask for nothing yet. `lose` is called, from any thread, when this driver must end."""
        self._api = api
        self._path = path
        self._holder = holder
        self._lose = lose
        self._terms = terms
        self._clock = clock
        self._seen: dict[str, Any] = {}
        self._changed_at = 0.0
        """When it was first seen as it is."""
        self._renewed_at = 0.0
        self._over = threading.Event()
        self._is_lost = False
        self._asking = threading.Lock()
        """A Lease is written by one thread at a time: what the other has seen would be old."""

    def take(self, stop: threading.Event) -> bool:
        """Wait until it is free, and take it; False if told to stop before."""
        said = ""
        while not stop.is_set():
            why = self._why_not()
            if not why:
                return True
            if why != said:
                log.info("the driver waits: %s", why)
            said = why
            stop.wait(self._terms.pause)
        return False

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Renew what was taken, until left; then give it back."""
        renewing = threading.Thread(target=self._renew_on, name="lease", daemon=True)
        threading.Thread(target=self._guard, name="lease-guard", daemon=True).start()
        renewing.start()
        try:
            yield
        finally:
            self._over.set()
            renewing.join(END_SECONDS)

    def confirm(self) -> None:
        """
        Renew it, and return only if that succeeded: for a while no other driver begins.

        An API that does not answer is asked again, until this driver must end anyway.
        """
        while not self._is_lost:
            is_renewed = self._renewed()
            self._end_if_late()
            if self._is_lost or (not is_renewed and self._over.wait(self._terms.pause)):
                break
            if is_renewed:
                return
        raise LostError(f"the Lease {self._path} is not this driver's any more")

    def _why_not(self) -> str:
        """Take it if it is free; else tell why it is not ours."""
        try:
            self._look()
            spec = self._seen["spec"]
            if free_in(spec, self._holder, self._clock() - self._changed_at) > 0:
                return f"the Lease {self._path} is held by {spec['holderIdentity']}"
            self._hold()
        except MissingError:
            return f"the Lease {self._path} is missing, and the operator makes it"
        except KubeError as error:
            return f"the Lease cannot be taken for now: {error}"
        return ""

    def _look(self) -> None:
        found = self._api.ask("GET", self._path)
        found.setdefault("spec", {})
        if found["spec"] != self._seen.get("spec"):
            self._changed_at = self._clock()
        self._seen = found

    def _hold(self) -> None:
        """Take or renew it, unless it has changed since it was seen."""
        begun = self._clock()
        spec = held_by(self._holder, self._seen["spec"], self._terms.duration, datetime.now(tz=UTC))
        self._write(spec)
        self._renewed_at = begun

    def _write(self, spec: Spec) -> None:
        self._seen = self._api.ask("PUT", self._path, {**self._seen, "spec": spec})

    def _renew_on(self) -> None:
        pause = self._terms.period
        while not self._over.wait(pause) and not self._is_lost:
            pause = self._terms.period if self._renewed() else self._terms.pause
        if not self._is_lost:  # else it may be another's
            self._give_back()

    def _renewed(self) -> bool:
        with self._asking:
            return self._try_to_renew()

    def _try_to_renew(self) -> bool:
        try:
            try:
                self._hold()
            except ConflictError:
                held = self._seen["spec"].get("leaseTransitions")
                self._look()
                spec = self._seen["spec"]
                if spec.get("leaseTransitions") != held:
                    who = spec.get("holderIdentity") or "another driver, which has ended,"
                    self._end(f"{who} has taken the Lease {self._path}")
                    return False
                self._hold()
        except KubeError as error:
            log.warning("the Lease is not renewed: %s", error)
            return False
        return True

    def _guard(self) -> None:
        while not self._is_lost and not self._over.wait(min(LOOK_SECONDS, self._terms.period)):
            self._end_if_late()

    def _end_if_late(self) -> None:
        deadline = self._terms.deadline
        if self._clock() - self._renewed_at >= deadline:
            self._end(f"the Lease {self._path} could not be renewed for {deadline:g} s")

    def _end(self, why: str) -> None:
        self._is_lost = True
        self._lose(why)

    def _give_back(self) -> None:
        try:
            self._write({**self._seen["spec"], "holderIdentity": ""})
        except KubeError as error:
            log.warning(
                "the Lease is not given back, so the next driver waits for %g s: %s",
                self._terms.duration, error,
            )  # fmt: skip


def end_at_once(why: str) -> NoReturn:
    """End this process and Spark's, so that nothing of theirs is done any more."""
    try:
        _kill_children()  # a JVM that only sees its parent gone would end in its own time
        log.critical("the driver ends at once: %s", why)
    finally:
        os._exit(exit_codes.TRY_AGAIN)


def _kill_children() -> None:
    for each in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # threads and processes come and go
            for pid in each.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
