"""The Kubernetes objects of a job: their contents, what users may change, and what is refused."""

import json

import pytest

from contract import job_file
from contract.job_file import JobCluster, JobSink, JobTransform
from contract.names import FLOW_PORT, RESTART_HASH
from evenkeel import manifests, quantities
from evenkeel.cluster.manifest import job_objects
from evenkeel.objects import ConsumerGroup, Topic
from spark_jobs import options
from tests.job_objects import (
    CLAIM,
    CODE,
    IMAGE,
    Document,
    a_group,
    a_topic,
    both,
    driver,
    environment,
    files,
    known,
    main,
    mounted,
    objects,
    of,
    refused,
    spark,
    volumes,
)


def test_all_objects_come_in_an_order_in_which_they_can_be_made() -> None:
    assert list(objects(a_group())) == [
        ("ServiceAccount", "billing-driver"),
        ("Role", "billing-driver"),
        ("RoleBinding", "billing-driver"),
        ("ConfigMap", "billing-job"),
        ("ConfigMap", "billing-driver"),
        ("Lease", "billing-driver"),
        ("NetworkPolicy", "billing-driver"),
        ("Pod", "billing-driver"),
    ]


def test_the_job_file_has_no_fields_at_their_default() -> None:
    """If one were added to all job files, all jobs would restart, and older images refuse them."""
    given = json.loads(job_file.encode(files(a_group())[0]))
    needed = {"name", "source", "assignments", "report", "checkpoint", "sink"}
    of_the_cluster = {"executors", "kubernetes", "metricsPort", "origin", "spark"}
    assert given.keys() - of_the_cluster == needed


def test_lanes_arrive_in_the_job_file() -> None:
    assert files(a_group(lanes=3))[0].lanes == 3


def reaching(group: ConsumerGroup, port: int, protocol: str = "TCP") -> Document | None:
    """Return the labels that pods need to reach a port of the job; None if all pods reach it."""
    spec = objects(group)["NetworkPolicy", "billing-driver"]["spec"]
    assert spec["podSelector"] == {"matchLabels": {"evenkeel.dev/group": "billing"}}
    (rule,) = [
        rule
        for rule in spec["ingress"]
        for each in rule["ports"]
        if each["protocol"] == protocol
        and each.get("port", 1) <= port <= each.get("endPort", 65535)
    ]
    if "from" not in rule:
        return None
    (peer,) = rule["from"]
    found: Document = peer["podSelector"]["matchLabels"]
    return found


def test_only_pods_of_the_group_reach_the_ports_of_spark_and_of_flows() -> None:
    own = {"evenkeel.dev/group": "billing"}
    ports = [spark(a_group())[f"spark.{name}"] for name in ("driver.port", "blockManager.port")]
    ports.append(str(FLOW_PORT))
    assert [reaching(a_group(), int(port)) for port in ports] == [own] * 3
    others = [1, 7077, 7081, 8090, 65535]
    assert [reaching(a_group(), port) for port in others] == [None] * 5, "sidecars have some"
    assert reaching(a_group(), 7078, "UDP") is None


@pytest.mark.parametrize("who", ["driver", "executor"])
def test_pods_in_their_nodes_network_cannot_be_let_in_by_their_labels(who: str) -> None:
    shared: Document = {who: {"podTemplate": {"spec": {"hostNetwork": True}}}}
    assert reaching(a_group(**shared), 7078) is None


def test_sparks_traffic_needs_a_secret_and_is_encrypted_unless_the_user_says_otherwise() -> None:
    found = spark(a_group())
    assert found["spark.authenticate"] == found["spark.network.crypto.enabled"] == "true"
    assert found["spark.network.crypto.saslFallback"] == "false", "it is weaker"
    plain = {"spark.network.crypto.enabled": "false"}
    assert spark(a_group(sparkConf=plain))["spark.network.crypto.enabled"] == "false"


def test_every_object_belongs_to_the_group() -> None:
    for each in objects(a_group()).values():
        metadata = each["metadata"]
        assert metadata["namespace"] == "shop"
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "evenkeel"
        assert metadata["labels"]["evenkeel.dev/group"] == "billing"
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "evenkeel.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "name": "billing",
                "uid": "1234",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]


