"""
Builds the driver's service account and its role.

Spark needs rights only for pods, because `spark_settings` turns off everything else. All other
rights are for single objects by name.
"""

from contract.kinds import parts
from evenkeel.cluster.manifest import names
from evenkeel.cluster.manifest.names import Document
from evenkeel.objects import ConsumerGroup

_RBAC = "rbac.authorization.k8s.io"
_OF_SPARK = ["create", "get", "list", "watch", "patch", "delete", "deletecollection"]


def build_rights(group: ConsumerGroup) -> list[Document]:
    """Build the service account, the role and the binding."""
    name = names.name_driver(group)
    account: Document = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": names.build_metadata(group, name),
        "automountServiceAccountToken": False,  # the driver's pod mounts it
    }
    binding: Document = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": names.build_metadata(group, name),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": name, "namespace": group.head.key.namespace}
        ],
    }
    return [account, build_role(group), binding]


def build_role(group: ConsumerGroup) -> Document:
    """Build only the role, which changes with the names of the slices."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": names.build_metadata(group, names.name_driver(group)),
        "rules": _list_rules(group),
    }


def _list_rules(group: ConsumerGroup) -> list[Document]:
    driver, own = names.name_driver(group), group.head.key.name
    found = [
        _build_rule("", "pods", _OF_SPARK),
        _build_rule(parts.GROUP, "consumergroups", ["get", "list", "watch"], own),
        _build_rule("", "configmaps", ["get", "patch"], driver),
        _build_rule("coordination.k8s.io", "leases", ["get", "update"], driver),
    ]
    if group.status.slices:
        found.append(_build_rule("", "configmaps", ["get"], *group.status.slices))
    return found


def _build_rule(group: str, resource: str, verbs: list[str], *only: str) -> Document:
    rule: Document = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    return rule | ({"resourceNames": list(only)} if only else {})
