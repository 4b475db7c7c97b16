"""Generates the page about the RocketMQ client's methods and errors from the client's code."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from mq_client import errors
from mq_client.blocking import Client

HEAD = """\
# Methods of the RocketMQ client

`make generate` writes this page from the code. [The guide](../rocketmq-client.md) shows how to use
the methods.
`mq_client.blocking.Client` has all of these methods. `mq_client.aio.Client` has them as coroutines,
except for the methods under "Only in the blocking client". It also has `run` and `watch_members`.
"""
TITLES = {
    "mq_client.operations.routing": "Topics and brokers",
    "mq_client.operations.offsets": "Offsets and lag",
    "mq_client.operations.pulling": "Reading a queue",
    "mq_client.operations.popping": "Single messages",
    "mq_client.operations.oldest": "Waiting messages",
    "mq_client.operations.sending": "Sending",
    "mq_client.operations.membership": "Members of a group",
    "mq_client.operations.groups": "Settings of groups",
    "mq_client.blocking.client": "Only in the blocking client",
}
ERRORS = """\
## Errors

| Error | Is a | When |
|---|---|---|
"""
WIDTH = 100


def make_page() -> str:
    """Return the page as Markdown."""
    methods = [
        inspect.unwrap(each)
        for name, each in vars(Client).items()
        if callable(each) and not name.startswith("_")
    ]
    parts = [HEAD]
    for module, title in TITLES.items():
        parts.append(f"## {title}\n")
        parts += [_method(each) for each in methods if each.__module__ == module]
    return "\n".join([*parts, ERRORS + "\n".join(_list_errors()) + "\n"])


def _method(method: FunctionType) -> str:
    """Show the signature and the docstring of a method."""
    text = inspect.getdoc(method)
    return f"### {method.__name__}\n\n```text\n{signature(method)}\n```\n\n{text}\n"


def signature(method: Callable[..., Any]) -> str:
    """Format a method's signature as a client offers it. Show a result type `Flow[X]` as `X`."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(method))).body
    assert isinstance(tree, ast.FunctionDef)
    assert tree.returns is not None
    del tree.args.args[0]  # not shown: the client (`self`) or the directory
    gives = tree.returns
    if isinstance(gives, ast.Subscript) and ast.unparse(gives.value) == "Flow":
        gives = gives.slice
    arguments = list(_list_arguments(tree.args))
    line = f"{tree.name}({', '.join(arguments)}) -> {ast.unparse(gives)}"
    if len(line) <= WIDTH:
        return line
    written_out = ",\n    ".join(arguments)
    return f"{tree.name}(\n    {written_out},\n) -> {ast.unparse(gives)}"


def _list_arguments(arguments: ast.arguments) -> Iterator[str]:
    """Write each argument with its type and default."""
    missing = len(arguments.args) - len(arguments.defaults)
    for number, each in enumerate(arguments.args):
        default = arguments.defaults[number - missing] if number >= missing else None
        yield _write_argument(each, default)
    if arguments.kwonlyargs:
        yield "*"
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            yield _write_argument(each, default)


def _write_argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


def _list_errors() -> Iterator[str]:
    for each in vars(errors).values():
        if isinstance(each, type) and issubclass(each, errors.MqError):
            base = each.__bases__[0].__name__
            text = (inspect.getdoc(each) or "").partition("\n\n")[0].replace("\n", " ")
            yield f"| `{each.__name__}` | `{base}` | {text} |"
