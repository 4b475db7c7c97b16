"""The objects that `members.enabled` installs. Without this value, none of them exists."""

from evenkeel_cli import grammar
from tests.chart.rendering import NAME, NAMESPACE, Helm, Rendered
from tests.real.cluster import release

SERVICE = f"{NAME}-members"


def words_of(found: Rendered) -> list[str]:
    words: list[str] = found.pod["spec"]["containers"][0]["args"]
    return words


def test_nothing_of_members_is_installed_by_default(helm: Helm) -> None:
    found = helm.template(networkPolicy__enabled="true")
    assert not [each for each in found.objects if "members" in each["metadata"]["name"]]
    assert not [word for word in words_of(found) if word.startswith("--members")]
    (container,) = found.pod["spec"]["containers"]
    assert [each["name"] for each in container["ports"]] == ["http"]
    assert len(found.one("NetworkPolicy")["spec"]["ingress"]) == 1


def test_the_leader_is_found_by_a_service_without_a_selector(helm: Helm) -> None:
    found = helm.template(members__enabled="true", networkPolicy__enabled="true")
    service = found.one("Service", SERVICE)["spec"]
    assert service == {"ports": [{"name": "members", "port": 8443}]}
    (container,) = found.pod["spec"]["containers"]
    assert {"name": "members", "containerPort": 8443} in container["ports"]
    (variable,) = container["env"]
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert f"--members-address=$({variable['name']})" in words_of(found)
    rule = found.one("NetworkPolicy")["spec"]["ingress"][1]
    assert rule == {"ports": [{"port": "members", "protocol": "TCP"}]}


def test_the_operator_understands_its_arguments(helm: Helm) -> None:
    words = [
        word.replace("$(POD_IP)", "fd00::1")
        for word in words_of(helm.template(members__enabled="true"))
    ]
    options = grammar.make_parser("evenkeel", words).parse_args(words)
    assert options.members_service == SERVICE
    assert (options.members_address, options.members_port) == ("fd00::1", 8443)


def test_its_rights_name_what_they_are_for(helm: Helm) -> None:
    found = helm.template(members__enabled="true", watch__namespaces="{alpha}")
    assert release.rights_of(found.one("ClusterRole", SERVICE)) == {
        ("authentication.k8s.io", "tokenreviews", "create")
    }
    secrets, kept, endpoints = found.one("Role", SERVICE)["rules"]
    assert (secrets["verbs"], "resourceNames" in secrets) == (["create"], False)
    assert (kept["resourceNames"], kept["verbs"]) == ([f"{SERVICE}-tls"], ["get", "update"])
    assert endpoints["resourceNames"] == [f"{SERVICE}-leader"]
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        (subject,) = found.one(kind, SERVICE)["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}


def test_it_may_write_config_maps_even_without_jobs(helm: Helm) -> None:
    found = helm.template(members__enabled="true", jobs__enabled="false")
    verbs = {
        verb
        for _, kind, verb in release.rights_of(found.one("ClusterRole"))
        if kind == "configmaps"
    }
    assert verbs == {"get", "list", "watch", "create", "patch", "delete"}
    without = helm.template(members__enabled="true", rbac__create="false")
    assert [each for each in without.objects if each["metadata"]["name"] == SERVICE] == [
        without.one("Service", SERVICE)
    ]
