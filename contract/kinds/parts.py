"""
Common parts of both kinds.

`crds/*.yaml` is generated from the types of this package, and manifests are parsed into them. The
docstring below a field becomes its description, its type and limits become the schema, and `RULES`
has CEL rules for what a schema cannot express. The API server accepts such rules only if they are
cheap, so lengths are limited.
"""

import enum
from typing import Annotated, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

GROUP = "evenkeel.dev"
VERSION = "v1alpha1"
CATEGORY = "evenkeel"

Text = Annotated[str, Meta(min_length=1, max_length=253)]
ObjectName = Annotated[
    str, Meta(min_length=1, max_length=253, pattern="^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
]
"""A valid Kubernetes object name, never a path."""
EntryName = Annotated[
    str, Meta(min_length=1, max_length=253, pattern="^[.]?[a-zA-Z0-9_-][a-zA-Z0-9._-]*$")
]
"""A key of a ConfigMap or Secret, never a path."""
MqName = Annotated[str, Meta(min_length=1, max_length=127, pattern="^[%|a-zA-Z0-9_-]+$")]
"""A name that RocketMQ accepts."""
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
DURATION_PATTERN = "^([0-9]+(ms|s|m|h))+$"
Duration = Annotated[str, Meta(max_length=16, pattern=DURATION_PATTERN)]
Moment = Annotated[
    str,
    Meta(
        max_length=64,
        pattern="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T"
        "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?"
        "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
        extra_json_schema={"format": "date-time"},
    ),
]
"""A time in RFC 3339. The API server also checks that the day exists in its month."""
MOST_IDS = 4096
"""Maximum length of the ids in one entry."""
Ids = Annotated[str, Meta(max_length=MOST_IDS, pattern="^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")]
"""Queue ids as ranges, such as 0-3,8."""
Percent = Annotated[str, Meta(max_length=4, pattern="^(100|[0-9]{1,2})%$")]
CountOrPercent = Annotated[str, Meta(max_length=7, pattern="^([0-9]{1,6}|(100|[0-9]{1,2})%)$")]
HostPort = Annotated[str, Meta(min_length=3, max_length=261, pattern="^[!-~]+:[0-9]{1,5}$")]

TellerName = Annotated[str, Meta(min_length=1, max_length=512)]
"""The origin of a route: a name server, or a Topic whose spec contains the route."""


class Rule(NamedTuple):
    """A CEL expression that must hold, and the error message if it does not."""

    holds: str
    message: str


class Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of an object. The API server handles unknown fields."""

    RULES: ClassVar[tuple[Rule, ...]] = ()
    IS_FILLED: ClassVar = True
    """
    Whether the schema declares empty strings and `false` as defaults, which the server fills in.
    """


def make_immutable(field: str) -> Rule:
    """Make a rule that makes the field immutable."""
    same = f"self.{field} == oldSelf.{field}"
    both = f"has(self.{field}) && has(oldSelf.{field})"
    neither = f"!has(self.{field}) && !has(oldSelf.{field})"
    return Rule(f"({both} && {same}) || ({neither})", f"{field} is immutable: create a new object")


def require_with(field: str, other: str, value: str) -> Rule:
    """Make a rule that allows a field only if another field has this value."""
    return Rule(
        f"!has(self.{field}) || self.{other} == '{value}'",
        f"{field} requires {other}: {value}",
    )


class LocalRef(Part, frozen=True):
    name: ObjectName
    """Name of an object in the same namespace."""


class KeyRef(Part, frozen=True):
    name: ObjectName
    """Name of an object in the same namespace."""
    key: EntryName
    """Key of an entry in that object."""


class ConditionStatus(enum.Enum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Part, frozen=True):
    type: Text
    """Type of the condition."""
    status: ConditionStatus
    """Whether the condition holds."""
    reason: Annotated[str, Meta(max_length=64, pattern="^[A-Z][A-Za-z0-9]*$")]
    """Reason in one word, for programs."""
    last_transition_time: Text
    """Time when the status changed last."""
    message: Annotated[str, Meta(max_length=4096)] = ""
    """Explanation, and what to do."""
    observed_generation: int = 0
    """Generation of the spec for which this condition was set."""

    @property
    def holds(self) -> bool:
        """Whether the status is True."""
        return self.status is ConditionStatus.TRUE


def key_by(key: str) -> Meta:
    """Declare a list's key field: no two entries may have the same value in it."""
    return Meta(
        extra_json_schema={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [key],
        }
    )


Conditions = Annotated[list[Condition], Meta(max_length=16), key_by("type")]