def test_what_the_driver_writes_is_only_made() -> None:
    found = objects(a_group())
    for kind in ("ConfigMap", "Lease"):
        assert set(found[kind, "billing-driver"]) == {"apiVersion", "kind", "metadata"}


def test_a_job_file_is_what_the_driver_takes() -> None:
    group = a_group(transform=CODE, deadLetter={"format": "json", "path": "/bad"})
    written, _ = files(group)
    assert written.executors == 3
    assert options.parse_reading(written.source, is_stream=True).topics == ("orders",)
    assert written.transform.file == "/etc/evenkeel-files/code/transform.py"
    assert written.dead_letter == JobSink(format="json", path="/bad")
    assert written.metrics_port == 8090
    assert written.engine is None, "drivers of older images do not know it"
    assert written.origin == group.head.origin
    assert written.kubernetes == JobCluster("shop", "billing")


def test_the_driver_runs_the_job_file_of_its_config_map() -> None:
    pod = driver(a_group())
    assert "command" not in main(pod), "the image's entry point is the first process"
    assert main(pod)["args"] == ["driver", "/etc/evenkeel/job.json"]
    volume = volumes(pod)[mounted(pod)["/etc/evenkeel"]]
    assert volume["configMap"] == {"name": "billing-job"}
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["serviceAccountName"] == "billing-driver"
    ports = {each["name"]: each["containerPort"] for each in main(pod)["ports"]}
    assert ports["metrics"] == files(a_group())[0].metrics_port
    assert str(ports["driver"]) == spark(a_group())["spark.driver.port"]


def test_the_driver_knows_who_and_where_it_is_from_its_pod() -> None:
    found = environment(driver(a_group()))
    fields = {name: found[name]["valueFrom"]["fieldRef"]["fieldPath"] for name in found}
    assert fields == {"EVENKEEL_POD_UID": "metadata.uid", "SPARK_LOCAL_HOSTNAME": "status.podIP"}


def test_an_image_of_the_job_comes_before_the_default() -> None:
    assert main(driver(a_group()))["image"] == IMAGE
    assert spark(a_group())["spark.kubernetes.container.image"] == IMAGE
    own = a_group(image="mine:2")
    assert main(driver(own))["image"] == "mine:2"
    assert spark(own)["spark.kubernetes.container.image"] == "mine:2"


def test_only_executors_have_no_token() -> None:
    of_driver, of_executors = both(a_group())
    assert of_driver["spec"]["automountServiceAccountToken"] is True
    assert of_executors["spec"]["automountServiceAccountToken"] is False


