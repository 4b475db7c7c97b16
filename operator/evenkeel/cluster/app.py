"""`evenkeel operator`: hear of everything, and lead if nobody else does."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import kopf
from prometheus_client import CollectorRegistry

from contract.names import GROUP_LABEL
from evenkeel.cluster import api, staging, watching
from evenkeel.cluster.api import Api
from evenkeel.cluster.calls import Calls
from evenkeel.cluster.fence import Fence
from evenkeel.cluster.lease import LeaderLease
from evenkeel.cluster.operator import Operator
from evenkeel.cluster.resync import A_PAGE, Resync
from evenkeel.cluster.serving import serving
from evenkeel.cluster.terms import LeaderTerms
from evenkeel.control import metrics
from evenkeel.errors import EvenkeelError
from evenkeel.objects import DEFAULT_NAMESPACE, Key

log = logging.getLogger("evenkeel")
END_SECONDS = 20.0
"""For all that has to end: what still hangs then is ended with the process."""
FAILED = 1
KEPT_SECONDS = 0.1
BORN_AT_ONCE = 20_000
"""Objects; most are gone again by then, so looking for garbage hardly ever means all of it."""
LEASE = "evenkeel-operator"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    namespaces: Sequence[str] = ()
    """Empty: all."""
    port: int = 8080
    image: str = ""
    """For jobs that name none."""
    lease_namespace: str | None = None
    """Default: where the operator's own pod is."""
    restarts_at_once: int = staging.AT_ONCE
    """Of drivers that nobody asked for, as after an upgrade."""
    terms: LeaderTerms = LeaderTerms()  # noqa: RUF009 it is frozen
    allowed: Sequence[str] = ()
    """Name servers that Topics may name, as patterns; none: any."""


def start(options: Options) -> None:
    """Run the operator in this process until SIGTERM or Ctrl-C, with its log in JSON."""
    kopf.configure(log_format=kopf.LogFormat.JSON)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # else a line for each event
    asyncio.run(run(options))


async def run(options: Options) -> None:
    """Run until SIGTERM or Ctrl-C; then finish what has begun, and give the lease back."""
    gc.set_threshold(BORN_AT_ONCE)
    settings = _settings(options)
    info = api.connection(settings)
    stop = asyncio.Event()
    fence = Fence()
    async with Api(lambda: api.connection(settings), fence) as client:
        await client.refuse_strangers()
        operator = Operator(
            client,
            options.image,
            sees_nodes=not options.namespaces,
            restarts_at_once=options.restarts_at_once,
        )
        operator.world.allowed = options.allowed
        resync = Resync(client, operator.kinds, list(options.namespaces) or [None])
        operator.world.fence = fence
        operator.world.why_unseen = resync.scopes.unseen
        registry = CollectorRegistry()
        objects = metrics.Objects(
            operator.heard.topics.all,
            operator.heard.all_groups,
            lambda: operator.loop.lags if operator.loop else {},
        )
        registry.register(objects)
        registry.register(metrics.Service(lambda: operator.loop))
        registry.register(Calls(client, resync, operator.world.staging))
        handlers = watching.register(operator.kinds)
        _log_in(handlers, settings)
        where = options.lease_namespace or info.default_namespace or DEFAULT_NAMESPACE
        # A container that is restarted is the same one again, and goes on with its own lease.
        identity = f"{socket.gethostname()}_{os.getpid()}"
        lease = LeaderLease(client, Key(where, LEASE), identity, options.terms, fence)
        lease.in_trouble = resync.look_now
        async with serving(
            options.port, registry, resync.scopes.why_not_ready, lambda: resync.why_sick
        ):
            not_kopfs = asyncio.all_tasks()
            enough = asyncio.Event()
            watches = await kopf.spawn_tasks(
                registry=handlers,
                settings=settings,
                standalone=True,
                clusterwide=not options.namespaces,
                namespaces=options.namespaces,
                stop_flag=enough,
            )
            for number in (signal.SIGINT, signal.SIGTERM):  # kopf's would end the watches first
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            leading = asyncio.create_task(_lead(lease, operator, resync))
            told = asyncio.create_task(stop.wait())
            await asyncio.wait((*watches, leading, told), return_when=asyncio.FIRST_COMPLETED)
            why = next((_why(task) for task in watches if task.done()), "")
            if why:  # said before anything else, as the end may hang
                log.error(why)
            with ending_in_time():
                told.cancel()
                await _ended(leading)
                enough.set()
                (result,) = await asyncio.gather(
                    kopf.run_tasks(watches, ignored=not_kopfs), return_exceptions=True
                )
            if why:
                raise EvenkeelError(why)
            if result is not None:
                raise result


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait until it has cleaned up; what failed before is raised."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _why(ended: asyncio.Task[Any]) -> str:
    """Say why all watches have ended, as one of kopf's tasks did."""
    error = None if ended.cancelled() else ended.exception()
    text = f"kopf's {ended.get_name()} has ended: {error!r}"
    return f"the watches have ended, so that this process has to start anew: {text}"


@contextlib.contextmanager
def ending_in_time(seconds: float = END_SECONDS) -> Iterator[None]:
    """End the process by force where something hangs that should end now."""
    end = threading.Timer(seconds, _end_by_force, (seconds,))
    end.daemon = True
    end.start()
    yield
    end.cancel()


def _end_by_force(seconds: float) -> None:
    log.error("not everything has ended after %g s, so this process is ended by force", seconds)
    os._exit(FAILED)


async def _lead(lease: LeaderLease, operator: Operator, resync: Resync) -> None:
    await resync.begin()
    gc.collect()
    gc.freeze()  # what is known of a cluster stays: looking for garbage in it takes long
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(resync.run())
        tasks.create_task(lease.keep(operator.begin, operator.end))


def _settings(options: Options) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    watching.keep_hands_off(settings)
    watching.be_patient(settings)
    settings.scanning.disabled = bool(options.namespaces)  # it would need rights on all of them
    settings.watching.chunk_size = A_PAGE  # else a whole cluster's pods are in memory at once,
    settings.queueing.idle_timeout = KEPT_SECONDS  # and stay there for as long as this
    settings.watching.label_selectors["", "v1", "configmaps"] = GROUP_LABEL
    return settings


def _log_in(registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
    @kopf.on.login(registry=registry)
    def login(**_: object) -> kopf.ConnectionInfo:
        return api.connection(settings)
