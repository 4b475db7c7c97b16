"""The sandbox from the command line: `python -m sandbox rocketmq up`, for other programs too."""

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from sandbox import go, images, jars, ports, process, progress, rocketmq

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_UNTIL_ENDED = """\
It lives until this command is ended by Ctrl-C or SIGTERM, or in any other way, kill -9 included.
Then nothing is left of it, neither a process nor its data. What it tells in between is on stderr.
"""
_ROCKETMQ = f"""\
Runs a RocketMQ {rocketmq.VERSION} on free ports of this machine: one name server and some brokers.
When all are ready, one line of JSON is printed:

    {{"nameServer": "127.0.0.1:21346", "brokers": {{"broker-a": "127.0.0.1:25002", ...}}}}

{_UNTIL_ENDED}"""
_ROCKETMQ_EXAMPLES = """\
examples:
    python -m sandbox rocketmq up
    python -m sandbox rocketmq up --brokers 1 --slaves 1
    python -m sandbox rocketmq up --property autoCreateTopicEnable=true   (topics made by sending)

Java 17 or newer is needed. RocketMQ itself is fetched at the first start, which takes some minutes.
"""
_KUBERNETES = f"""\
Runs the API of Kubernetes on free ports of this machine: an etcd and a kube-apiserver, without
controllers and nodes. When it is ready, one line of JSON is printed:

    {{"server": "https://127.0.0.1:21346", "kubeconfig": "/tmp/evenkeel-kubernetes-x/users/..."}}

Who takes that kubeconfig may do everything.

{_UNTIL_ENDED}"""
_KUBERNETES_EXAMPLES = """\
examples:
    python -m sandbox kubernetes build
    python -m sandbox kubernetes up

Both are built at the first start, which takes up to ten minutes. Go 1.24 or newer is taken from
PATH; where there is none, it comes from PyPI.
"""