def test_both_pods_keep_to_the_restricted_standard() -> None:
    for pod in both(a_group()):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = main(pod)["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
        for path in ("/tmp", "/work"):
            assert volumes(pod)[mounted(pod)[path]]["emptyDir"] == {}
        assert main(pod)["workingDir"] == "/work"


def test_credentials_are_named_and_never_held() -> None:
    topic = a_topic(credentialsSecretRef={"name": "acl"})
    for pod in both(a_group(), topic):
        found = environment(pod)
        for name, key in (
            ("EVENKEEL_ACCESS_KEY", "accessKey"),
            ("EVENKEEL_SECRET_KEY", "secretKey"),
        ):
            assert found[name]["valueFrom"] == {"secretKeyRef": {"name": "acl", "key": key}}
    written, _ = files(a_group(), topic)
    assert not {"accessKey", "secretKey"} & written.source.keys()


def test_the_authorities_of_a_topic_are_a_file_in_both_pods() -> None:
    topic = a_topic(tls={"caSecretRef": {"name": "mq-ca"}})
    assert files(a_group(), topic)[0].source["tls"] == "/etc/evenkeel-tls/ca.crt"
    for pod in both(a_group(), topic):
        secret = volumes(pod)[mounted(pod)["/etc/evenkeel-tls"]]["secret"]
        assert secret == {"secretName": "mq-ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}


def test_tls_without_authorities_trusts_the_systems() -> None:
    topic = a_topic(tls={})
    assert files(a_group(), topic)[0].source["tls"] == "true"
    assert "/etc/evenkeel-tls" not in mounted(driver(a_group(), topic))


def test_no_tls_says_nothing_of_it() -> None:
    assert "tls" not in files(a_group())[0].source


def test_a_job_trusts_nobody_unseen() -> None:
    text = refused(a_group(), a_topic(tls={"insecureSkipVerify": True}))
    assert text.startswith("Topic shop/orders: spec.tls.insecureSkipVerify")


@pytest.mark.parametrize(
    "other",
    [{"credentialsSecretRef": {"name": "other"}}, {"tls": {}}, {"tls": None}],
    ids=["credentials", "tls", "neither"],
)
def test_topics_that_are_reached_in_different_ways_are_refused(other: Document) -> None:
    one = a_topic("a", credentialsSecretRef={"name": "acl"})
    two = a_topic("b", **other)
    text = refused(a_group(topics=("a", "b")), one, two)
    assert "ConsumerGroup shop/billing: its topics differ in credentialsSecretRef or tls" in text


def test_a_topic_that_is_not_there_is_named() -> None:
    assert refused(a_group(topics=("payments",))).startswith(
        "ConsumerGroup shop/billing: there is no Topic shop/payments"
    )


def test_users_files_come_from_their_own_config_maps() -> None:
    sink = {"configMapRef": {"name": "code", "key": "sink.py"}}
    dead = {"configMapRef": {"name": "other", "key": "sink.py"}}
    group = a_group(transform=CODE, sink=sink, deadLetter=dead)
    written, template = files(group)
    assert written.transform == JobTransform(file="/etc/evenkeel-files/code/transform.py")
    assert written.sink == JobSink(file="/etc/evenkeel-files/code/sink.py")
    assert written.dead_letter == JobSink(file="/etc/evenkeel-files/other/sink.py")
    pod = driver(group)
    sources = volumes(pod)[mounted(pod)["/etc/evenkeel-files"]]["projected"]["sources"]
    found = {
        f"{source['configMap']['name']}:{item['key']}": item["path"]
        for source in sources
        for item in source["configMap"]["items"]
    }
    assert found == {
        "code:transform.py": "code/transform.py",
        "code:sink.py": "code/sink.py",
        "other:sink.py": "other/sink.py",
    }
    assert "/etc/evenkeel-files" not in mounted(template)


def test_a_file_that_is_named_twice_is_mounted_once() -> None:
    same = {"configMapRef": {"name": "code", "key": "sink.py"}}
    pod = driver(a_group(sink=same, deadLetter=same))
    assert len(volumes(pod)["evenkeel-files"]["projected"]["sources"]) == 1


def test_options_from_a_secret_are_the_drivers_alone_and_never_in_a_config_map() -> None:
    sink = {"format": "jdbc", "options": {"url": "jdbc:x"}, "optionsFrom": {"name": "database"}}
    group = a_group(sink=sink, deadLetter=sink)
    written, template = files(group)
    assert written.sink.options_from == "/etc/evenkeel-options/database"
    assert written.sink.options == {"url": "jdbc:x"}
    pod = driver(group)
    volume = volumes(pod)[mounted(pod)["/etc/evenkeel-options/database"]]
    assert volume["secret"] == {"secretName": "database"}
    assert "/etc/evenkeel-options/database" not in mounted(template)


@pytest.mark.parametrize(
    ("executor", "asked", "mib"),
    [
        ({"memory": "1Gi"}, None, 64),
        ({"memory": "4Gi", "cores": 4}, None, 64),
        ({"memory": "1500Mi", "cores": 16}, None, 16),
        ({"memory": "64Gi"}, None, 256),
        ({"memory": "1Gi"}, "8Mi", 8),
    ],
)
def test_what_a_task_holds_follows_from_an_executors_memory(
    executor: Document, asked: str | None, mib: int
) -> None:
    written, _ = files(a_group(executor=executor, fetchMemory=asked))
    assert written.source["fetchMemory"] == str(mib * 1024 * 1024)


def test_a_job_without_files_mounts_none() -> None:
    assert "/etc/evenkeel-files" not in mounted(driver(a_group()))


def test_a_claim_holds_the_checkpoint_in_a_folder_of_the_group() -> None:
    group = a_group(**CLAIM)
    assert files(group)[0].checkpoint == "file:///state/checkpoints/billing"
    pod = driver(group)
    claim = volumes(pod)[mounted(pod)["/state"]]["persistentVolumeClaim"]
    assert claim == {"claimName": "billing-state"}
    assert pod["spec"]["securityContext"]["fsGroup"] > 0


def test_a_checkpoint_elsewhere_needs_no_claim() -> None:
    group = a_group()
    assert files(group)[0].checkpoint == "s3a://state"
    for pod in both(group):
        assert "/state" not in mounted(pod)
        assert "fsGroup" not in pod["spec"]["securityContext"]


@pytest.mark.parametrize(
    ("path", "shares"),
    [
        ("/state/rows", True),
        ("file:///state/rows", True),
        ("file:/state", True),
        ("/statement", False),
        ("s3a://state/rows", False),
    ],
)
def test_executors_share_the_claim_where_a_sink_writes_to_it(path: str, shares: bool) -> None:
    sink, other = {"format": "json", "path": path}, {"format": "json", "path": "/elsewhere"}
    groups = (a_group(**CLAIM, sink=sink), a_group(**CLAIM, sink=other, deadLetter=sink))
    for _, template in map(files, groups):
        assert ("/state" in mounted(template)) is shares


def test_a_pod_has_time_for_a_batch_before_it_is_killed() -> None:
    group = a_group(fetchDeadline="5m")
    assert driver(group)["spec"]["terminationGracePeriodSeconds"] > 300
    seconds = spark(group)["spark.kubernetes.executor.terminationGracePeriodSeconds"]
    assert int(seconds.removesuffix("s")) > 300


def test_resources_follow_from_the_spec() -> None:
    group = a_group(driver={"cores": 2, "memory": "3Gi"}, executor={"cores": 4, "memory": "2500M"})
    assert main(driver(group))["resources"] == {
        "requests": {"cpu": "2", "memory": "3Gi"},
        "limits": {"memory": "3Gi"},
    }
    less = a_group(sparkConf={"spark.kubernetes.driver.request.cores": "100m"})
    assert main(driver(less))["resources"]["requests"]["cpu"] == "100m"
    found = spark(group)
    assert found["spark.driver.memory"] == "1462m"
    assert found["spark.executor.cores"] == "4"
    assert found["spark.kubernetes.executor.request.cores"] == "4"
    parts = [found[f"spark.executor.{name}"] for name in ("memory", "memoryOverhead")]
    assert sum(int(each.removesuffix("m")) for each in parts) == 2384  # 2500 M in MiB


def test_the_overhead_factor_of_the_user_shares_the_same_memory() -> None:
    group = a_group(
        executor={"memory": "3Gi"}, sparkConf={"spark.executor.memoryOverheadFactor": "0.5"}
    )
    assert spark(group)["spark.executor.memory"] == "2048m"
    assert spark(group)["spark.executor.memoryOverhead"] == "1024m"


@pytest.mark.parametrize("text", ["much", "0", "-1", "nan", "inf"])
def test_an_overhead_factor_that_is_none_is_refused(text: str) -> None:
    group = a_group(sparkConf={"spark.driver.memoryOverheadFactor": text})
    assert f"spark.driver.memoryOverheadFactor: '{text}' is not a number" in refused(group)


@pytest.mark.parametrize("who", ["driver", "executor"])
def test_memory_that_spark_cannot_start_with_is_refused_with_what_is_enough(who: str) -> None:
    text = refused(a_group(**of(who, memory="512Mi")))
    assert f"spec.job.{who}.memory 512Mi leaves" in text
    enough = text.rpartition(" ")[2]
    objects(a_group(**of(who, memory=enough)))


@pytest.mark.parametrize(
    ("quantity", "mib"),
    [("1Gi", 1024), ("1.5Gi", 1536), ("512Mi", 512), ("1G", 953), ("1048576", 1),
     ("1024Ki", 1), ("1073741824000m", 1024), ("2000k", 1), ("100M", 95)],
)  # fmt: skip
def test_quantities_are_read_as_kubernetes_does(quantity: str, mib: int) -> None:
    assert quantities.parse_mib(quantity) == mib


def test_the_driver_may_touch_pods_and_what_is_its_own_by_name() -> None:
    found = objects(a_group())
    rules = found["Role", "billing-driver"]["rules"]
    unnamed = [rule["resources"] for rule in rules if "resourceNames" not in rule]
    assert unnamed == [["pods"]]
    for rule in rules:
        assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
    binding = found["RoleBinding", "billing-driver"]
    assert binding["roleRef"]["name"] == "billing-driver"
    assert [each["name"] for each in binding["subjects"]] == ["billing-driver"]


def test_slices_can_be_read_by_the_names_that_the_status_gives() -> None:
    group = a_group(status={"slices": ["billing-7-0", "billing-7-1"]})
    rules = objects(group)["Role", "billing-driver"]["rules"]
    (rule,) = [each for each in rules if "billing-7-0" in each.get("resourceNames", [])]
    assert rule["resourceNames"] == ["billing-7-0", "billing-7-1"]
    assert rule["verbs"] == ["get"]


def test_a_name_that_makes_no_label_is_refused() -> None:
    objects(a_group(name="b" * 63))
    assert "its name has 64 characters" in refused(a_group(name="b" * 64))


def test_a_group_without_a_job_is_refused() -> None:
    spec = {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}}
    metadata = {"name": "billing", "namespace": "shop"}
    group = manifests.read_group({"kind": "ConsumerGroup", "metadata": metadata, "spec": spec})
    assert refused(group) == "ConsumerGroup shop/billing has no job"


def hashed(group: ConsumerGroup, *topics: Topic, image: str = IMAGE) -> str:
    return job_objects.compute_restart_hash(group, known(*topics), image)


def test_the_pod_tells_what_it_was_made_from() -> None:
    annotations = driver(a_group())["metadata"]["annotations"]
    assert annotations == {RESTART_HASH: hashed(a_group())}


@pytest.mark.parametrize(
    "change",
    [
        {"executors": 7},
        {"executors": 0},
        {"status": {"epoch": 3, "slices": ["s"]}},
        {"uid": "another"},
        {"annotations": {"evenkeel.dev/paused": "true"}},
        {"annotations": {"evenkeel.dev/drain": "pod-a"}},
        {"annotations": {"evenkeel.dev/rebalance": "2026-11-21"}},
    ],
)
def test_a_running_driver_goes_on_when_only_this_changes(change: Document) -> None:
    assert hashed(a_group(**change)) == hashed(a_group())


@pytest.mark.parametrize(
    "change",
    [
        {"trigger": "5s"},
        {"transform": {"sql": "SELECT * FROM messages"}},
        {"image": "mine:2"},
        {"sparkConf": {"spark.ui.enabled": "true"}},
        {"driver": {"memory": "2Gi"}},
        {"executor": {"memory": "2Gi"}},
        {"executor": {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}},
        {"driver": {"podTemplate": {"metadata": {"labels": {"a": "b"}}}}},
        {"driver": {"podTemplate": {"metadata": {"annotations": {"a": "b"}}}}},
        {"annotations": {"evenkeel.dev/restart": "2026-11-21"}},
        {"annotations": {"evenkeel.dev/skip": "2026-11-21"}},
        CLAIM,
    ],
)
def test_a_new_driver_is_needed_when_this_changes(change: Document) -> None:
    assert hashed(a_group(**change)) != hashed(a_group())


def test_a_new_driver_is_needed_when_a_topic_is_reached_in_another_way() -> None:
    for change in ({"nameServers": ["other:9876"]}, {"credentialsSecretRef": {"name": "acl"}}):
        assert hashed(a_group(), a_topic(**change)) != hashed(a_group())
    assert hashed(a_group(), image="new:2") != hashed(a_group())
    assert hashed(a_group(), a_topic(refreshInterval="1m")) == hashed(a_group())


def test_the_number_of_executors_is_that_of_the_spec_and_at_least_one() -> None:
    for executors, count in ((3, 3), (0, 1)):
        written, _ = files(a_group(executors=executors))
        assert written.executors == count
        assert written.spark["spark.executor.instances"] == str(count)
