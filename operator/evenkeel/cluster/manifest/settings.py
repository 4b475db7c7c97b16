"""Spark's settings: for executors as pods, made by a driver that is a pod itself."""

from collections.abc import Mapping

from contract.kinds.jobs import Process
from evenkeel.cluster.manifest import memory, merging, names, places
from evenkeel.cluster.manifest.memory import MemorySplit
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import Wanted
from evenkeel.errors import ManifestError

INSTANCES = "spark.executor.instances"
_OVERHEAD = {"driver": 1.1, "executor": 0.65}
"""The driver's heap has Python beside it that plans, and Python that runs the user's part."""
_PLACE = "the operator says where driver and executors are"
_RIGHTS = "the driver has rights to pods only"
_PINNING = "queues stay with their executors only as the operator has it"
REFUSED = {
    INSTANCES: "spec.job.executors says it",
    "spark.executor.cores": "spec.job.executor.cores says it",
    "spark.executor.memory": "spec.job.executor.memory is the whole container's",
    "spark.executor.memoryOverhead": "spark.executor.memoryOverheadFactor shares the memory out",
    "spark.driver.memory": "spec.job.driver.memory is the whole container's",
    "spark.driver.memoryOverhead": "spark.driver.memoryOverheadFactor shares the memory out",
    "spark.kubernetes.container.image": "spec.job.image says it",
    "spark.kubernetes.executor.container.image": "spec.job.image says it",
    "spark.kubernetes.executor.terminationGracePeriodSeconds": "podTemplate.spec says it",
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
    "spark.kubernetes.executor.podTemplateFile": "spec.job.executor.podTemplate says it",
    "spark.kubernetes.executor.podTemplateContainerName": _PLACE,
    "spark.kubernetes.authenticate.*": _RIGHTS,
    "spark.kubernetes.executor.disableConfigMap": _RIGHTS,
    "spark.kubernetes.driver.service.deleteOnTermination": _RIGHTS,
    "spark.kubernetes.driver.ownPersistentVolumeClaim": _RIGHTS,
    "spark.kubernetes.driver.reusePersistentVolumeClaim": _RIGHTS,
    "spark.kubernetes.executor.volumes.*": "spec.job.executor.podTemplate says it",
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
"""What `spec.job.sparkConf` may not say, and why; a name with a star stands for all like it."""


def settings(wanted: Wanted, executor: Document) -> dict[str, str]:
    """Say how Spark runs; the user's `sparkConf` wins. `executor` is the template of its pods."""
    users = wanted.job.spark_conf
    _refuse(wanted, users)
    cores = str(wanted.job.executor.cores)
    heap = _split(wanted, "driver", wanted.job.driver).heap
    executors = _split(wanted, "executor", wanted.job.executor)
    return {
        "spark.master": "k8s://https://kubernetes.default.svc:443",
        "spark.submit.deployMode": "client",
        "spark.kubernetes.namespace": wanted.group.head.key.namespace,
        "spark.kubernetes.driver.pod.name": names.driver(wanted.group),
        "spark.driver.port": str(places.DRIVER_PORT),
        "spark.driver.blockManager.port": str(places.BLOCKS_PORT),
        "spark.blockManager.port": str(places.BLOCKS_PORT),
        "spark.driver.memory": f"{heap}m",
        "spark.executor.cores": cores,
        "spark.executor.memory": f"{executors.heap}m",
        "spark.executor.memoryOverhead": f"{executors.rest}m",
        "spark.kubernetes.executor.request.cores": cores,
        "spark.kubernetes.container.image": wanted.image,
        "spark.kubernetes.executor.podTemplateFile": f"{places.JOB}/{places.EXECUTOR_TEMPLATE}",
        "spark.kubernetes.executor.podTemplateContainerName": merging.CONTAINER,
        **_not_taken_from(executor["spec"]),
        # Spark makes a secret for each driver, and gives it to its executors' pods.
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        # Without these, Spark would touch more than pods.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.jars.ivy": f"{places.TMP}/ivy",
        "spark.ui.showConsoleProgress": "false",
        **users,
    }


def _not_taken_from(template: Document) -> dict[str, str]:
    """Say in settings what Spark does not take from the template."""
    policy = merging.container(template)["imagePullPolicy"]
    return {
        "spark.kubernetes.container.image.pullPolicy": str(policy),
        "spark.kubernetes.executor.terminationGracePeriodSeconds": (
            f"{template['terminationGracePeriodSeconds']}s"
        ),
    }


def _refuse(wanted: Wanted, users: Mapping[str, str]) -> None:
    for key in users:
        family = next((name for name in REFUSED if name.endswith("*") and _is_of(key, name)), key)
        if family in REFUSED:
            raise ManifestError(
                f"{wanted.group}: spec.job.sparkConf names {key}: {REFUSED[family]}; leave it out"
            )


def _is_of(key: str, family: str) -> bool:
    return key.startswith(family.removesuffix("*"))


def _split(wanted: Wanted, who: str, process: Process) -> MemorySplit:
    key = f"spark.{who}.memoryOverheadFactor"
    text = wanted.job.spark_conf.get(key)
    factor = _OVERHEAD[who] if text is None else _factor(text)
    if factor is None:
        raise ManifestError(
            f"{wanted.group}: spec.job.sparkConf.{key}: {text!r} is no number above 0, as in '0.4'"
        )
    try:
        return memory.split(process.memory, factor)
    except memory.TooLittleError as error:
        raise ManifestError(
            f"{wanted.group}: spec.job.{who}.memory {process.memory} leaves {error.heap} MiB to "
            f"Java, and Spark needs {memory.LEAST_HEAP_MIB}: give at least {error.needed}Mi"
        ) from error


def _factor(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None
