"""
A member of a group, for use in your own program.

    async def handle(messages): ...

    await Follower(handle, coordinator="http://127.0.0.1:9410", group="shop/billing").run()
"""

import contextlib
import importlib.util
import logging
import os
import socket
import ssl
from pathlib import Path

from contract.following import GroupSource, PopTerms
from follower import serving
from follower.asking import Coordinator
from follower.brokers import TIMES, GroupBrokers
from follower.handling import Handler, Handling
from follower.importing import import_handler
from follower.metrics import Metrics
from follower.options import FollowerError, FollowerOptions
from follower.popping.ordered import OrderedBrokers
from follower.popping.running import Popping
from follower.running import Running
from mq_client.acl import Credentials
from mq_client.aio import Client
from mq_client.values import MessageQueue

DEFAULT_OPTIONS = FollowerOptions()
log = logging.getLogger("evenkeel.follower")


def default_member() -> str:
    """Name this process by its pod, or by its host and process id."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"


class Follower:
    """Reads the queues that a coordinator grants, and gives their messages to a handler."""

    def __init__(
        self,
        handler: Handler | str,
        *,
        coordinator: str,
        group: str,
        member: str | None = None,
        token_file: str | Path | None = None,
        ca_file: str | Path | None = None,
        options: FollowerOptions = DEFAULT_OPTIONS,
        metrics_port: int = 0,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """
        Connect to nothing yet. Arguments that cannot work raise a `FollowerError`.

        The handler is a function or its place, such as `shop.billing:handle`. Processes need the
        place.
        `ca_file` contains the authorities to trust for the coordinator's certificate. `credentials`
        and `tls` are for the brokers. With port 0 no metrics are served.
        """
        place = handler if isinstance(handler, str) else ""
        if isinstance(handler, str):
            handler = import_handler(handler)
        if not callable(handler):
            raise FollowerError(f"the handler {handler!r} cannot be called")
        if options.arrow and importlib.util.find_spec("pyarrow") is None:
            raise FollowerError(
                "Arrow columns need pyarrow: in Evenkeel's checkout, pip install '.[arrow]'"
            )
        if options.processes and not place:
            raise FollowerError(
                "processes import the handler: give its place, such as 'shop.billing:handle'"
            )
        token = None if token_file is None else Path(token_file)
        self.metrics = Metrics()
        self._options = options
        trust = None if ca_file is None else Path(ca_file)
        name = member or default_member()
        self._coordinator = Coordinator(coordinator, group, name, token, trust)
        self._handling = Handling(handler, options, self.metrics, place)
        self._metrics_port = metrics_port
        self._credentials = credentials
        self._tls = tls
        self._running: Running | None = None
        self._is_stopping = False

    @property
    def stuck(self) -> list[MessageQueue]:
        """The queues whose handler was still running when `run` ended."""
        return self._handling.stuck

    async def run(self) -> None:
        """Follow until `stop` is called. A follower can be run only once."""
        async with contextlib.AsyncExitStack() as opened:
            opened.push_async_callback(self._handling.close)
            await opened.enter_async_context(self._coordinator)
            if self._metrics_port:
                await opened.enter_async_context(
                    serving.serve(self._metrics_port, self.metrics.registry, self._trouble)
                )
            while not self._is_stopping:
                self._running = Running(
                    self._coordinator, self._open_brokers, self._handling, self.metrics,
                    start_pops=self._start_pops,
                )  # fmt: skip
                await self._running.run()

    def stop(self) -> None:
        """
        Finish the running calls of the handler, commit, end the session, and end `run`.

        Call this method from the event loop. A second call ends `run` without waiting.
        """
        self._is_stopping = True
        if self._running is not None:
            self._running.stop()

    def _open_brokers(self, source: GroupSource) -> GroupBrokers:
        if source.ordered is None:
            return GroupBrokers(source, self._options, self._credentials, self._tls)
        self._refuse_unfit(source)
        return OrderedBrokers(
            source, source.ordered, self._options, self.metrics, self._credentials, self._tls
        )

    def _start_pops(self, source: GroupSource, terms: PopTerms) -> Popping | None:
        if source.messages is None and self._handling.keeps_positions:
            log.warning(
                "this handler keeps positions, so it does not get messages that were popped before "
                "group %r changed to balance Queues; other members get them",
                source.group,
            )
            return None
        self._refuse_unfit(source)

        def open_client() -> Client:
            return Client(
                source.name_servers, credentials=self._credentials, tls=self._tls, times=TIMES
            )

        popping = Popping(source, terms, open_client, self._handling, self._options, self.metrics)
        popping.start()
        return popping

    def _refuse_unfit(self, source: GroupSource) -> None:
        """Refuse a handler that cannot get popped messages."""
        if self._handling.keeps_positions:
            raise FollowerError(
                f"the handler keeps positions of queues, but group {source.group!r} is balanced by "
                "message: the brokers keep its positions"
            )

    def _trouble(self) -> str:
        return self._running.trouble if self._running is not None else "it has not begun yet"
