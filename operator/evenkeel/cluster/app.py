"""`evenkeel operator`: watches all objects, and reconciles them while it leads."""

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
from evenkeel.cluster.api import api_client
from evenkeel.cluster.api.api_client import Api
from evenkeel.cluster.drivers import restart_turns
from evenkeel.cluster.leader.fence import Fence
from evenkeel.cluster.leader.leader_lease import LeaderLease
from evenkeel.cluster.leader.lease_terms import LeaderTerms
from evenkeel.cluster.members.documents import Place
from evenkeel.cluster.operator import Operator
from evenkeel.cluster.process_metrics import ProcessMetrics
from evenkeel.cluster.serving.probes import serve
from evenkeel.cluster.watch import kopf_watches
from evenkeel.cluster.watch.resync import A_PAGE, Resync
from evenkeel.control import metrics
from evenkeel.objects import DEFAULT_NAMESPACE, Key

log = logging.getLogger("evenkeel")
END_SECONDS = 20.0
"""If a clean end takes longer than this, the process exits by force."""
FAILED = 1
KEPT_SECONDS = 0.1
YOUNG_OBJECTS, YOUNG_COLLECTIONS = 2_000, 1_000
"""
Thresholds of Python's garbage collector: how many new objects start a collection of the young
objects, and how many such collections start a collection of the older objects.

Requests of members that wait for their answers hold hundreds of thousands of objects. While the
collector visits these objects, the process does nothing else.
"""
LEASE = "evenkeel-operator"


@dataclass(frozen=True, slots=True)
class MembersOptions:
    """Where members of groups find this process, if it leads."""

    service: str
    """A Service without a selector, in the namespace of the Lease."""
    address: str
    """IP address of this pod."""
    port: int


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line."""

    namespaces: Sequence[str] = ()
    """Namespaces to watch; if empty, all namespaces."""
    port: int = 8080
    image: str = ""
    """Image of jobs whose spec has none."""
    lease_namespace: str | None = None
    """Default: the namespace of the operator's own pod."""
    restarts_at_once: int = restart_turns.AT_ONCE
    """How many drivers may restart at a time if no user asked for a restart, as in an upgrade."""
    terms: LeaderTerms = LeaderTerms()  # noqa: RUF009 it is frozen
    allowed: Sequence[str] = ()
    """Patterns of name servers that Topics may name; if empty, any name server is allowed."""
    members: MembersOptions | None = None
    """None if the operator does not serve members of groups."""


def start(options: Options) -> None:
    """Run the operator in this process until SIGTERM or Ctrl-C, with its log in JSON."""
    kopf.configure(log_format=kopf.LogFormat.JSON)
    logging.getLogger("kopf.objects").setLevel(
        logging.WARNING
    )  # otherwise kopf logs a line per event
    asyncio.run(run(options))


async def run(options: Options) -> None:
    """Run until SIGTERM or Ctrl-C. Then finish the work in progress and release the Lease."""
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS)
    settings = _build_settings(options)
    info = api_client.find_connection(settings)
    stop = asyncio.Event()
    fence = Fence()
    async with Api(lambda: api_client.find_connection(settings), fence) as client:
        await client.refuse_strangers()
        where = options.lease_namespace or info.default_namespace or DEFAULT_NAMESPACE
        operator = Operator(
            client,
            options.image,
            sees_nodes=not options.namespaces,
            restarts_at_once=options.restarts_at_once,
            place=_find_place(options.members, where),
        )
        operator.world.allowed = options.allowed
        resync = Resync(client, operator.kinds, list(options.namespaces) or [None])
        operator.world.fence = fence
        operator.world.why_unseen = resync.scopes.explain_unseen
        registry = CollectorRegistry()
        objects = metrics.ObjectMetrics(
            operator.cache.topics.list_values,
            operator.cache.list_groups,
            lambda: operator.loop.censuses if operator.loop else {},
        )
        registry.register(objects)
        registry.register(metrics.LoopMetrics(lambda: operator.loop))
        registry.register(operator.member_metrics)
        registry.register(ProcessMetrics(client, resync, operator.world.restart_turns))
        handlers = kopf_watches.register(operator.kinds)
        _log_in(handlers, settings)
        # A restarted container has the same identity, so it can still renew its old Lease.
        identity = f"{socket.gethostname()}_{os.getpid()}"
        lease = LeaderLease(client, Key(where, LEASE), identity, options.terms, fence)
        lease.in_trouble = resync.look_now
        async with serve(
            options.port, registry, resync.scopes.explain_not_ready, lambda: resync.why_sick
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
            for number in (
                signal.SIGINT,
                signal.SIGTERM,
            ):  # kopf's own handlers would end watches first
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            leading = asyncio.create_task(_lead(lease, operator, resync))
            told = asyncio.create_task(stop.wait())
            await asyncio.wait((*watches, leading, told), return_when=asyncio.FIRST_COMPLETED)
            why = next((_explain_end(task) for task in watches if task.done()), "")
            if why:
                log.error(why)
            with end_in_time():
                told.cancel()
                await _cancel(leading)
                if why:
                    # After an error kopf may wait for ever for some of its own tasks. These tasks
                    # are no longer needed.
                    os._exit(FAILED)
                enough.set()
                (result,) = await asyncio.gather(
                    kopf.run_tasks(watches, ignored=not_kopfs), return_exceptions=True
                )
            if result is not None:
                raise result


def _find_place(members: MembersOptions | None, namespace: str) -> Place | None:
    if members is None:
        return None
    return Place(Key(namespace, members.service), members.address, members.port)


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end. If the task has already failed, raise its error."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _explain_end(ended: asyncio.Task[Any]) -> str:
    """Explain why the watches have ended: name the task of kopf that ended, and its error."""
    error = None if ended.cancelled() else ended.exception()
    text = f"kopf's {ended.get_name()} has ended: {error!r}"
    return f"the watches have ended, so this process must restart: {text}"


@contextlib.contextmanager
def end_in_time(seconds: float = END_SECONDS) -> Iterator[None]:
    """Exit by force if the block does not end in time."""
    end = threading.Timer(seconds, _end_by_force, (seconds,))
    end.daemon = True
    end.start()
    yield
    end.cancel()


def _end_by_force(seconds: float) -> None:
    log.error("some work has not ended after %g s, so this process exits by force", seconds)
    os._exit(FAILED)


async def _lead(lease: LeaderLease, operator: Operator, resync: Resync) -> None:
    await resync.begin()
    gc.collect()
    gc.freeze()  # otherwise the collector would visit all cached objects each time
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(resync.run())
        tasks.create_task(lease.keep(operator.begin, operator.end))


def _build_settings(options: Options) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    kopf_watches.keep_hands_off(settings)
    kopf_watches.be_patient(settings)
    settings.scanning.disabled = bool(options.namespaces)  # scanning needs cluster-wide rights
    settings.watching.chunk_size = A_PAGE  # otherwise all pods of a cluster are in memory at once
    settings.queueing.idle_timeout = KEPT_SECONDS  # kopf keeps each object for this time
    settings.watching.label_selectors["", "v1", "configmaps"] = GROUP_LABEL
    return settings


def _log_in(registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
    @kopf.on.login(registry=registry)
    def login(**_: object) -> kopf.ConnectionInfo:
        return api_client.find_connection(settings)
