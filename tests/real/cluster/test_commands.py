"""The command line on a real API server, with an operator that carries out its requests."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evenkeel.cluster.api import paths
from evenkeel.cluster.manifest import pod_paths
from evenkeel_cli import frame
from evenkeel_cli.codes import DONE, FAILED, NOTHING_MOVES, SOMETHING_MOVES
from sandbox import go, jars, ports, process, programs
from sandbox.kubernetes import Cluster
from sandbox.kubernetes_users import ApiUser
from sandbox.statuses import Document, count_loads, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster import running
from tests.real.cluster.running import Namespace, RunningOperator

ROOT = Path(__file__).parents[3]
GROUPS = "consumergroups"
ROUTE = [
    {"broker": broker, "readQueues": 4, "writeQueues": 4} for broker in ("broker-a", "broker-b")
]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PLUGIN = """\
#!/bin/sh
PYTHONPATH={root}/operator:{root} exec {python} -c \\
    'import sys; from evenkeel_cli.kubectl import {name}; sys.exit({name}())' "$@"
"""
Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def place(kubernetes: Cluster) -> Iterator[Namespace]:
    """A namespace with a topic and an operator, for all tests of this file."""
    found = running.make_namespace(kubernetes.admin, "commands")
    found.make("Topic", "orders", {"route": ROUTE})
    with RunningOperator(kubernetes.admin.kubeconfig, found.name) as operator:
        operator.wait_until_ready()
        yield found


@pytest.fixture
def run(kubernetes: Cluster, place: Namespace, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this place; return its exit code and its whole output."""

    def said(*words: str, user: ApiUser = kubernetes.admin) -> tuple[int, str]:
        where = ("-n", place.name, "--kubeconfig", str(user.kubeconfig))
        code = frame.main([*words, *where])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return said


def pods(place: Namespace, group: str, *names: str) -> None:
    """Create a group of pods, and wait until each pod has queues."""
    labels = {"app": group}
    for name in names:
        place.pod(name, labels)
    consumers = {"podSelector": {"matchLabels": labels}}
    place.make("ConsumerGroup", group, {"topics": [{"name": "orders"}], "consumers": consumers})
    place.until(GROUPS, group, lambda status: count_loads(status).keys() == set(names))


def annotations(place: Namespace, group: str) -> dict[str, str]:
    found: dict[str, str] = place.get(GROUPS, group)["metadata"].get("annotations") or {}
    return found


# --- commands that show something


def test_it_explains_who_owns_what_since_which_epoch(place: Namespace, run: Run) -> None:
    pods(place, "explained", "ex-a", "ex-b")
    place.pod("ex-c", {"app": "explained"})
    place.until(GROUPS, "explained", lambda status: len(count_loads(status)) == 3)
    epoch = place.status(GROUPS, "explained")["epoch"]
    code, shown = wait_for(
        lambda: run("explain", "explained", "--queue", "orders@broker-a/3"),
        lambda found: "epoch" in found[1],  # the Event comes after the status
    )
    assert code == DONE
    assert "orders@broker-a 3 belongs to ex-c." in shown
    assert "It came from ex-a " in shown
    assert f" in epoch {epoch} (ConsumersChanged): ex-c joined." in shown


def test_a_plan_says_what_the_next_rebalance_would_move(place: Namespace, run: Run) -> None:
    pods(place, "planned", "pl-a", "pl-b")
    assert run("plan", "planned") == (
        NOTHING_MOVES, "commands/planned: 0 queues move\nimbalance 1.00, best possible 1.00\n"
    )  # fmt: skip
    run("pause", "planned", "--wait")
    place.pod("pl-c", {"app": "planned"})
    place.until(GROUPS, "planned", lambda status: len(status["assignments"]) == 3)
    code, shown = run("plan", "planned")
    assert code == SOMETHING_MOVES
    assert "2 queues move" in shown
    assert "the group is paused" in shown


def test_top_shows_all_groups_and_each_with_its_queues(place: Namespace, run: Run) -> None:
    pods(place, "shown", "sh-a")
    code, shown = run("top")
    assert code == DONE
    (line,) = (line.split() for line in shown.splitlines() if line.startswith("shown "))
    assert line[1:3] == ["8", "1"]
    assert line[-2:] == ["True", "Assigned"]
    assert (
        "sh-a      reads       8  orders@broker-a 0-3 orders@broker-b 0-3" in run("top", "shown")[1]
    )
    facts = json.loads(run("top", "shown", "-o", "json")[1])
    assert [each["consumer"] for each in facts["assignments"]] == ["sh-a"]


