"""Invalid names on the command line are refused before any request is sent."""

import pytest

from evenkeel.cluster.api import paths
from evenkeel.objects import Key
from evenkeel_cli import frame, grammar
from evenkeel_cli.codes import MISUSED

NAMES = ("billing/status", "billing?x=1", "..", "Billing", "", "a..b", "-a", "a" * 254)
NAMESPACES = ("", "a/b", "other/consumergroups/billing?", "a.b", "BAD", "a" * 64)
GROUP_COMMANDS = ("pause", "resume", "rebalance", "restart", "skip", "explain", "top", "plan")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command, and return the last line of its error output."""
    with pytest.raises(SystemExit) as ended:
        frame.main(words)
    assert ended.value.code == MISUSED
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("command", [*GROUP_COMMANDS, "drain"])
@pytest.mark.parametrize("name", [*NAMES[:-1], pytest.param(NAMES[-1], id="long")])
def test_what_is_no_name_of_an_object_is_wrong_usage(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"{name!r} is not a valid object name: " in refused(capsys, command, "--", name)


@pytest.mark.parametrize("command", [*GROUP_COMMANDS, "drain", "check", "operator"])
@pytest.mark.parametrize("name", [*NAMESPACES[:-1], pytest.param(NAMESPACES[-1], id="long")])
def test_what_is_no_name_of_a_namespace_is_wrong_usage(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = () if command in ("check", "operator") else ("billing",)
    complaint = refused(capsys, command, *words, "--namespace", name)
    assert f"{name!r} is not a valid namespace name: " in complaint


@pytest.mark.parametrize("name", ["a", "a.b-c", "9", "a" * 253])
def test_names_that_kubernetes_takes_are_taken(name: str) -> None:
    assert grammar.make_parser("evenkeel", ["pause"]).parse_args(["pause", name]).group == name


def test_a_name_leads_nowhere_else_in_the_api() -> None:
    assert (
        paths.build_path(paths.PODS, Key("a/b?", "c/d?"))
        == "/api/v1/namespaces/a%2Fb%3F/pods/c%2Fd%3F"
    )


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--port", "99999"], "'99999' must be a port"),
        (["--port", "-1"], "'-1' must be a port"),
        (["--lease-namespace", "BAD/ns"], "'BAD/ns' is not a valid namespace name"),
        (["--lease-duration", "-1"], "--lease-duration -1 must be from 1 to 3600"),
        (["--lease-duration", "0.5"], "--lease-duration 0.5 must be from 1 to 3600"),
        (["--lease-duration", "1e300"], "--lease-duration 1e+300 must be from 1 to 3600"),
        (["--lease-duration", "5"], "--lease-deadline 10 must be less than --lease-duration 5"),
        (["--lease-deadline", "15"], "--lease-deadline 15 must be less than --lease-duration 15"),
        (["--lease-period", "10"], "--lease-period 10 must be less than --lease-deadline 10"),
        (["--lease-period", "0"], "--lease-period 0 must be more than 0"),
        (["--lease-period", "nan"], "must be numbers of seconds"),
        (["--lease-duration", "inf"], "must be numbers of seconds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_operator_that_could_not_work_does_not_begin(
    options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint in refused(capsys, "operator", *options)
