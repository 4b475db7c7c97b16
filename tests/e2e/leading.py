"""The leading operator: how to find it, to kill it, and to stop all operators."""

import contextlib
from collections.abc import Iterator

from sandbox.node.shop import OPERATORS, RELEASE, Shop, wait_patiently
from sandbox.statuses import Document

_DEPLOYMENT = "deployment/evenkeel"


def kill_leader(shop: Shop) -> None:
    """Kill the leader, and wait until an operator leads again."""
    pod = (_read_lease(shop).get("holderIdentity") or "").rpartition("_")[0]
    shop.node.faults.kill(RELEASE, pod)
    renewed = _read_lease(shop)["renewTime"]
    now = wait_patiently(lambda: _read_lease(shop)["renewTime"], lambda it: it != renewed, 60)
    assert now != renewed, "nobody leads"


@contextlib.contextmanager
def take_away(shop: Shop) -> Iterator[None]:
    """Run no operator until the block ends."""
    replicas = len(shop.list_pods(OPERATORS, RELEASE))
    _scale(shop, 0)
    left = wait_patiently(lambda: shop.list_pods(OPERATORS, RELEASE), lambda pods: not pods)
    assert not left
    try:
        yield
    finally:
        _scale(shop, replicas)
    shop.roll_out(RELEASE, _DEPLOYMENT)


def _scale(shop: Shop, replicas: int) -> None:
    shop.kubectl("-n", RELEASE, "scale", _DEPLOYMENT, f"--replicas={replicas}")


def _read_lease(shop: Shop) -> Document:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{RELEASE}/leases/evenkeel-operator"
    spec: Document = shop.node.admin.ask("GET", path).body["spec"]
    return spec
