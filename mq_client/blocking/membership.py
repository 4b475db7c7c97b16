"""A member of a group: a thread of its own heartbeats, and hears what the brokers say."""

import contextlib
import threading
from collections.abc import Mapping
from typing import Self

from mq_client import errors
from mq_client.blocking.engine import Engine
from mq_client.directory import Directory
from mq_client.filters import Filter
from mq_client.operations import membership

EVERY_SECONDS = 30.0
"""Brokers forget a client after 120 s without a heartbeat."""


class Membership:
    """Is in the group from the first heartbeat on, until `leave`."""

    def __init__(
        self,
        engine: Engine,
        directory: Directory,
        group: str,
        client_id: str,
        subscriptions: Mapping[str, Filter],
    ) -> None:
        """Join, or raise what keeps the brokers from being found."""
        self._engine = engine
        self._directory = directory
        self._group = group
        self._client_id = client_id
        self._subscriptions = dict(subscriptions)
        self.is_over = False
        self.failures: Mapping[str, Exception] = {}
        """What the last heartbeats ended with, by the broker's address, where they failed.
        `route`: the brokers could not be found, or told."""
        self._heartbeat()
        self._thread = threading.Thread(
            target=self._keep, name=f"heartbeats of {client_id}", daemon=True
        )
        self._thread.start()

    def leave(self) -> None:
        """Tell the brokers, and stop the heartbeats. A client that was closed has left already."""
        if not self.is_over:
            self.is_over = True
            self._engine.nudge()
            self._thread.join()
            flow = membership.unregister(
                self._directory, self._group, self._client_id, list(self._subscriptions)
            )
            with contextlib.suppress(errors.ClosedError):
                self._engine.run(flow)

    def __enter__(self) -> Self:
        """Be a member."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""
        self.leave()

    def _keep(self) -> None:
        while True:
            try:
                if self._engine.wait(lambda: self.is_over, EVERY_SECONDS):
                    return
                self._heartbeat()
            except errors.ClosedError:
                return
            except Exception as error:  # noqa: BLE001  # the thread lives on, whatever it is
                self.failures = {"route": error}

    def _heartbeat(self) -> None:
        flow = membership.heartbeat(
            self._directory, self._group, self._client_id, self._subscriptions
        )
        self.failures = self._engine.run(flow)
