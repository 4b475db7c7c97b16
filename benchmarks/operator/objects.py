"""Makes Kubernetes objects as JSON. Pods are as large as real ones, as memory use depends on it."""

from typing import Any

from benchmarks.operator.sizes import Size
from contract.names import API_VERSION
from evenkeel.objects import Key

Document = dict[str, Any]
_NODE = "node-1"
_CONTAINER = "consumer"
_SINCE = "2026-01-01T00:00:00Z"
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def make_topic(key: Key, size: Size) -> Document:
    """Make a Topic with a given route."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": {"name": key.name},
        "spec": {
            "route": [
                {"broker": f"broker-{each}", "readQueues": size.queues, "writeQueues": size.queues}
                for each in range(size.brokers)
            ]
        },
    }


def make_group(key: Key, size: Size) -> Document:
    """Make a group whose consumers are pods, or members that are pods."""
    labels = {"matchLabels": {"app": key.name}}
    return {
        "apiVersion": API_VERSION,
        "kind": "ConsumerGroup",
        "metadata": {"name": key.name},
        "spec": {
            "topics": [{"name": size.topic_of(key)}],
            "consumers": {"members": {"selector": labels}}
            if size.are_members
            else {"podSelector": labels},
        },
    }


def pod(key: Key, app: str) -> Document:
    """Make a pod of a deployment, placed on a node."""
    resources = {"cpu": "500m", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": key.name,
            "labels": {
                "app": app,
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": "6d4c",
            },
        },
        "spec": {
            "nodeName": _NODE,
            "containers": [
                {
                    "name": _CONTAINER,
                    "image": "registry.example/shop/consumer:1.4.2",
                    "args": ["--group", app],
                    "env": [
                        {"name": "GROUP", "value": app},
                        {
                            "name": "POD_NAME",
                            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                        },
                    ],
                    "ports": [{"containerPort": 8080, "name": "http"}],
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
                    "resources": {"requests": resources, "limits": resources},
                }
            ],
        },
    }


def pod_status(*, ready: bool) -> Document:
    """Make the patch of a running pod that the kubelet would send."""
    word = "True" if ready else "False"
    conditions = [
        {"type": each, "status": word if each.endswith("Ready") else "True"} for each in _CONDITIONS
    ]
    container = {
        "name": _CONTAINER,
        "image": "registry.example/shop/consumer:1.4.2",
        "imageID": f"registry.example/shop/consumer@sha256:{'0' * 64}",
        "containerID": f"containerd://{'0' * 64}",
        "ready": ready,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": _SINCE}},
    }
    return {
        "status": {
            "phase": "Running",
            "hostIP": "10.0.0.1",
            "podIP": "10.0.1.1",
            "podIPs": [{"ip": "10.0.1.1"}],
            "startTime": _SINCE,
            "conditions": [
                {**each, "lastProbeTime": None, "lastTransitionTime": _SINCE} for each in conditions
            ],
            "containerStatuses": [container],
        }
    }
