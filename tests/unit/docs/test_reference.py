"""The reference agrees with the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from contract import exit_codes
from contract.conditions import ConditionReason, ConditionType
from contract.following import Denial, Refusal
from contract.kinds import groups
from evenkeel_cli import codes
from generate import alerts, pictures, reference, refusals, story, strategies
from lb_core import moves, reasons
from lb_core import strategies as engine
from mq_client import aio, blocking
from spark_jobs.pipeline import failures

ROOT = Path(__file__).parents[3]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def section(name: str, title: str) -> str:
    """Return a section of a page, without its subsections."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page(name), re.DOTALL | re.MULTILINE)
    assert found, f"{name} has no section {title}"
    return found[1]


@pytest.mark.parametrize("name", sorted(reference.PAGES))
def test_a_page_of_the_reference_follows_from_the_code(name: str) -> None:
    assert page(f"reference/{name}") == reference.PAGES[name](), "run `make generate`"


@pytest.mark.parametrize("name", sorted(pictures.PICTURES))
def test_a_picture_is_as_it_is_drawn(name: str) -> None:
    assert page(f"pictures/{name}") == pictures.PICTURES[name](), "run `make generate`"


MADE_IN_PART = [strategies, alerts, story, refusals]


@pytest.mark.parametrize("module", MADE_IN_PART, ids=lambda module: module.__name__)
def test_a_table_within_a_page_follows_from_the_code(module: ModuleType, tmp_path: Path) -> None:
    for needed in (module.PAGE, alerts.RULES):
        copy = tmp_path / needed
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / needed).read_bytes())
    module.write(tmp_path)
    made = (tmp_path / module.PAGE).read_text("utf-8")
    assert (ROOT / module.PAGE).read_text("utf-8") == made, "run `make generate`"


def trees(folder: Path, root: Path) -> Iterator[tuple[str, ast.Module]]:
    """Parse all modules of a folder, by their names."""
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        yield name, ast.parse(path.read_text("utf-8"))


def test_every_reason_of_a_condition_is_explained_and_no_other() -> None:
    rows = re.findall(r"^\|(.*)\|$", section("operator.md", "Conditions"), re.MULTILINE)
    named = {word for row in rows for word in re.findall(r"`([A-Z]\w+)`", row)}
    reasons, types = set(ConditionReason), set(ConditionType)
    assert (reasons | types) - named == set(), "not explained"
    assert named - reasons - types == set(), "explained, but nowhere in the code"


def test_every_reason_of_a_condition_is_given_somewhere_and_by_its_name() -> None:
    root, ours = ROOT / "operator", set(ConditionReason) - {"Running"}  # also a phase of pods
    nodes = [each for _, tree in trees(root / "evenkeel", root) for each in ast.walk(tree)]
    given = {ast.unparse(each).rpartition("ConditionReason.")[2] for each in nodes
             if isinstance(each, ast.Attribute)}  # fmt: skip
    assert set(ConditionReason.__members__) - given == set()
    spelt_out = {each.value for each in nodes if isinstance(each, ast.Constant)} & ours
    assert spelt_out <= {"Asked", "Ended", "Failed", "Starting"}, (
        "the contract has a name for this text"
    )


def test_alerts_select_reasons_that_there_are() -> None:
    rules = (ROOT / alerts.RULES).read_text("utf-8")
    selected = re.findall(r'(evenkeel_\w+){reason(?:=~|=|!=|!~)"([^"]+)"', rules)
    refused = "evenkeel_members_refused_requests_total"
    refusals, conditions = (
        {word for name, text in selected for word in text.split("|") if (name == refused) is wanted}
        for wanted in (True, False)
    )
    assert {"OtherDriver", "Starting"} <= conditions <= set(ConditionReason)
    assert {"Stale", "Forbidden"} <= refusals <= {each.value for each in (*Denial, *Refusal)}


def test_troubleshooting_names_reasons_that_there_are_and_errors_that_end_a_job() -> None:
    words = set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", page("troubleshooting.md")))
    ends = {word for word in words if word.endswith("Error")}
    assert {"DataLossError", "NotPermittedError"} <= ends
    for name in ends:
        found = failures.judge(f"Traceback (most recent call last):\n  x\nmq.{name}: it is so")
        assert found.cure is failures.Cure.USER, name
    explained = set(re.findall(r"`([A-Z]\w+)`", section("operator.md", "Conditions")))
    strategy_names = {str(each.value) for each in groups.StrategyName}
    assert words - ends - explained - strategy_names == set()


def test_a_consumer_group_can_choose_each_strategy_that_has_a_title() -> None:
    titles = {each.title for each in engine.list_built_in() if each.title}
    assert {each.value for each in groups.StrategyName} == titles


def test_every_reason_of_a_move_is_explained() -> None:
    shown = set(reasons.Reason) - {reasons.Reason.STRATEGY}
    explained = set(re.findall(r"`([a-z ]+)`", section("concepts.md", "Plans and epochs")))
    assert shown <= explained
    tree = ast.parse(Path(moves.__file__).read_text("utf-8"))
    texts = {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)}
    assert not texts & set(reasons.Reason), "a reason is spelt out beside the enum"


def test_every_method_of_the_client_is_listed_and_those_of_both_clients_are_apart() -> None:
    shared, title, only_blocking = page("reference/client.md").partition(
        "## Only in the blocking client"
    )
    in_both, in_one = (
        set(re.findall(r"^### (\w+)", part, re.M)) for part in (shared, only_blocking)
    )
    methods = {name for name in vars(blocking.Client) if not name.startswith("_")}
    assert title
    assert in_both | in_one == methods
    assert in_both <= set(vars(aio.Client))


def test_every_annotation_and_label_of_ours_is_explained() -> None:
    texts = {
        each.value
        for folder in ("contract", "evenkeel_cli", "operator/evenkeel", "spark_jobs")
        for _, tree in trees(ROOT / folder, ROOT)
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    used = {text for text in texts if re.fullmatch(r"evenkeel\.dev/[a-z-]+", text)}
    assert {"evenkeel.dev/paused", "evenkeel.dev/restart"} <= used
    named = section("reference/index.md", "Annotations and labels")
    assert used == set(re.findall(r"evenkeel\.dev/[a-z-]+", named))


def test_every_exit_code_is_explained() -> None:
    told = section("reference/index.md", "Exit codes")
    ours = set(re.findall(r"^\| `evenkeel[^|]*\| ([0-9]+) \|", told, re.MULTILINE))
    assert ours == {str(value) for name, value in vars(codes).items() if name.isupper()}
    theirs = re.search(r"^\| a job's driver \| ([0-9, ]+) \|", told, re.MULTILINE)
    assert theirs
    assert theirs[1].split(", ") == [
        str(each) for each in (exit_codes.DONE, exit_codes.TRY_AGAIN, exit_codes.PERMANENT)
    ]
