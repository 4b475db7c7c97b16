"""Builds Spark's settings for a driver that runs in a pod and creates executors as pods."""

from collections.abc import Mapping

from contract.kinds.jobs import Process
from evenkeel.cluster.manifest import memory, names, pod_paths, pod_templates
from evenkeel.cluster.manifest.memory import MemorySplit
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import WantedPods
from evenkeel.errors import ManifestError

INSTANCES = "spark.executor.instances"
_OVERHEAD = {"driver": 1.1, "executor": 0.65}
"""
Memory outside the heap, relative to the heap. The driver also runs the planning in Python and the
user's Python code.
"""
_PLACE = "the operator sets where driver and executors run"
_RIGHTS = "the driver may only access pods"
_PINNING = "queues stay with their executors only with the operator's setting"
REFUSED = {
    INSTANCES: "use spec.job.executors",
    "spark.executor.cores": "use spec.job.executor.cores",
    "spark.executor.memory": "spec.job.executor.memory is the memory of the whole container",
    "spark.executor.memoryOverhead": "use spark.executor.memoryOverheadFactor",
    "spark.driver.memory": "spec.job.driver.memory is the memory of the whole container",
    "spark.driver.memoryOverhead": "use spark.driver.memoryOverheadFactor",
    "spark.kubernetes.container.image": "use spec.job.image",
    "spark.kubernetes.executor.container.image": "use spec.job.image",
    "spark.kubernetes.executor.terminationGracePeriodSeconds": "use podTemplate.spec",
    "spark.master": _PLACE,
    "spark.submit.deployMode": _PLACE,
    "spark.app.id": _PLACE,
    "spark.driver.host": _PLACE,
    "spark.driver.bindAddress": _PLACE,
    "spark.driver.port": _PLACE,
    "spark.driver.blockManager.port": _PLACE,
    "spark.blockManager.port": _PLACE,
    "spark.kubernetes.namespace": _PLACE,
    "spark.kubernetes.driver.pod.name": _PLACE,
    "spark.kubernetes.executor.podNamePrefix": _PLACE,
    "spark.kubernetes.executor.podTemplateFile": "use spec.job.executor.podTemplate",
    "spark.kubernetes.executor.podTemplateContainerName": _PLACE,
    "spark.kubernetes.authenticate.*": _RIGHTS,
    "spark.kubernetes.executor.disableConfigMap": _RIGHTS,
    "spark.kubernetes.driver.service.deleteOnTermination": _RIGHTS,
    "spark.kubernetes.driver.ownPersistentVolumeClaim": _RIGHTS,
    "spark.kubernetes.driver.reusePersistentVolumeClaim": _RIGHTS,
    "spark.kubernetes.executor.volumes.*": "use spec.job.executor.podTemplate",
    "spark.kubernetes.allocation.pods.allocator": _PINNING,
    "spark.decommission.enabled": _PINNING,
    "spark.dynamicAllocation.*": _PINNING,
    "spark.excludeOnFailure.*": _PINNING,
    "spark.locality.wait": _PINNING,
    "spark.locality.wait.*": _PINNING,
    "spark.shuffle.reduceLocality.enabled": _PINNING,
    "spark.speculation": _PINNING,
    "spark.task.cpus": _PINNING,
}
"""Settings that `spec.job.sparkConf` must not contain, with the reason. `*` matches any ending."""


def build_settings(wanted: WantedPods, executor: Document) -> dict[str, str]:
    """Build Spark's settings, overridden by `sparkConf`. `executor` is the executors' template."""
    users = wanted.job.spark_conf
    _refuse(wanted, users)
    cores = str(wanted.job.executor.cores)
    heap = _split(wanted, "driver", wanted.job.driver).heap
    executors = _split(wanted, "executor", wanted.job.executor)
    return {
        "spark.master": "k8s://https://kubernetes.default.svc:443",
        "spark.submit.deployMode": "client",
        "spark.kubernetes.namespace": wanted.group.head.key.namespace,
        "spark.kubernetes.driver.pod.name": names.name_driver(wanted.group),
        "spark.driver.port": str(pod_paths.DRIVER_PORT),
        "spark.driver.blockManager.port": str(pod_paths.BLOCKS_PORT),
        "spark.blockManager.port": str(pod_paths.BLOCKS_PORT),
        "spark.driver.memory": f"{heap}m",
        "spark.executor.cores": cores,
        "spark.executor.memory": f"{executors.heap}m",
        "spark.executor.memoryOverhead": f"{executors.rest}m",
        "spark.kubernetes.executor.request.cores": cores,
        "spark.kubernetes.container.image": wanted.image,
        "spark.kubernetes.executor.podTemplateFile": (
            f"{pod_paths.JOB}/{pod_paths.EXECUTOR_TEMPLATE}"
        ),
        "spark.kubernetes.executor.podTemplateContainerName": pod_templates.CONTAINER,
        **_copy_from_template(executor["spec"]),
        # Spark creates a secret for each driver, and passes it to the executors' pods.
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        # Without these, Spark would need rights to more than pods.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.jars.ivy": f"{pod_paths.TMP}/ivy",
        "spark.ui.showConsoleProgress": "false",
        **users,
    }


def _copy_from_template(template: Document) -> dict[str, str]:
    """Copy the fields that Spark does not read from the template into settings."""
    policy = pod_templates.find_container(template)["imagePullPolicy"]
    return {
        "spark.kubernetes.container.image.pullPolicy": str(policy),
        "spark.kubernetes.executor.terminationGracePeriodSeconds": (
            f"{template['terminationGracePeriodSeconds']}s"
        ),
    }


def _refuse(wanted: WantedPods, users: Mapping[str, str]) -> None:
    for key in users:
        family = next((name for name in REFUSED if name.endswith("*") and _is_of(key, name)), key)
        if family in REFUSED:
            raise ManifestError(
                f"{wanted.group}: spec.job.sparkConf names {key}: {REFUSED[family]}; leave it out"
            )


def _is_of(key: str, family: str) -> bool:
    return key.startswith(family.removesuffix("*"))


def _split(wanted: WantedPods, who: str, process: Process) -> MemorySplit:
    key = f"spark.{who}.memoryOverheadFactor"
    text = wanted.job.spark_conf.get(key)
    factor = _OVERHEAD[who] if text is None else _parse_factor(text)
    if factor is None:
        raise ManifestError(
            f"{wanted.group}: spec.job.sparkConf.{key}: {text!r} is not a number above 0, such as "
            "'0.4'"
        )
    try:
        return memory.split(process.memory, factor)
    except memory.TooLittleError as error:
        raise ManifestError(
            f"{wanted.group}: spec.job.{who}.memory {process.memory} leaves {error.heap} MiB for "
            f"Java, but Spark needs {memory.LEAST_HEAP_MIB}: set at least {error.needed}Mi"
        ) from error


def _parse_factor(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None
