"""The checks of alerts and of the dashboard, and the generation of the dashboard."""

import shutil
from pathlib import Path

import pytest

from generate import dashboard
from sandbox import debian, jars, process
from tests import rule_checks
from tests.rule_checks import ALERTS, DASHBOARD, PAGES, ROOT, TESTS

NO_LEADER = PAGES / "evenkeel-no-leader.md"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Copies of all checked files, so that a test can break them."""
    for file in (ALERTS, DASHBOARD):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    for folder in (TESTS, PAGES):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def complaints(root: Path) -> list[str]:
    checks = (rule_checks.of_alerts, rule_checks.of_tests, rule_checks.of_dashboard)
    return [line for check in checks for line in check(root)]


def test_there_is_nothing_to_complain_about(house: Path) -> None:
    assert complaints(house) == []


def test_the_dashboard_is_as_it_is_generated() -> None:
    assert (ROOT / DASHBOARD).read_text("utf-8") == dashboard.make_dashboard(), "run make generate"


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (ALERTS, "        for: 1d\n", "", "EvenkeelGroupPaused: it has no `for`"),
        (ALERTS, "severity: info", "severity: page", "EvenkeelGroupUneven: its severity is none"),
        (ALERTS, "          summary: No Evenkeel", "          text: No", "it has no summary"),
        (ALERTS, "runbooks/evenkeel-no-leader/", "https://it/", "its runbook_url is not runbooks/"),
        (ALERTS, "alert: EvenkeelNoLeader", "alert: NoLeader", "does not begin with Evenkeel"),
        (ALERTS, "alert: EvenkeelNoLeader", "alert: EvenkeelNobody", "no docs/runbooks/evenkeel-n"),
        (NO_LEADER, "# EvenkeelNoLeader", "# No leader", "does not begin with # EvenkeelNoLeader"),
        (TESTS / "days.yaml", "EvenkeelGroupPaused", "EvenkeelX", "no test lets it fire"),
        (TESTS / "days.yaml", "eval_time: 26h", "exp_alerts: []", "when it does not fire"),
        (DASHBOARD, '"id": 2,', '"id": 1,', "two panels of one id"),
        (DASHBOARD, '"x": 4,', '"x": 0,', "covers 'Groups'"),
        (DASHBOARD, '"x": 20,', '"x": 21,', "is beyond the edge"),
        (DASHBOARD, '"uid": "${datasource}"', '"uid": "mine"', "asks the data source 'mine'"),
        (DASHBOARD, "[$__range]", "[$__span]", "has an unknown variable"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_complained_about(
    house: Path, file: Path, old: str, new: str, complaint: str
) -> None:
    text = (house / file).read_text("utf-8")
    assert old in text
    (house / file).write_text(text.replace(old, new))
    assert [line for line in complaints(house) if complaint in line]


def test_a_page_of_no_alert_is_complained_about(house: Path) -> None:
    (house / PAGES / "evenkeel-other.md").write_text("# EvenkeelOther\n")
    assert complaints(house) == ["docs/runbooks/evenkeel-other.md describes no alert"]


def test_where_there_is_no_promtool_it_is_said_loudly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(package: str, path: str) -> Path:
        raise debian.NoDebianError(f"{package} is not here")

    monkeypatch.setattr(debian, "find_program", none)
    assert rule_checks.main() == 0
    assert "SKIPPED WHAT PROMTOOL CHECKS: prometheus is not here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (ALERTS, "absent(", "absent(("),
        (ALERTS, "(evenkeel_operator_leader) == 0", "(evenkeel_operator_leader) == 2"),
        (DASHBOARD, "count by (version) (", "count by (version) (("),
    ],
    ids=["a rule that does not parse", "a rule that its tests refute", "a broken query"],
)
def test_what_promtool_finds_is_complained_about(
    house: Path, file: Path, old: str, new: str
) -> None:
    try:
        promtool = debian.find_program(*rule_checks.PROMTOOL)
    except (process.SandboxError, jars.JarsError) as error:
        pytest.skip(f"NO PROMTOOL: {error}")
    text = (house / file).read_text("utf-8")
    assert old in text
    (house / file).write_text(text.replace(old, new))
    assert list(rule_checks.of_promtool(house, promtool))