def test_top_reads_lag_and_rates_of_a_job_from_its_driver(
    place: Namespace, run: Run, own_address: str
) -> None:
    driver = start_job(place, own_address)
    code, shown = run("top", "billing")
    assert code == DONE
    first, second = (line.split() for line in shown.splitlines() if line.startswith("billing-"))
    assert first[:6] == ["billing-0", "1", executor(driver, "1"), "reads", "4", "1111"]
    assert 500 < int(first[6]) < 2000
    assert first[7:] == ["payments@broker-a", "0-3", "1234"]
    assert second[7:] == ["payments@broker-b", "0-3", "????"]


def test_without_the_right_to_read_from_pods_top_says_so_and_shows_the_rest(
    kubernetes: Cluster, place: Namespace, run: Run
) -> None:
    driver = start_job(place, "192.0.2.1")
    user = kubernetes.user("top-without-proxy")
    allow(place, user, "evenkeel.dev", "consumergroups", "get")
    code, shown = run("top", "billing", user=user)
    assert code == DONE
    assert "you may not get pods/proxy in namespace commands" in shown
    assert f"{executor(driver, '1')}  reads       4  payments@broker-a 0-3" in shown


def test_a_pod_that_redirects_top_gets_no_token(
    kubernetes: Cluster, place: Namespace, run: Run, own_address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A user can name a pod like a driver, and the API server passes on the pod's redirect."""
    user = kubernetes.service_account(place.name, "default")
    allow(place, user, "evenkeel.dev", "consumergroups", "get")
    allow(place, user, "", "pods/proxy", "get")
    start_job(place, own_address)
    with answering("127.0.0.1", 200) as (elsewhere, stolen):
        place_to_steal = f"http://127.0.0.1:{elsewhere}/"
        with answering(own_address, 302, place_to_steal) as (port, asked):
            monkeypatch.setattr(pod_paths, "METRICS_PORT", port)
            code, shown = run("top", "billing", user=user)
    assert asked, "the API server sends the request to the pod"
    assert stolen == []
    assert code == DONE
    assert f"with a redirect to '{place_to_steal}', which is not followed" in shown
    assert "billing-1  2 " in shown, "all other facts are shown"


# --- commands that request something


def test_a_drain_empties_a_pod_and_its_undo_lets_it_have_queues_again(
    place: Namespace, run: Run
) -> None:
    pods(place, "drained", "dr-a", "dr-b")
    code, shown = run("drain", "dr-a", "--wait")
    assert code == DONE
    assert shown.startswith(
        "dr-a of ConsumerGroup commands/drained is drained: its 4 queues go to other consumers"
    )
    assert count_loads(place.status(GROUPS, "drained")) == {"dr-a": 0, "dr-b": 8}
    assert run("drain", "dr-a", "--undo", "--wait")[0] == DONE
    assert "evenkeel.dev/drain" not in annotations(place, "drained")
    place.until(GROUPS, "drained", lambda status: count_loads(status) == {"dr-a": 4, "dr-b": 4})


def test_names_of_pods_that_are_gone_are_left_out_of_the_next_drain(
    place: Namespace, run: Run
) -> None:
    pods(place, "pruned", "pr-a", "pr-b", "pr-c")
    assert run("drain", "pr-a")[0] == DONE
    place.delete(place.core("pods", "pr-a"))
    place.until(GROUPS, "pruned", lambda status: len(status["assignments"]) == 2)
    assert run("drain", "pr-b")[0] == DONE
    assert annotations(place, "pruned") == {"evenkeel.dev/drain": "pr-b"}
    facts = json.loads(run("drain", "pr-b", "-o", "json")[1])
    assert [each["changed"] for each in facts] == [False]


def test_drains_at_the_same_time_do_not_undo_each_other(place: Namespace, run: Run) -> None:
    names = [f"co-{number}" for number in range(6)]
    pods(place, "contended", *names)
    threads = [threading.Thread(target=run, args=("drain", name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert annotations(place, "contended") == {"evenkeel.dev/drain": ",".join(names)}


def test_a_rebalance_by_hand_works_while_the_group_is_paused(place: Namespace, run: Run) -> None:
    pods(place, "paused", "pa-a")
    assert run("pause", "paused", "--wait")[0] == DONE
    assert read_condition(place.status(GROUPS, "paused"), "Paused") == ("True", "Asked")
    place.pod("pa-b", {"app": "paused"})
    place.until(GROUPS, "paused", lambda status: len(status["assignments"]) == 2)
    assert count_loads(place.status(GROUPS, "paused")) == {"pa-a": 8, "pa-b": 0}
    code, shown = run("rebalance", "paused", "--wait")
    assert code == DONE
    assert "4 queues moved: pa-a -> pa-b" in shown
    assert run("resume", "paused", "--wait")[0] == DONE
    assert read_condition(place.status(GROUPS, "paused"), "Paused") == ("", "")
    assert "was not paused" in run("resume", "paused")[1]


def test_a_restart_is_waited_for_until_another_driver_runs(place: Namespace, run: Run) -> None:
    old = start_job(place, "192.0.2.1")
    said: list[tuple[int, str]] = []
    asking = threading.Thread(target=lambda: said.append(run("restart", "billing", "--wait")))
    asking.start()
    start_driver(place, "192.0.2.1", but=old)
    asking.join(60.0)
    assert not asking.is_alive()
    assert said[0][0] == DONE, said
    assert "the job has restarted" in said[0][1]


# --- errors


def test_a_group_that_is_not_there_is_told_with_those_that_are(place: Namespace, run: Run) -> None:
    pods(place, "there", "th-a")
    code, shown = run("pause", "nowhere")
    assert code == FAILED
    assert shown.startswith("evenkeel: there is no ConsumerGroup nowhere in namespace commands: ")
    assert "there" in shown


def test_a_right_that_is_missing_is_named(kubernetes: Cluster, place: Namespace, run: Run) -> None:
    pods(place, "guarded", "gu-a")
    user = kubernetes.user("reader")
    allow(place, user, "evenkeel.dev", "consumergroups", "get", "list")
    code, shown = run("pause", "guarded", user=user)
    assert code == FAILED
    assert shown.startswith(
        "evenkeel: you may not patch consumergroups.evenkeel.dev in namespace commands; ask an "
        "administrator for that right: "
    )
    assert shown.count("\n") == 1


def test_a_cluster_without_our_kinds_is_told_apart(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "GROUPS", ("evenkeel.dev", "v0", "consumergroups"))
    for words in (("top",), ("pause", "billing")):
        code, shown = run(*words)
        assert code == FAILED
        assert "has no consumergroups.evenkeel.dev: Evenkeel is not installed there" in shown


def test_who_is_not_known_is_told_to_log_in(kubernetes: Cluster, run: Run, tmp_path: Path) -> None:
    config = json.loads(kubernetes.admin.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "wrong"}
    wrong = tmp_path / "wrong"
    wrong.write_text(json.dumps(config))
    code, shown = run("top", user=ApiUser("nobody", wrong, "", 0, None, {}))  # type: ignore[arg-type]
    assert code == FAILED
    assert "does not accept your credentials" in shown


# --- helm test


def test_a_check_sees_the_right_assignment_and_leaves_nothing_behind(
    kubernetes: Cluster, place: Namespace, run: Run
) -> None:
    """The check has the rights that the chart gives it."""
    user = kubernetes.user("checker")
    for plural in ("topics", "consumergroups"):
        allow(place, user, "evenkeel.dev", plural, "get", "list", "watch", "create", "delete")
    code, shown = run("check", user=user)
    assert code == DONE, shown
    assert shown.splitlines()[-4:] == [
        "  one: broker-a 0-2",
        "  three: broker-a 3, broker-b 0-1",
        "  two: broker-b 2-3",
        "the assignment is right; the operator works",
    ]
    assert left(place) == []


def test_a_check_that_nobody_answers_fails_and_leaves_nothing_behind(
    kubernetes: Cluster, namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["-n", namespace.name, "--kubeconfig", str(kubernetes.admin.kubeconfig)]
    assert frame.main(["check", "--timeout", "500ms", *where]) == FAILED
    assert "was not ready after 0.5 s: the group has no status yet" in capsys.readouterr().err
    assert left(namespace) == []


def left(place: Namespace) -> list[str]:
    found = [
        place.user.ask("GET", place.path(plural)).body["items"] for plural in ("topics", GROUPS)
    ]
    names = [each["metadata"]["name"] for items in found for each in items]
    return [name for name in names if name.startswith("evenkeel-check")]


# --- as a plugin


def test_kubectl_runs_and_completes_it_as_its_plugin(
    kubernetes: Cluster, place: Namespace, tmp_path: Path
) -> None:
    try:
        kubectl = go.build(programs.KUBECTL)
    except jars.JarsError as error:
        pytest.skip(f"NO REAL KUBECTL: {error}")
    pods(place, "plugged", "pg-a")
    for file, name in (("kubectl-evenkeel", "main"), ("kubectl_complete-evenkeel", "complete")):
        program = tmp_path / file
        program.write_text(PLUGIN.format(root=ROOT, python=sys.executable, name=name))
        program.chmod(0o755)
    config = json.loads(kubernetes.admin.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = place.name
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(json.dumps(config))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig)}

    def said(*words: str) -> str:
        command = [str(kubectl), *words]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return ended.stdout

    assert "plugged" in said("evenkeel", "top")
    assert "kubectl evenkeel explain billing" in said("evenkeel", "explain", "--help")
    assert said("__complete", "evenkeel", "explain", "plug") == "plugged\n:4\n"
    assert said("__complete", "evenkeel", "drain", "pg") == "pg-a\n:4\n"


# --- a job, in a cluster without nodes


@pytest.fixture
def own_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address at which this machine, instead of a driver's pod, serves a metrics page."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("198.51.100.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("NO REAL PAGE OF METRICS: API servers ask no pod on loopback")
        address: str = asked.getsockname()[0]
    claim = ports.claim()
    monkeypatch.setattr(pod_paths, "METRICS_PORT", claim.port)
    with process.make_folder("evenkeel-page-") as folder:
        command = [sys.executable, "-m", "tests.real.cluster.drivers_page", str(claim.port)]
        page = process.ChildProcess("page", command, folder, {"PYTHONPATH": str(ROOT)})
        page.wait_until(lambda: listens(address, claim.port), 30.0)
        yield address
    claim.release()


@contextmanager
def answering(address: str, status: int, to: str = "") -> Iterator[tuple[int, list[str | None]]]:
    """Serve on a port of this machine; yield the credentials that clients send to it."""
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(status)
            self.send_header("Location", to)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer((address, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, seen
        finally:
            server.shutdown()
            thread.join()


def listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1.0).close()
    except OSError:
        return False
    return True


def start_job(place: Namespace, address: str) -> str:
    """Make `billing` run with two executors if necessary; return the uid of its driver's pod."""
    if place.found(place.path(GROUPS, "billing")) is None:
        claim = {"persistentVolumeClaim": "billing-state"}
        place.claim("billing-state")
        place.make_known_topic("payments", ROUTE)
        job = {"image": "x", "executors": 2, "sink": {"format": "noop"}, "checkpoint": claim}
        job["allowForeignConsumers"] = True  # there is no broker that lists readers
        place.make("ConsumerGroup", "billing", {"topics": [{"name": "payments"}], "job": job})
    return start_driver(place, address)


def start_driver(place: Namespace, address: str, but: str = "") -> str:
    """Act as kubelet and driver for a driver's pod whose uid is not `but`."""
    path = place.core("pods", "billing-driver")
    driver = wait_for(lambda: place.found(path), lambda it: it is not None and uid(it) != but)
    assert driver is not None
    assert uid(driver) != but
    place.set_ready("billing-driver", "True")
    place.set_status("billing-driver", {"podIP": address, "podIPs": [{"ip": address}]})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "billing-driver", "uid": uid(driver)}
    labels = {"evenkeel.dev/group": "billing", "spark-role": "executor"}
    for number in ("1", "2"):
        name = executor(uid(driver), number)
        if place.found(place.core("pods", name)) is None:
            place.pod(name, {**labels, "spark-exec-id": number}, owner)
    slots = {f"billing-{slot}": {"executor": str(slot + 1)} for slot in range(2)}
    report = {"driver": uid(driver), "adoptedEpoch": 1, "slots": slots, "pinned": True}
    data = {"data": {"report.json": json.dumps(report)}}
    place.patch(place.core("configmaps", "billing-driver"), data)
    place.until(GROUPS, "billing", lambda it: read_condition(it, "Ready") == ("True", "Running"))
    return uid(driver)


def executor(driver: str, number: str) -> str:
    """Return the name of an executor's pod."""
    return f"billing-{driver[:5]}-exec-{number}"


def uid(pod: Document) -> str:
    found: str = pod["metadata"]["uid"]
    return found


def allow(place: Namespace, user: ApiUser, group: str, plural: str, *verbs: str) -> None:
    """Give a user rights to objects of a kind."""
    name = f"{user.name}-{plural}".replace("/", "-")
    rules = [{"apiGroups": [group], "resources": [plural], "verbs": verbs}]
    where = f"{RBAC}/namespaces/{place.name}"
    admin = place.user
    assert admin.ask("POST", f"{where}/roles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "User", "name": user.name}],
    }
    assert admin.ask("POST", f"{where}/rolebindings", binding).status == 201
