"""Installs the chart with the real helm, and runs its operator as a process."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox import go, operator, programs
from sandbox.kubernetes import Cluster
from sandbox.kubernetes_users import ApiUser

ROOT = Path(__file__).parents[3]
NAME = "evenkeel"
POD_IP = "10.1.2.3"
Document = dict[str, Any]


@dataclass(frozen=True)
class Release:
    """A release of the chart in `source`, in its own namespace."""

    cluster: Cluster
    namespace: str
    source: Path = ROOT

    def helm(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run helm as admin, in the release's namespace."""
        command = [
            str(go.build(programs.HELM)), "--kubeconfig", str(self.cluster.admin.kubeconfig),
            "--namespace", self.namespace, *words,
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def install(self, *options: str) -> str:
        """Install the chart; return helm's output."""
        return self._done("install", "--create-namespace", NAME, self._chart, *options)

    def upgrade(self, source: Path, *options: str) -> "Release":
        """Upgrade to the chart of another checkout, or downgrade to it."""
        found = Release(self.cluster, self.namespace, source)
        found._done("upgrade", NAME, found._chart, *options)
        return found

    def uninstall(self) -> str:
        """Uninstall the release; return helm's output."""
        return self._done("uninstall", NAME)

    @property
    def objects(self) -> list[Document]:
        """List the objects that helm has installed."""
        found = yaml.safe_load_all(self._done("get", "manifest", NAME))
        return [each for each in found if each]

    @property
    def hooks(self) -> list[Document]:
        """List the objects that helm creates for a test and then deletes."""
        found = yaml.safe_load_all(self._done("get", "hooks", NAME))
        return [each for each in found if each]

    @property
    def deployment(self) -> Document:
        """The Deployment of the operator."""
        (found,) = (each for each in self.objects if each["kind"] == "Deployment")
        return found

    @property
    def account(self) -> ApiUser:
        """The service account of the operator."""
        name = self.deployment["spec"]["template"]["spec"]["serviceAccountName"]
        return self.cluster.service_account(self.namespace, name)

    def running(self, *more: str) -> operator.RunningOperator:
        """Run the operator as its account, with the Deployment's arguments except the ports."""
        (container,) = self.deployment["spec"]["template"]["spec"]["containers"]
        words = [*container.get("command", []), *container["args"]]
        words = words[words.index("operator") + 1 :]
        mine = ("--port", "--members-port")
        options = [word for word in words if not word.startswith(mine)]
        options = [word.replace("$(POD_IP)", POD_IP) for word in options]
        return operator.RunningOperator(self.account.kubeconfig, *options, *more, root=self.source)

    @property
    def _chart(self) -> str:
        return str(self.source / "charts" / "evenkeel")

    def tested(self) -> tuple[ApiUser, subprocess.CompletedProcess[str]]:
        """Run the program of `helm test` as its pod does; return the account and the result."""
        pods = [each for each in self.hooks if each["kind"] == "Pod"]
        items = [each for each in self.hooks if each not in pods]
        others = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        made = kubectl(self.cluster.admin, "apply", "-f", "-", told=others)
        assert made.returncode == 0, made.stderr
        (pod,) = pods
        (container,) = pod["spec"]["containers"]
        user = self.cluster.service_account(self.namespace, pod["spec"]["serviceAccountName"])
        done = subprocess.run(
            [*operator.make_command(self.source), *container["args"]],
            env={
                **os.environ,
                "KUBECONFIG": str(user.kubeconfig),
                **operator.make_python_path(self.source),
            },
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        kubectl(self.cluster.admin, "delete", "-f", "-", told=others)
        return user, done

    def _done(self, *words: str) -> str:
        done = self.helm(*words)
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
        return done.stdout


def kubectl(user: ApiUser, *words: str, told: str = "") -> subprocess.CompletedProcess[str]:
    """Run kubectl as this user."""
    command = [str(go.build(programs.KUBECTL)), "--kubeconfig", str(user.kubeconfig), *words]
    return subprocess.run(command, input=told, capture_output=True, text=True, check=False)


def used(audit: Path, user: ApiUser) -> set[tuple[str, str, str]]:
    """Read the rights that a user has used, as (group, resource, verb)."""
    found = set()
    for line in audit.read_text().splitlines():
        event = json.loads(line)
        ref = event.get("objectRef")
        if event["user"]["username"] != user.name or ref is None:
            continue
        resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
        group = ref.get("apiGroup", "")
        found.add((group, resource, event["verb"]))
        if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == 201:
            # A server-side apply of an object that did not exist.
            found.add((group, resource, "create"))
    return found


def refused(audit: Path, user: ApiUser) -> list[str]:
    """List the requests of a user that were forbidden."""
    found = []
    for line in audit.read_text().splitlines():
        event = json.loads(line)
        decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
        code = event.get("responseStatus", {}).get("code")
        if event["user"]["username"] == user.name and (decision == "forbid" or code == 403):
            found.append(f"{event['verb']} {event['requestURI']}")
    return found


def granted(objects: list[Document], account: str) -> set[tuple[str, str, str]]:
    """Read the rights that roles give to a service account."""
    roles = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in objects
        if each["kind"] in ("Role", "ClusterRole")
    }
    found = set()
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        if account not in [each["name"] for each in binding["subjects"]]:
            continue
        ref = binding["roleRef"]
        place = binding["metadata"].get("namespace", "") if ref["kind"] == "Role" else ""
        found |= rights_of(roles[ref["kind"], place, ref["name"]])
    return found


def rights_of(role: Document) -> set[tuple[str, str, str]]:
    """Read the rights of a role, as (group, resource, verb)."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
