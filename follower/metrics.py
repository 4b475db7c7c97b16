"""Prometheus metrics of a follower, in their own registry."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """What `/metrics` shows. All names begin with `evenkeel_follower_`."""

    def __init__(self) -> None:
        """Begin with zero."""
        self.registry = CollectorRegistry()
        self.held = self._gauge("held_queues", "Queues that this member holds")
        self.stopped = self._gauge(
            "stopped_queues", "Queues that this member holds, but no longer reads after a failure"
        )
        self._session = self._gauge(
            "session_age_seconds", "Seconds since the session began; 0 without a session"
        )
        self.sessions = self._counter("sessions", "Sessions that have begun")
        self.handled = self._counter("handled_messages", "Messages that the handler has finished")
        self.failures = self._counter("handler_failures", "Calls of the handler that failed")
        self.given_up = self._counter(
            "given_up_messages", "Messages that were given up, by what became of them", ("to",)
        )
        self.popped = self._gauge(
            "popped_messages", "Popped messages that wait for the handler, or are being handled"
        )
        self.late = self._counter(
            "late_messages",
            "Popped messages that the handler did not get, because others may have got them",
        )
        self.lost = self._counter(
            "lost_messages", "Messages that the broker had deleted before they were read"
        )
        self.broker_failures = self._counter(
            "broker_failures", "Operations at brokers that failed and are tried again", ("what",)
        )
        self.refusals = self._counter(
            "refusals", "Requests that the coordinator refused, or did not answer", ("reason",)
        )
        for where in ("skipped", "dead-letter"):
            self.given_up.labels(where)

    def show_session_age(self, age: Callable[[], float]) -> None:
        """Call `age` for the age of the session at each scrape."""
        self._session.set_function(age)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"evenkeel_follower_{name}", meaning, registry=self.registry)

    def _counter(self, name: str, meaning: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"evenkeel_follower_{name}", meaning, labels, registry=self.registry)