_NODE = f"""\
Runs a whole Kubernetes of one node on this machine, with real pods: its own control plane, kubelet,
containerd, proxy of services and DNS, and the images of this checkout. When it is ready, one line
of JSON is printed:

    {{"server": "https://198.18.0.2:21346", "kubeconfig": "/tmp/evenkeel-node-x/users/..."}}

Who takes that kubeconfig may do everything. There is no registry: pods get the images of operator
and Spark, and apache/rocketmq, by these names.

{_UNTIL_ENDED}"""
_NODE_EXAMPLES = """\
examples:
    python -m sandbox node build
    python -m sandbox node up

It needs root and Debian, whose packages it takes containerd and more from. All is fetched and built
at the first start, which takes up to half an hour.
"""


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; the exit code is 1 when it could not be done."""
    options = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        if options.started is None:
            options.build(options)
            return 0
        with options.started(options) as addresses:
            print(json.dumps(addresses), flush=True)
            progress.say(f"{options.part} is ready; Ctrl-C or SIGTERM ends it")
            while True:
                signal.pause()
    except (process.SandboxError, jars.JarsError, ports.NoFreePortError) as error:
        progress.say(str(error))
        return 1


@contextlib.contextmanager
def _rocketmq(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    properties = dict(options.property)
    with rocketmq.started(options.brokers, slaves=options.slaves, properties=properties) as mq:
        found: dict[str, object] = {
            "nameServer": mq.name_server.address,
            "brokers": {name: broker.address for name, broker in mq.brokers.items()},
        }
        if mq.slaves:
            found["slaves"] = {name: slave.address for name, slave in mq.slaves.items()}
        yield found


@contextlib.contextmanager
def _kubernetes(_options: argparse.Namespace) -> Iterator[dict[str, object]]:
    from sandbox import kubernetes  # it needs trustme, and RocketMQ does not

    with kubernetes.started() as cluster:
        yield {"server": cluster.url, "kubeconfig": str(cluster.admin.kubeconfig)}


def _build_kubernetes(_options: argparse.Namespace) -> None:
    from sandbox import kubernetes

    kubernetes.built()


@contextlib.contextmanager
def _node(_options: argparse.Namespace) -> Iterator[dict[str, object]]:
    from sandbox import node

    with node.started() as found:
        yield {"server": found.url, "kubeconfig": str(found.admin.kubeconfig)}


def _build(_options: argparse.Namespace) -> None:
    from sandbox import debian, kubernetes, programs

    jars.classpath(*rocketmq.LIBRARIES)
    kubernetes.built()
    for program in programs.ALL:
        go.built(program)
    debian.program("prometheus", "usr/bin/prometheus")


def _build_node(_options: argparse.Namespace) -> None:
    from sandbox import node

    node.built()


def _build_images(options: argparse.Namespace) -> None:
    builder = images.buildah() if options.bootstrap else images.chosen()
    base = images.bootstrapped() if options.bootstrap else options.base
    for image in images.built(builder, base, options.tag, options.extra_packages):
        print(image.name, image.id, image.size, sep="\t", flush=True)
    progress.say(f"`{' '.join(builder.command)} images` shows them; `push` there takes them away")


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """End by the ordinary way out, once: a second signal must not disturb the cleaning up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox",
        description="Starts the real parts on this machine, and leaves nothing behind.",
    )
    parts = parser.add_subparsers(required=True, metavar="PART", dest="part")
    mq = parts.add_parser("rocketmq", help="a name server and brokers")
    commands = mq.add_subparsers(required=True, metavar="COMMAND")
    up = _up(commands, _ROCKETMQ, _ROCKETMQ_EXAMPLES)
    up.set_defaults(started=_rocketmq)
    up.add_argument(
        "--brokers", type=_count, default=2, metavar="N", help="how many masters, up to 26 (2)"
    )
    up.add_argument(
        "--slaves", type=_count, default=0, metavar="N", help="how many slaves each has (0)"
    )
    up.add_argument(
        "--property", type=_property, action="append", default=[], metavar="NAME=VALUE",
        help="a broker property of RocketMQ, for all brokers; may be given more than once",
    )  # fmt: skip
    every = parts.add_parser("build", help="build and fetch what tests need, without starting it")
    every.set_defaults(started=None, build=_build)
    api = parts.add_parser("kubernetes", help="an etcd and a kube-apiserver")
    commands = api.add_subparsers(required=True, metavar="COMMAND")
    _up(commands, _KUBERNETES, _KUBERNETES_EXAMPLES).set_defaults(started=_kubernetes)
    _add_build(commands).set_defaults(started=None, build=_build_kubernetes)
    node = parts.add_parser("node", help="a whole Kubernetes of one node, as root")
    commands = node.add_subparsers(required=True, metavar="COMMAND")
    _up(commands, _NODE, _NODE_EXAMPLES).set_defaults(started=_node)
    _add_build(commands).set_defaults(started=None, build=_build_node)
    _add_images(parts.add_parser("images", help="the images of operator and Spark"))
    return parser


def _add_images(part: argparse.ArgumentParser) -> None:
    commands = part.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser(
        "build",
        help="build them, say name, id and size of each",
        description="Builds the images by docker, if its daemon answers, else by buildah.",
        epilog="Every option's default is the environment variable in brackets.",
    )
    build.set_defaults(started=None, build=_build_images)
    base = build.add_mutually_exclusive_group()
    base.add_argument("--base", metavar="IMAGE", help="what they stand on [BASE]")
    base.add_argument(
        "--bootstrap", action="store_true",
        help="make that from Debian's packages, without any registry of images",
    )  # fmt: skip
    build.add_argument("--tag", help="the version of the project [TAG]")
    build.add_argument(
        "--extra-packages", metavar="COORDINATES", help="for Spark, from Maven [EXTRA_PACKAGES]"
    )
    for name in ("base", "tag", "extra_packages"):
        build.set_defaults(**{name: os.environ.get(name.upper(), "")})


def _up(commands: "_Commands", description: str, examples: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        "up",
        help="start them, say where they are, and run until ended",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_build(commands: "_Commands") -> argparse.ArgumentParser:
    return commands.add_parser("build", help="build them, if they were not built before")


def _count(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 26:
        raise argparse.ArgumentTypeError(f"{number} is not between 0 and 26")
    return number


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
