"""`evenkeel operator`: hear of everything, and lead if nobody else does."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import kopf
from prometheus_client import CollectorRegistry

from evenkeel.cluster import api, watching
from evenkeel.cluster.api import Api
from evenkeel.cluster.calls import Calls
from evenkeel.cluster.lease import Lease, Terms
from evenkeel.cluster.manifest import names
from evenkeel.cluster.operator import Operator
from evenkeel.cluster.resync import A_PAGE, Resync
from evenkeel.cluster.serving import serving
from evenkeel.control import metrics
from evenkeel.objects import DEFAULT_NAMESPACE, Key

WATCH_SECONDS = 300  # the API server takes whole ones only
REQUEST_SECONDS = 30.0
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
    terms: Terms = Terms()  # noqa: RUF009 it is frozen
    allowed: Sequence[str] = ()
    """Name servers that Topics may name, as patterns; none: any."""


async def run(options: Options) -> None:
    """Run until SIGTERM or Ctrl-C; then finish what has begun, and give the lease back."""
    gc.set_threshold(BORN_AT_ONCE)
    settings = _settings(options)
    info = api.connection(settings)
    stop = asyncio.Event()
    listed = asyncio.Event()
    async with Api(lambda: api.connection(settings)) as client:
        await client.refuse_strangers()
        operator = Operator(client, options.image, sees_nodes=not options.namespaces)
        operator.world.allowed = options.allowed
        resync = Resync(client, operator.kinds, list(options.namespaces) or [None])
        registry = CollectorRegistry()
        objects = metrics.Objects(
            operator.heard.topics.all,
            operator.heard.all_groups,
            lambda: operator.loop.lags if operator.loop else {},
        )
        registry.register(objects)
        registry.register(metrics.Service(lambda: operator.loop))
        registry.register(Calls(client, resync))
        handlers = watching.register(operator.kinds)
        _log_in(handlers, settings)
        where = options.lease_namespace or info.default_namespace or DEFAULT_NAMESPACE
        # A container that is restarted is the same one again, and goes on with its own lease.
        identity = f"{socket.gethostname()}_{os.getpid()}"
        lease = Lease(client, Key(where, LEASE), identity, options.terms)
        async with serving(options.port, registry, listed.is_set, lambda: resync.is_sick):
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
            watching_all = asyncio.create_task(kopf.run_tasks(watches, ignored=not_kopfs))
            leading = asyncio.create_task(_lead(lease, operator, resync, listed))
            told = asyncio.create_task(stop.wait())
            await asyncio.wait((watching_all, leading, told), return_when=asyncio.FIRST_COMPLETED)
            await _ended(leading)
            enough.set()
            await watching_all


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait until it has cleaned up; what failed before is raised."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _lead(lease: Lease, operator: Operator, resync: Resync, listed: asyncio.Event) -> None:
    await resync.begin()
    listed.set()
    gc.collect()
    gc.freeze()  # what is known of a cluster stays: looking for garbage in it takes long
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(resync.run())
        tasks.create_task(lease.keep(operator.begin, operator.end))


def _settings(options: Options) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    watching.keep_hands_off(settings)
    settings.scanning.disabled = bool(options.namespaces)  # it would need rights on all of them
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.chunk_size = A_PAGE  # else a whole cluster's pods are in memory at once,
    settings.queueing.idle_timeout = KEPT_SECONDS  # and stay there for as long as this
    settings.watching.connect_timeout = REQUEST_SECONDS
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.watching.label_selectors["", "v1", "configmaps"] = names.GROUP_LABEL
    return settings


def _log_in(registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
    @kopf.on.login(registry=registry)
    def login(**_: object) -> kopf.ConnectionInfo:
        return api.connection(settings)
