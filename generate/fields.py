"""Generates tables of a kind's fields (path, type, default, meaning) from the kind's schema."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from contract.kinds import jobs, parts
from evenkeel import crds

Schema = Mapping[str, Any]
WORDS = {
    parts.Duration: "duration, such as `300ms`, `20s`, `1h30m`",
    parts.Moment: "time, such as `2026-11-21T08:00:00Z`",
    parts.Percent: "percentage, such as `10%`",
    parts.CountOrPercent: "number or percentage of queues",
    parts.Ids: "ids, such as `0-3,8`",
    parts.ObjectName: "object name",
    parts.EntryName: "entry name",
    parts.MqName: "RocketMQ name",
    parts.HostPort: "`host:port`",
    jobs.Quantity: "quantity, such as `1500Mi`",
}
KINDS = {each.name: each for each in crds.KINDS}
HEAD = """\
# {name}

`make generate` writes this page from the types. `kubectl explain {singular}.spec` shows the same.
The short name is `{short}`, as in `kubectl get {short}`.

"""
RULES = """\
## Rules

Besides the types, the API server enforces these rules:

| field | rule |
|---|---|
"""


class Field(NamedTuple):
    """A line of a table. It describes a field of a kind."""

    path: str
    type: str
    default: str
    meaning: str


def make_page(name: str) -> str:
    """Return the page of a kind as Markdown."""
    kind = KINDS[name]
    (version,) = crds.build_definition(kind)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    written = [HEAD.format(name=name, singular=kind.name.lower(), short=kind.short)]
    of_spec, of_status = (list(_list_fields(part, schema[part])) for part in ("spec", "status"))
    written.append(f"## Spec\n\n{_make_table(Field._fields, of_spec)}\n\n")
    written.append(f"## Status\n\n{_make_table(('path', 'type', 'meaning'), of_status)}\n\n")
    rules = [*_list_rules("spec", schema["spec"]), *_list_rules("status", schema["status"])]
    lines = "".join(f"| `{path}` | {message} |\n" for path, message in rules)
    written.append(f"{RULES}{lines}")
    return "".join(written)


def _make_table(columns: Sequence[str], fields: Iterable[Field]) -> str:
    rows = [columns, ["---"] * len(columns)]
    rows += [[getattr(each, column) for column in columns] for each in fields]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _list_fields(path: str, schema: Schema) -> Iterator[Field]:
    """List the fields below a field, depth first."""
    needed = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        default = "**required**" if name in needed else _default(each)
        anchor = here.replace("[]", "").replace(".*", "")
        path_cell = f'<a id="{anchor}"></a>`{here}`'
        yield Field(path_cell, _type(each), default, _escape(each.get("description", "")))
        yield from _list_below(here, each)


def _list_below(path: str, schema: Schema) -> Iterator[Field]:
    if "items" in schema:
        yield from _list_inside(f"{path}[]", schema["items"])
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from _list_inside(f"{path}.*", schema["additionalProperties"])
    else:
        yield from _list_fields(path, schema)


def _list_inside(path: str, schema: Schema) -> Iterator[Field]:
    if "properties" in schema:
        yield from _list_fields(path, schema)
    elif "items" in schema:
        yield from _list_below(path, schema)


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if default is None or isinstance(default, dict | list):
        return ""  # the fields of an object have defaults of their own
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _type(schema: Schema) -> str:
    """Describe a type."""
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list{_format_limit('maxItems', schema)} of {_plural(schema['items'])}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return "mapping"
        case "string":
            return BY_PATTERN.get(schema.get("pattern"), "string")
        case "integer":
            return f"number{_format_range(schema)}"
        case other:
            return str(other)


def _plural(schema: Schema) -> str:
    return "objects" if schema.get("type") == "object" else f"{_type(schema)}"


def _format_range(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None:
        return ""
    return f" of at least {least:,}" if most is None else f" from {least:,} to {most:,}"


def _format_limit(key: str, schema: Schema) -> str:
    return f" (at most {schema[key]:,})" if key in schema else ""


def _list_rules(path: str, schema: Schema) -> Iterator[tuple[str, str]]:
    """List all CEL rules, at any depth."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, _escape(rule["message"])
    for name, each in schema.get("properties", {}).items():
        yield from _list_rules(f"{path}.{name}", each)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from _list_rules(f"{path}[]", inner)


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _pattern(kind: object) -> str:
    """Read the pattern of an annotated string."""
    assert get_origin(kind) is Annotated
    found: str = get_args(kind)[1].pattern
    return found


BY_PATTERN: dict[str | None, str] = {_pattern(kind): word for kind, word in WORDS.items()}
