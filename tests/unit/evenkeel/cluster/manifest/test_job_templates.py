"""What users may change in a job's pods and in Spark's settings, and what is refused."""

import copy

import pytest

from tests.job_objects import (
    CLAIM,
    Document,
    a_group,
    both,
    driver,
    environment,
    main,
    mounted,
    of,
    refused,
    spark,
    templated,
    volumes,
)


def test_settings_of_the_user_win() -> None:
    users = {
        "spark.network.timeout": "30s",
        "spark.kubernetes.executor.request.cores": "500m",
        "spark.kubernetes.container.image.pullPolicy": "Always",
    }
    assert users.items() <= spark(a_group(sparkConf=users)).items()


@pytest.mark.parametrize(
    "key",
    [
        "spark.master",
        "spark.app.id",
        "spark.driver.host",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.locality.wait",
        "spark.locality.wait.process",
        "spark.dynamicAllocation.enabled",
        "spark.task.cpus",
        "spark.kubernetes.namespace",
        "spark.kubernetes.executor.podTemplateFile",
        "spark.kubernetes.executor.disableConfigMap",
        "spark.kubernetes.authenticate.executor.serviceAccountName",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.claimName",
    ],
)
def test_settings_that_would_break_the_job_are_refused_by_name(key: str) -> None:
    text = refused(a_group(sparkConf={"spark.ui.enabled": "true", key: "x"}))
    assert text.startswith(f"ConsumerGroup shop/billing: spec.job.sparkConf names {key}: ")


def test_a_setting_that_only_begins_like_a_refused_one_is_taken() -> None:
    users = {"spark.speculationFoo": "x", "spark.executor.memoryOverheadFactor": "0.5"}
    assert users.items() <= spark(a_group(sparkConf=users)).items()


@pytest.mark.parametrize("who", ["driver", "executor"])
def test_what_a_template_has_besides_comes_through(who: str) -> None:
    sidecar = {"name": "proxy", "image": "proxy:1"}
    users = {"name": "main", "env": [{"name": "MINE", "value": "1"}],
             "volumeMounts": [{"name": "data", "mountPath": "/data"}],
             "resources": {"limits": {"nvidia.com/gpu": "1"}}}  # fmt: skip
    spec = {
        "containers": [sidecar, users],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "imagePullSecrets": [{"name": "registry"}],
    }
    of_driver, of_executors = both(
        templated(who, spec, labels={"team": "shop"}, annotations={"note": "12e4"})
    )
    pod = of_driver if who == "driver" else of_executors
    assert [each["name"] for each in pod["spec"]["containers"]] == ["main", "proxy"]
    assert pod["spec"]["containers"][1] == sidecar
    assert environment(pod)["MINE"]["value"] == "1"
    assert mounted(pod)["/data"] == "data"
    assert "data" in volumes(pod)
    assert main(pod)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert pod["metadata"]["labels"]["team"] == "shop"
    assert pod["metadata"]["annotations"]["note"] == "12e4"
    for name in ("nodeSelector", "tolerations", "affinity", "imagePullSecrets"):
        assert pod["spec"][name] == spec[name]


def test_a_template_adds_to_its_own_pods_only() -> None:
    of_driver, of_executors = both(templated("driver", {"nodeSelector": {"disk": "ssd"}}))
    assert "nodeSelector" in of_driver["spec"]
    assert "nodeSelector" not in of_executors["spec"]


@pytest.mark.parametrize("who", ["driver", "executor"])
def test_what_the_job_needs_wins_over_a_template(who: str) -> None:
    users = {"name": "main", "workingDir": "/",
             "securityContext": {"readOnlyRootFilesystem": False},
             "resources": {"limits": {"memory": "1"}},
             "volumeMounts": [{"name": "x", "mountPath": "/tmp", "subPath": "y"}]}  # fmt: skip
    spec = {
        "containers": [users],
        "restartPolicy": "Always",
        "securityContext": {"runAsNonRoot": False, "runAsUser": 1000},
        "volumes": [{"name": "x", "emptyDir": {}}, {"name": "evenkeel-tmp", "hostPath": {}}],
    }
    labels = {"evenkeel.dev/group": "other"}
    of_driver, of_executors = both(templated(who, spec, labels=labels))
    pod = of_driver if who == "driver" else of_executors
    plain = both(a_group())[0 if who == "driver" else 1]
    assert main(pod)["workingDir"] == main(plain)["workingDir"]
    assert main(pod)["securityContext"] == main(plain)["securityContext"]
    assert mounted(pod)["/tmp"] == "evenkeel-tmp"
    assert volumes(pod)["evenkeel-tmp"] == {"name": "evenkeel-tmp", "emptyDir": {}}
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["runAsUser"] == 1000
    assert pod["metadata"]["labels"] == plain["metadata"]["labels"]
    if who == "driver":
        assert main(pod)["resources"]["limits"]["memory"] == "1500Mi"


