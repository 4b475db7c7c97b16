"""`helm test` tries the installation from a pod that has only the rights that the test needs."""

from tests.chart.rendering import NAMESPACE, Document, Helm

TEST = "keel-evenkeel-test"
GOES = "before-hook-creation,hook-succeeded"


def test_the_pod_runs_the_check_with_the_operators_image(helm: Helm) -> None:
    found = helm.template()
    pod = found.hooks["Pod"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == ["check", f"--namespace={NAMESPACE}", "--timeout=120s"]
    assert container["image"] == found.container["image"]
    assert pod["restartPolicy"] == "Never"


def test_the_check_ends_before_its_pod_has_to(helm: Helm) -> None:
    """Otherwise the pod would be killed before it prints what the check waited for."""
    pod = helm.template(test__timeout="77").hooks["Pod"]["spec"]
    assert "--timeout=77s" in pod["containers"][0]["args"]
    assert pod["activeDeadlineSeconds"] > 77


def test_it_may_make_and_delete_topics_and_groups_and_nothing_else(helm: Helm) -> None:
    hooks = helm.template().hooks
    assert hooks.keys() == {"ServiceAccount", "Role", "RoleBinding", "Pod"}
    assert hooks["Role"]["rules"] == [
        {"apiGroups": ["evenkeel.dev"], "resources": ["topics"], "verbs": ["create", "delete"]},
        {
            "apiGroups": ["evenkeel.dev"],
            "resources": ["consumergroups"],
            "verbs": ["get", "create", "delete"],
        },
    ]
    subject = {"kind": "ServiceAccount", "name": TEST, "namespace": NAMESPACE}
    assert hooks["RoleBinding"]["subjects"] == [subject]
    assert hooks["Pod"]["spec"]["serviceAccountName"] == TEST


def test_rights_are_there_before_the_pod_and_gone_when_all_went_well(helm: Helm) -> None:
    hooks = helm.template().hooks

    def weight(found: Document) -> int:
        return int(found["metadata"]["annotations"].get("helm.sh/hook-weight", 0))

    for kind, found in hooks.items():
        annotations = found["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test"
        assert annotations["helm.sh/hook-delete-policy"] == GOES
        assert kind == "Pod" or weight(found) < weight(hooks["Pod"])


def test_it_tries_a_namespace_that_is_watched(helm: Helm) -> None:
    def where(namespaces: str) -> tuple[str, str, str]:
        hooks = helm.template(watch__namespaces=namespaces).hooks
        words = hooks["Pod"]["spec"]["containers"][0]["args"]
        roles = {hooks[kind]["metadata"]["namespace"] for kind in ("Role", "RoleBinding")}
        (role,) = roles
        return words[1], role, hooks["Pod"]["metadata"]["namespace"]

    assert where("{beta,alpha}") == ("--namespace=beta", "beta", NAMESPACE)
    here = (f"--namespace={NAMESPACE}", NAMESPACE, NAMESPACE)
    assert where(f"{{beta,{NAMESPACE}}}") == here
