"""
Generates the OpenAPI document of the exchange between members and their coordinator.

The schemas are made from the types that the server reads and writes. The descriptions of fields and
refusals are their docstrings.
"""

import itertools
from typing import Any

import msgspec
import yaml

from contract.assignment import QueueIds
from contract.following import (
    AUDIENCE,
    MOST_REQUEST_BYTES,
    GroupSource,
    MemberAnswer,
    MemberRefusal,
    MemberRequest,
    PopTerms,
    Terms,
)
from evenkeel.attribute_docs import read_attribute_docs
from evenkeel.members import connections, server
from generate import refusals
from lb_core.assignment import MOST_QUEUES

Document = dict[str, Any]
HEAD = "# Made from the types in contract/following.py by `make generate`.\n"
PARTS = (MemberRequest, MemberAnswer, MemberRefusal, QueueIds, GroupSource, PopTerms)
REF = "#/components/schemas/{name}"
INFO = f"""\
A member of a ConsumerGroup sends request after request with the queues that it holds. The
coordinator answers with the queues that the member may read. The page "A member in any language"
of Evenkeel's documentation describes what a member must do with the answers.

Bodies are JSON in UTF-8, not compressed. Readers ignore unknown fields.

Requests to other paths are answered with 404, and requests with other methods with 405, both with
a `MemberRefusal`. Bytes that are not valid HTTP are answered with 400 or 417 in plain text.

At most {connections.MOST_CONNECTIONS:,} connections may be open. If another one is opened, the
connection that has been idle for longest is closed. The headers of the first request of a
connection must arrive within {connections.FIRST_HEAD_SECONDS:g} seconds.
"""
ASK = f"""\
The request is a long poll. If the member's grants are not those of `revision`, the answer comes at
once. Otherwise it comes when the grants change, at the latest after `waitSeconds` or after
{Terms(session=1.0).poll:g} of `sessionSeconds`, whichever is shorter. So the client's own timeout
must be longer than that.

A newer request of the same session replaces a request that waits. The older request is answered
with `Stale`.
"""
BODY = f"""\
At most {MOST_REQUEST_BYTES:,} bytes, which must arrive within {server.BODY_SECONDS:g} seconds.
`holds` may contain at most {MOST_QUEUES:,} queues in total.
"""
LEAVE = "The queues that the member held can be granted to other members at once."
TOKEN = f"""\
In a cluster, the token of the member's pod for the audience `{AUDIENCE}`, which the kubelet mounts
by a projected volume. With `evenkeel run`, the content of the file that it names at its start.
"""


def make_document() -> str:
    """Return the document as YAML."""
    return HEAD + yaml.dump(build_document(), Dumper=_Plain, sort_keys=False, width=100)


def build_document() -> Document:
    """Build the document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Evenkeel's coordinator",
            "version": server.PATH.split("/")[1],
            "description": INFO,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {"url": "http://127.0.0.1:9410", "description": "`evenkeel run`"},
            {
                "url": "{coordinator}",
                "description": "In a cluster: the entry `coordinator` of the ConfigMap "
                "`evenkeel-members` in the namespace of the group. Its entry `ca.crt` has the "
                "authorities to trust.",
                "variables": {
                    "coordinator": {"default": "https://evenkeel-members.evenkeel.svc:8443"}
                },
            },
        ],
        "security": [{"token": []}],
        "paths": {server.PATH: _build_path()},
        "components": {
            "schemas": _build_schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": TOKEN}
            },
        },
    }


def _build_path() -> Document:
    session = _build_schemas()[MemberRequest.__name__]["properties"]["session"]
    return {
        "parameters": [
            _build_name("namespace", "The namespace of the ConsumerGroup."),
            _build_name("group", "The name of the ConsumerGroup."),
            _build_name(
                "member", "The name of the member; in a cluster, the name of its pod.",
                maxLength=server.MOST_MEMBER_LETTERS,
            ),
        ],
        refusals.POST: {
            "operationId": "ask",
            "summary": "Report the queues that the member holds, and get those that it may read",
            "description": ASK,
            "requestBody": {
                "description": BODY, "required": True, "content": _build_content(MemberRequest),
            },
            "responses": {
                "200": {
                    "description": "What the member may read now.",
                    "content": _build_content(MemberAnswer),
                },
                **_build_refusals(refusals.POST),
            },
        },
        refusals.DELETE: {
            "operationId": "leave",
            "summary": "End the session",
            "description": LEAVE,
            "parameters": [
                {
                    "name": "session", "in": "query", "required": True, "schema": session,
                    "description": "The session to end. Another session of this member continues.",
                }
            ],
            "responses": {
                "204": {"description": "The session has ended, now or earlier."},
                **_build_refusals(refusals.DELETE),
            },
        },
    }  # fmt: skip


def _build_name(name: str, description: str, **limits: int) -> Document:
    """Build a part of the path."""
    schema = {"type": "string", "minLength": 1, **limits}
    return {
        "name": name, "in": "path", "required": True, "description": description, "schema": schema,
    }  # fmt: skip


def _build_content(kind: type) -> Document:
    return {"application/json": {"schema": {"$ref": REF.format(name=kind.__name__)}}}


def _build_refusals(method: str) -> Document:
    found = [each for each in refusals.list_refusals() if method in each.methods]
    by_status = itertools.groupby(found, key=lambda each: each.status)
    return {str(status.value): _build_refusal(list(each)) for status, each in by_status}


def _build_refusal(found: list[refusals.Refused]) -> Document:
    """Build the answer with one status, which can have several reasons."""
    schema = {
        "$ref": REF.format(name=MemberRefusal.__name__),
        "properties": {"reason": {"enum": [each.reason for each in found]}},
    }
    return {
        "description": "\n".join(f"- `{each.reason}`: {each.meaning}" for each in found) + "\n",
        "content": {"application/json": {"schema": schema}},
    }


def _build_schemas() -> Document:
    _, schemas = msgspec.json.schema_components(PARTS, ref_template=REF)
    for schema in schemas.values():
        del schema["title"]  # it only repeats the name of the schema
        if "enum" in schema:
            schema["type"] = "string"
    for kind in PARTS:
        texts = read_attribute_docs(kind)
        for field in msgspec.structs.fields(kind):
            described = schemas[kind.__name__]["properties"][field.encode_name]
            described["description"] = " ".join(texts[field.name].split())
    return schemas


class _Plain(yaml.SafeDumper):
    """Writes repeated values in full, without YAML aliases. Keeps the line breaks of strings."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _write_text(dumper: _Plain, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Plain.add_representer(str, _write_text)
