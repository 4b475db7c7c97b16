"""
Who the driver is, and what it may do.

Spark needs pods and nothing else, for `settings` turns off what else it would touch. All other
rights are to objects by name.
"""

from contract.kinds import parts
from evenkeel.cluster.manifest import names
from evenkeel.cluster.manifest.names import Document
from evenkeel.objects import ConsumerGroup

_RBAC = "rbac.authorization.k8s.io"
_OF_SPARK = ["create", "get", "list", "watch", "patch", "delete", "deletecollection"]


def objects(group: ConsumerGroup) -> list[Document]:
    """Make account, role and binding."""
    name = names.driver(group)
    account: Document = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": names.metadata(group, name),
        "automountServiceAccountToken": False,  # the driver's pod asks for it
    }
    binding: Document = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": names.metadata(group, name),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": name, "namespace": group.head.key.namespace}
        ],
    }
    return [account, role(group), binding]


def role(group: ConsumerGroup) -> Document:
    """Make the role alone: it changes with what holds the assignments."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": names.metadata(group, names.driver(group)),
        "rules": _rules(group),
    }


def _rules(group: ConsumerGroup) -> list[Document]:
    driver, own = names.driver(group), group.head.key.name
    found = [
        _rule("", "pods", _OF_SPARK),
        _rule(parts.GROUP, "consumergroups", ["get", "list", "watch"], own),
        _rule("", "configmaps", ["get", "patch"], driver),
        _rule("coordination.k8s.io", "leases", ["get", "update"], driver),
    ]
    if group.status.slices:
        found.append(_rule("", "configmaps", ["get"], *group.status.slices))
    return found


def _rule(group: str, resource: str, verbs: list[str], *only: str) -> Document:
    rule: Document = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    return rule | ({"resourceNames": list(only)} if only else {})
