"""
One word for one idea, in the whole product: in names of classes and functions, and the glossary.

The test parses the code, and does not import it.
"""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "contract", "coordinator", "evenkeel_cli", "follower", "lb_core", "mq_client",
    "operator/evenkeel", "sandbox", "spark_jobs",
)  # fmt: skip
LATER: tuple[str, ...] = ()

NAMESAKES = {
    "Client": "the blocking and the asyncio client are used alike",
    "Link": "the connections of the blocking and the asyncio client",
    "Zones": "the field of a ConsumerGroup takes the values of the policy",
}
"""Public classes that share a name, and the reasons for it."""

FOREIGN = {
    "buffer_updated": "asyncio.BufferedProtocol",
    "connection_lost": "asyncio.BufferedProtocol",
    "connection_made": "asyncio.BufferedProtocol",
    "error": "argparse.ArgumentParser",
    "http_response": "urllib.request.BaseHandler",
    "name": "pyspark.sql.datasource.DataSource",
    "partitions": "pyspark.sql.datasource.DataSourceReader",
}
"""Functions whose names a library prescribes, and those libraries."""


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERBS_IN_ED = split_words("embed feed need shed speed")
PARTICIPLES = split_words("""
    begun bound broken built chosen done drawn driven fallen found forgotten given gone got grown
    heard held kept known laid left lost made meant met said seen sent shown spent taken taught
    thought told understood undone won worn written
""")
"""Irregular participles, without those that equal their verb: cut, put, read, set."""
ADJECTIVES = split_words("""
    alive all any away bad big busy common each full good healthy idle inner large largest last late
    latest least lost maybe missing more most new newest next old other outer pending plain ready
    same sick small stale true unseen usable whole wrong
""")
SMALL_WORDS = split_words("""
    about above after ahead as at before behind below beside between beyond by for in inside into of
    off on once only out over per since than that the through under until up when where which while
    who why with within without
""")
PREDICATES = split_words("is are has have may can must")
CONVERSIONS = split_words("to from")
NOUNS = split_words("""
    consumer member executor assignment epoch weight lag driver grace
    address body column committer error fact failure field heartbeat id identity label lifetime line
    message offset outcome page part path properties refusal result row secret selector story table
    text title value
""")
"""Nouns of the glossary, and others that have been used as names of functions."""
ALSO_VERBS = split_words("""
    group head name number place queue slot topic zone
""")
"""Words that are verbs if another word follows, as in `group_queues`, and nouns otherwise."""


class Function(NamedTuple):
    """A function or method, and what decides whether its name is good."""

    name: str
    place: str
    is_property: bool
    answers_yes_or_no: bool


def find_nodes(packages: Iterable[str]) -> Iterator[tuple[str, ast.AST]]:
    for package in packages:
        yield from read_nodes(package)


@functools.cache
def read_nodes(package: str) -> list[tuple[str, ast.AST]]:
    paths = sorted((ROOT / package).rglob("*.py"))
    names = {path: path.relative_to(ROOT).as_posix() for path in paths}
    return [
        (f"{name}:{getattr(node, 'lineno', 0)}", node)
        for path, name in names.items()
        if name not in LATER
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    ]


def find_functions(packages: Iterable[str]) -> Iterator[Function]:
    for place, node in find_nodes(packages):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = [ast.unparse(each) for each in node.decorator_list]
            is_property = any(re.search(r"property$|\.setter$", each) for each in decorators)
            returns = ast.unparse(node.returns) if node.returns else ""
            yield Function(node.name, place, is_property, bool(re.search(r"\bbool\b", returns)))


def find_fault(function: Function) -> str | None:
    """Say why a function's name is bad; None if it begins with a verb, or does not have to."""
    name = function.name.strip("_")
    if function.is_property or function.name.startswith("__") or name in FOREIGN:
        return None
    first = name.split("_")[0]
    if first in PREDICATES:
        return None if function.answers_yes_or_no else "claims something and gives no bool"
    if first in CONVERSIONS:
        return None
    if first in PARTICIPLES or (first.endswith("ed") and first not in VERBS_IN_ED):
        return "begins with a participle"
    if first in ADJECTIVES:
        return "begins with an adjective"
    if first in SMALL_WORDS:
        return "begins with a preposition or conjunction"
    if first in NOUNS or name in ALSO_VERBS:
        return "begins with a noun"
    if first.endswith("s") and not first.endswith("ss") and not function.answers_yes_or_no:
        return "begins with a plural, or claims something and gives no bool"
    return None


def split_name(name: str) -> list[str]:
    """Split `list_queues`, `GroupMember` and `MOST_BYTES` into their words, without plurals."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return [word.lower().removesuffix("s") for word in words]


def read_glossary() -> Iterator[tuple[str, str]]:
    """Return each word, and the word that it stands for, or an empty string."""
    for line in (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines():
        row = re.fullmatch(r"\| ([a-z]+) \|.*\|(?: ([a-z]+))? \|", line)
        if row:
            yield row[1], row[2] or ""


def test_functions_begin_with_a_verb() -> None:
    faults = [
        f"{function.place}: {function.name} {fault}"
        for function in find_functions(PACKAGES)
        if (fault := find_fault(function))
    ]
    assert not faults, "\n".join(faults)


def test_public_classes_have_names_of_their_own() -> None:
    places = defaultdict(list)
    for place, node in find_nodes(PACKAGES):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places[node.name].append(place)
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert not {name: found for name, found in shared.items() if name not in NAMESAKES}


def test_the_code_uses_the_words_of_the_glossary() -> None:
    used = set()
    for _, node in find_nodes(PACKAGES):
        for field in ("id", "attr", "arg", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                used.update(split_name(name))
    words = [word for word, _ in read_glossary()]
    assert words
    assert [word for word in words if word not in used] == []


def test_no_class_or_function_uses_a_word_that_the_glossary_replaces() -> None:
    replaced = {old: word for word, old in read_glossary() if old}
    assert replaced
    faults = [
        f"{place}: {node.name}: the glossary says {replaced[old]}"
        for place, node in find_nodes(PACKAGES)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name not in FOREIGN
        for old in split_name(node.name)
        if old in replaced
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "name",
    [
        "written", "_asked", "all_good", "by_broker", "of", "queues", "lag_row", "topic",
        "has_gaps", "claims",
    ],
)  # fmt: skip
def test_a_name_that_is_no_verb_is_noticed(name: str) -> None:
    assert find_fault(Function(name, "", is_property=False, answers_yes_or_no=False))
