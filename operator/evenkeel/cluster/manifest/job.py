"""Builds the job file of a driver in Kubernetes."""

from collections.abc import Mapping

import msgspec

from contract.job_file import JobCluster, JobFile
from contract.kinds.jobs import Mode
from contract.names import ASSIGNMENT, REPORT
from evenkeel import job_file
from evenkeel.cluster.manifest import pod_paths, spark_settings
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import WantedPods
from evenkeel.job_file import Places
from evenkeel.objects import Key, Topic


def build(wanted: WantedPods, topics: Mapping[Key, Topic], executor: Document) -> JobFile:
    """
    Build the job file. `executor` is the pod template of executors.

    A scheduled job starts without executors. The driver requests them if there are messages to
    read.
    """
    count = max(wanted.job.executors, 1)
    at_first = 0 if wanted.job.mode is Mode.SCHEDULED else count
    spark = spark_settings.build_settings(wanted, executor) | {
        spark_settings.INSTANCES: str(at_first)
    }
    key = wanted.group.head.key
    inside = Places(
        assignments=f"{pod_paths.WORK}/{ASSIGNMENT}",
        report=f"{pod_paths.WORK}/{REPORT}",
        checkpoint=pod_paths.find_checkpoint(wanted.group, wanted.job),
        files={ref: pod_paths.find_file(ref) for ref in job_file.list_refs(wanted.group)},
        options={
            name: pod_paths.find_options(name) for name in job_file.list_secrets(wanted.group)
        },
        secrets={"tls": wanted.access.option} if wanted.access.option else {},
        metrics_port=pod_paths.METRICS_PORT,
        cluster=JobCluster(key.namespace, key.name),
    )
    return job_file.build(wanted.group, topics, inside, spark, count)


def reset_what_may_change(job: JobFile) -> JobFile:
    """Reset the fields that may change while a driver runs: number of executors, and origin."""
    spark = {name: value for name, value in job.spark.items() if name != spark_settings.INSTANCES}
    return msgspec.structs.replace(job, executors=1, origin="", spark=spark)
