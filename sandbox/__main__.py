"""The sandbox's command line, such as `python -m sandbox rocketmq up`."""

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
The servers run until this command ends, by Ctrl-C, SIGTERM or in any other way, including kill -9.
After that, no process and no data are left. Progress messages go to stderr.
"""
_ROCKETMQ = f"""\
Runs a RocketMQ {rocketmq.VERSION} on free ports of this machine: one name server and some brokers.
When all are ready, it prints one line of JSON:

    {{"nameServer": "127.0.0.1:21346", "brokers": {{"broker-a": "127.0.0.1:25002", ...}}}}

{_UNTIL_ENDED}"""
_ROCKETMQ_EXAMPLES = """\
examples:
    python -m sandbox rocketmq up
    python -m sandbox rocketmq up --brokers 1 --slaves 1
    python -m sandbox rocketmq up --property autoCreateTopicEnable=true   (sending creates topics)

Needs Java 17 or newer. The first start downloads RocketMQ, which takes some minutes.
"""
_KUBERNETES = f"""\
Runs the API of Kubernetes on free ports of this machine: an etcd and a kube-apiserver, without
controllers and nodes. When it is ready, it prints one line of JSON:

    {{"server": "https://127.0.0.1:21346", "kubeconfig": "/tmp/evenkeel-kubernetes-x/users/..."}}

This kubeconfig has all rights.

{_UNTIL_ENDED}"""
_KUBERNETES_EXAMPLES = """\
examples:
    python -m sandbox kubernetes build
    python -m sandbox kubernetes up

The first start builds both programs, which takes up to ten minutes. It uses Go 1.24 or newer from
PATH; if there is none, it installs Go from PyPI.
"""

_NODE = f"""\
Runs a whole Kubernetes of one node on this machine, with real pods: its own control plane, kubelet,
containerd, service proxy and DNS, and the images of this checkout. When it is ready, it prints one
line of JSON:

    {{"server": "https://198.18.0.2:21346", "kubeconfig": "/tmp/evenkeel-node-x/users/..."}}

This kubeconfig has all rights. There is no image registry. Pods can use three images by their usual
names: those of the operator and of Spark, and apache/rocketmq.

{_UNTIL_ENDED}"""
_NODE_EXAMPLES = """\
examples:
    python -m sandbox node build
    python -m sandbox node up

