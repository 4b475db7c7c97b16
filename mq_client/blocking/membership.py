"""The membership of a client in a group, with a thread for its heartbeats."""

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
"""Interval of heartbeats. Brokers forget a client after 120 s without one."""


class Membership:
    """The membership of a client in a group, from the first heartbeat until `leave` is called."""

    def __init__(
        self,
        engine: Engine,
        directory: Directory,
        group: str,
        client_id: str,
        subscriptions: Mapping[str, Filter],
    ) -> None:
        """Join the group. Raise an error if the brokers cannot be found."""
        self._engine = engine
        self._directory = directory
        self._group = group
        self._client_id = client_id
        self._subscriptions = dict(subscriptions)
        self.is_over = False
        self.failures: Mapping[str, Exception] = {}
        """
        Errors of the last heartbeats, by the broker's address. The key `route` means that the
        brokers could not be found.
        """
        self._send_heartbeat()
        self._thread = threading.Thread(
            target=self._keep_alive, name=f"heartbeats of {client_id}", daemon=True
        )
        self._thread.start()

    def leave(self) -> None:
        """Stop the heartbeats and unregister. A closed client is not unregistered."""
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
        """Return the membership."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""
        self.leave()

    def _keep_alive(self) -> None:
        while True:
            try:
                if self._engine.wait(lambda: self.is_over, EVERY_SECONDS):
                    return
                self._send_heartbeat()
            except errors.ClosedError:
                return
            except Exception as error:  # noqa: BLE001  # the thread survives any error
                self.failures = {"route": error}

    def _send_heartbeat(self) -> None:
        flow = membership.send_heartbeat(
            self._directory, self._group, self._client_id, self._subscriptions
        )
        self.failures = self._engine.run(flow)