def test_a_template_may_choose_otherwise_where_the_job_has_only_a_default() -> None:
    profile = {"type": "Localhost", "localhostProfile": "mine.json"}
    spec = {
        "containers": [{"name": "main", "imagePullPolicy": "Always"}],
        "securityContext": {"seccompProfile": profile, "fsGroup": 7},
        "terminationGracePeriodSeconds": 900,
        "enableServiceLinks": True,
    }
    template = {"spec": spec}
    group = a_group(
        **CLAIM, **of("driver", podTemplate=template), **of("executor", podTemplate=template)
    )
    pod = driver(group)
    assert main(pod)["imagePullPolicy"] == "Always"
    assert pod["spec"]["securityContext"]["seccompProfile"] == profile
    assert pod["spec"]["securityContext"]["fsGroup"] == 7
    assert pod["spec"]["terminationGracePeriodSeconds"] == 900
    assert pod["spec"]["enableServiceLinks"] is True
    found = spark(group)
    assert found["spark.kubernetes.container.image.pullPolicy"] == "Always"
    assert found["spark.kubernetes.executor.terminationGracePeriodSeconds"] == "900s"


def test_the_users_own_template_stays_as_it_is() -> None:
    spec = {"containers": [{"name": "main", "env": [{"name": "MINE", "value": "1"}]}]}
    before = copy.deepcopy(spec)
    group = templated("driver", spec)
    driver(group)
    assert group.spec.job is not None
    assert group.spec.job.driver.pod_template is not None
    assert group.spec.job.driver.pod_template.spec == before


@pytest.mark.parametrize("who", ["driver", "executor"])
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"serviceAccountName": "admin"},
            ".spec.serviceAccountName: the operator sets the rights of a job's pods",
        ),
        (
            {"serviceAccount": "admin"},
            ".spec.serviceAccount: the operator sets the rights of a job's pods",
        ),
        ({"containers": [{"name": "main", "image": "x"}]}, "image of main: use spec.job.image"),
        ({"containers": [{"name": "main", "command": ["x"]}]}, "command of main: "),
        ({"containers": [{"name": "main", "args": ["x"]}]}, "args of main: "),
        ({"containers": [{"name": "main", "lifecycle": {"x": {}}}]}, "lifecycle of main: "),
        ({"containers": [{"image": "x"}]}, ".spec.containers contains an item without a name"),
        (
            {"containers": [{"name": "a"}, {"name": "a"}]},
            ".spec.containers contains two items with name a",
        ),
        ({"containers": {}}, ".spec.containers is not a list"),
        ({"containers": "x"}, ".spec.containers is not a list"),
        ({"containers": ["x"]}, ".spec.containers contains an item without a name"),
        ({"volumes": {"name": "x"}}, ".spec.volumes is not a list"),
        ({"containers": [{"name": "main", "env": {"A": "b"}}]}, ".env is not a list"),
        ({"containers": [{"name": "main", "volumeMounts": [{}]}]}, "without a mountPath"),
        (
            {"containers": [{"name": "main", "securityContext": []}]},
            ".securityContext is not an object",
        ),
        ({"securityContext": "strict"}, ".spec.securityContext is not an object"),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_is_refused_and_named(
    who: str, spec: Document, said: str
) -> None:
    text = refused(templated(who, spec))
    assert text.startswith(f"ConsumerGroup shop/billing: spec.job.{who}.podTemplate.")
    assert said in text


def test_metadata_of_a_template_is_labels_and_annotations() -> None:
    text = refused(templated("driver", {}, name="mine"))
    assert text.endswith("podTemplate.metadata may contain labels and annotations, but not name")
    for name in ("labels", "annotations"):
        assert f"metadata.{name} is not an object" in refused(
            templated("driver", {}, **{name: "x"})
        )


def test_null_is_as_nothing_said() -> None:
    spec = {"serviceAccountName": None, "volumes": None, "containers": None,
            "terminationGracePeriodSeconds": None,
            "securityContext": {"seccompProfile": None}}  # fmt: skip
    assert driver(templated("driver", spec, creationTimestamp=None)) == driver(a_group())


def test_two_protocols_share_a_port() -> None:
    dns = [{"containerPort": 53, "protocol": each} for each in ("TCP", "UDP")]
    pod = driver(templated("driver", {"containers": [{"name": "main", "ports": dns}]}))
    assert [each for each in main(pod)["ports"] if each["containerPort"] == 53] == dns
