"""
What both kinds are made of.

`crds/*.yaml` and the reading of every manifest follow from the types of this package: the text
below a field becomes its description, its type and limits become the schema, and `RULES` says in
CEL what a schema cannot. Limits on lengths also keep the rules cheap enough for the API server.
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
"""A name that Kubernetes takes, and no path."""
EntryName = Annotated[
    str, Meta(min_length=1, max_length=253, pattern="^[.]?[a-zA-Z0-9_-][a-zA-Z0-9._-]*$")
]
"""A key of a ConfigMap or a Secret, and no path."""
MqName = Annotated[str, Meta(min_length=1, max_length=127, pattern="^[%|a-zA-Z0-9_-]+$")]
"""A name that RocketMQ takes."""
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Duration = Annotated[str, Meta(max_length=16, pattern="^([0-9]+(ms|s|m|h))+$")]
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
"""A time in RFC 3339; the API server also knows how long months are."""
MOST_IDS = 4096
"""Letters of ids in one entry."""
Ids = Annotated[str, Meta(max_length=MOST_IDS, pattern="^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")]
"""Queue ids as ranges: 0-3,8."""
Percent = Annotated[str, Meta(max_length=4, pattern="^(100|[0-9]{1,2})%$")]
CountOrPercent = Annotated[str, Meta(max_length=7, pattern="^([0-9]{1,6}|(100|[0-9]{1,2})%)$")]
HostPort = Annotated[str, Meta(min_length=3, max_length=261, pattern="^[!-~]+:[0-9]{1,5}$")]

TellerName = Annotated[str, Meta(min_length=1, max_length=512)]
"""Who tells where a topic is: a name server, or a Topic with a route of its own."""


class Rule(NamedTuple):
    """What a schema cannot say: a CEL expression that must hold, and what is said if not."""

    holds: str
    message: str


class Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of an object. Fields that are unknown are the API server's business."""

    RULES: ClassVar[tuple[Rule, ...]] = ()
    IS_FILLED: ClassVar = True
    """Whether the API server writes empty texts and `false` where nothing is said."""


def once(field: str) -> Rule:
    """Say that a field stays as it was made."""
    same = f"self.{field} == oldSelf.{field}"
    both = f"has(self.{field}) && has(oldSelf.{field})"
    neither = f"!has(self.{field}) && !has(oldSelf.{field})"
    return Rule(
        f"({both} && {same}) || ({neither})", f"{field} cannot be changed: make a new object"
    )


def only_with(field: str, other: str, value: str) -> Rule:
    """Say that a field needs another one to have a value."""
    return Rule(
        f"!has(self.{field}) || self.{other} == '{value}'",
        f"{field} belongs to {other}: {value}",
    )


class LocalRef(Part, frozen=True):
    name: ObjectName
    """Name of an object in the same namespace."""


class KeyRef(Part, frozen=True):
    name: ObjectName
    """Name of an object in the same namespace."""
    key: EntryName
    """Key of the entry in it."""


class ConditionStatus(enum.Enum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Part, frozen=True):
    type: Text
    """What it is about."""
    status: ConditionStatus
    """Whether it holds."""
    reason: Annotated[str, Meta(max_length=64, pattern="^[A-Z][A-Za-z0-9]*$")]
    """Why, in one word for programs."""
    last_transition_time: Text
    """When the status was another one."""
    message: Annotated[str, Meta(max_length=4096)] = ""
    """Why, in a sentence for people, and what to do about it."""
    observed_generation: int = 0
    """Generation of the spec that this was found for."""

    @property
    def holds(self) -> bool:
        """Whether it is seen to hold."""
        return self.status is ConditionStatus.TRUE


def listed_by(key: str) -> Meta:
    """Say by which field the entries of a list are told apart: no two may share it."""
    return Meta(
        extra_json_schema={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [key],
        }
    )


Conditions = Annotated[list[Condition], Meta(max_length=16), listed_by("type")]