Needs root and Debian, because it takes containerd and more from Debian's packages. The first start
downloads and builds everything, which takes up to half an hour.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 1 if it failed."""
    options = _make_parser().parse_args(arguments)
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
def _run_rocketmq(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    properties = dict(options.property)
    with rocketmq.run(options.brokers, slaves=options.slaves, properties=properties) as mq:
        found: dict[str, object] = {
            "nameServer": mq.name_server.address,
            "brokers": {name: broker.address for name, broker in mq.brokers.items()},
        }
        if mq.slaves:
            found["slaves"] = {name: slave.address for name, slave in mq.slaves.items()}
        yield found


@contextlib.contextmanager
def _run_kubernetes(_options: argparse.Namespace) -> Iterator[dict[str, object]]:
    from sandbox import kubernetes  # imported here, because it needs trustme, and RocketMQ does not

    with kubernetes.run() as cluster:
        yield {"server": cluster.url, "kubeconfig": str(cluster.admin.kubeconfig)}


def _build_kubernetes(_options: argparse.Namespace) -> None:
    from sandbox import kubernetes

    kubernetes.build()


@contextlib.contextmanager
def _run_node(_options: argparse.Namespace) -> Iterator[dict[str, object]]:
    from sandbox import node

    with node.run() as found:
        yield {"server": found.url, "kubeconfig": str(found.admin.kubeconfig)}


def _build(_options: argparse.Namespace) -> None:
    from sandbox import archive, debian, kubernetes, programs

    rocketmq.build()
    archive.make_environment()
    kubernetes.build()
    for program in programs.ALL:
        go.build(program)
    debian.find_program("prometheus", "usr/bin/prometheus")


def _build_node(_options: argparse.Namespace) -> None:
    from sandbox import node

    node.build()


def _build_images(options: argparse.Namespace) -> None:
    builder = images.set_up_buildah() if options.bootstrap else images.choose_builder()
    base = images.build_base() if options.bootstrap else options.base
    for image in images.build(builder, base, options.tag, options.extra_packages):
        print(image.name, image.id, image.size, sep="\t", flush=True)
    progress.say(f"`{' '.join(builder.command)} images` lists them, `push` copies them")


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """Exit with cleanup, and ignore further signals, which would disturb the cleanup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox",
        description="Starts real servers on this machine, and leaves nothing behind.",
    )
    parts = parser.add_subparsers(required=True, metavar="PART", dest="part")
    mq = parts.add_parser("rocketmq", help="a name server and brokers")
    commands = mq.add_subparsers(required=True, metavar="COMMAND")
    up = _add_up(commands, _ROCKETMQ, _ROCKETMQ_EXAMPLES)
    up.set_defaults(started=_run_rocketmq)
    up.add_argument(
        "--brokers",
        type=_parse_count,
        default=2,
        metavar="N",
        help="how many masters, up to 26 (2)",
    )
    up.add_argument(
        "--slaves", type=_parse_count, default=0, metavar="N", help="how many slaves each has (0)"
    )
    up.add_argument(
        "--property", type=_parse_property, action="append", default=[], metavar="NAME=VALUE",
        help="a broker property of RocketMQ, for all brokers; may be given more than once",
    )  # fmt: skip
    every = parts.add_parser("build", help="build and download what tests need; start nothing")
    every.set_defaults(started=None, build=_build)
    api = parts.add_parser("kubernetes", help="an etcd and a kube-apiserver")
    commands = api.add_subparsers(required=True, metavar="COMMAND")
    _add_up(commands, _KUBERNETES, _KUBERNETES_EXAMPLES).set_defaults(started=_run_kubernetes)
    _add_build(commands).set_defaults(started=None, build=_build_kubernetes)
    node = parts.add_parser("node", help="a whole Kubernetes of one node, as root")
    commands = node.add_subparsers(required=True, metavar="COMMAND")
    _add_up(commands, _NODE, _NODE_EXAMPLES).set_defaults(started=_run_node)
    _add_build(commands).set_defaults(started=None, build=_build_node)
    _add_images(parts.add_parser("images", help="the images of operator and Spark"))
    return parser


def _add_images(part: argparse.ArgumentParser) -> None:
    commands = part.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser(
        "build",
        help="build both images, and print the name, id and size of each",
        description="Builds the images with docker if its daemon answers, otherwise with buildah.",
        epilog="The variable in brackets is the default of an option.",
    )
    build.set_defaults(started=None, build=_build_images)
    base = build.add_mutually_exclusive_group()
    base.add_argument("--base", metavar="IMAGE", help="base image of both [BASE]")
    base.add_argument(
        "--bootstrap", action="store_true",
        help="make the base from Debian's packages, without an image registry",
    )  # fmt: skip
    build.add_argument("--tag", help="tag of the images; by default the project's version [TAG]")
    build.add_argument(
        "--extra-packages",
        metavar="COORDINATES",
        help="libraries from Maven for Spark's image [EXTRA_PACKAGES]",
    )
    for name in ("base", "tag", "extra_packages"):
        build.set_defaults(**{name: os.environ.get(name.upper(), "")})


def _add_up(commands: "_Commands", description: str, examples: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        "up",
        help="start the servers, print their addresses, and run until ended",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_build(commands: "_Commands") -> argparse.ArgumentParser:
    return commands.add_parser("build", help="build the programs, unless they are built already")


def _parse_count(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 26:
        raise argparse.ArgumentTypeError(f"{number} is not between 0 and 26")
    return number


def _parse_property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
