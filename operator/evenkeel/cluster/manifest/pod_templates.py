"""
Merges a user's pod template with the settings that a job needs.

Objects are merged field by field, and the job's values win. Lists of named items are merged by
name: two containers of the same name are merged like objects, but any other item of the job
replaces the user's item of the same name. Other lists of the job replace the user's lists. Null
counts as not set.
"""

from collections.abc import Mapping
from typing import Any

from contract.kinds.jobs import PodTemplate
from evenkeel.cluster.manifest.names import Document
from evenkeel.errors import ManifestError

CONTAINER = "main"
"""The name of the job's container."""
_NAMED_BY = {
    "containers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_ACCOUNT = (
    "the operator sets the rights of a job's pods, and a template must not add others; leave it out"
)
_REFUSED = {"serviceAccountName": _ACCOUNT, "serviceAccount": _ACCOUNT}
_REFUSED_IN_OURS = {
    "image": "use spec.job.image",
    "command": "the operator sets the command",
    "args": "the operator sets the arguments",
    "lifecycle": "Spark and the operator control how these pods end",
}


def merge_pod(
    template: PodTemplate | None, defaults: Document, needed: Document, path: str
) -> Document:
    """Merge metadata and spec: the user's values override defaults, the job's override both."""
    users: Document = {}
    if template is not None:
        users = {"metadata": template.metadata, "spec": template.spec}
        _refuse(users, path)
    found: Document = merge(merge(defaults, users, path), needed, path)
    return found


def find_container(spec: Mapping[str, Any]) -> Document:
    """Find the job's container in a pod's spec."""
    found: Document = next(each for each in spec["containers"] if each["name"] == CONTAINER)
    return found


def merge(under: Any, over: Any, path: str) -> Any:
    """Merge `over` into a copy of `under`. `path` is for error messages."""
    if not isinstance(over, dict):
        return over
    if not isinstance(under, dict):
        raise ManifestError(f"{path} is not an object")
    found = dict(under)
    for name, value in over.items():
        here = f"{path}.{name}"
        if value is None:
            continue
        if found.get(name) is None:
            found[name] = value
        elif isinstance(value, list) and name in _NAMED_BY:
            found[name] = _merge_by_name(found[name], value, name, here)
        else:
            found[name] = merge(found[name], value, here)
    return found


def _merge_by_name(under: Any, over: Any, kind: str, path: str) -> list[Any]:
    ours, theirs = _index(over, kind, path), _index(under, kind, path)
    if kind == "containers":
        ours = {name: merge(theirs.get(name, {}), each, path) for name, each in ours.items()}
    return list((ours | {name: each for name, each in theirs.items() if name not in ours}).values())


def _index(items: Any, kind: str, path: str) -> dict[Any, Any]:
    first, *more = _NAMED_BY[kind]
    if not isinstance(items, list):
        raise ManifestError(f"{path} is not a list")
    found: dict[Any, Any] = {}
    for each in items:
        value = each.get(first) if isinstance(each, dict) else None
        if not isinstance(value, (str, int)):
            raise ManifestError(f"{path} contains an item without a {first}")
        name = (value, *(str(each.get(field)) for field in more))
        if name in found:
            raise ManifestError(f"{path} contains two items with {first} {value}")
        found[name] = each
    return found


def _refuse(users: Document, path: str) -> None:
    for name, value in users["metadata"].items():
        if name not in ("labels", "annotations") and value is not None:
            raise ManifestError(
                f"{path}.metadata may contain labels and annotations, but not {name}"
            )
    for name, why in _REFUSED.items():
        if users["spec"].get(name):
            raise ManifestError(f"{path}.spec.{name}: {why}")
    containers = users["spec"].get("containers")
    if containers is None:
        return
    ours = _index(containers, "containers", f"{path}.spec.containers").get((CONTAINER,), {})
    for name, why in _REFUSED_IN_OURS.items():
        if ours.get(name):
            raise ManifestError(f"{path}.spec.containers: {name} of {CONTAINER}: {why}")
