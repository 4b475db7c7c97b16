"""All steps, in order: groups with jobs, with members, by message, then the uninstallation."""

from sandbox.node.shop import OPERATORS, RELEASE
from tests.e2e import job_story, members_story, messages_story
from tests.e2e.checked import CheckedShop
from tests.e2e.steps import Steps

STEPS = [*job_story.STEPS, *members_story.STEPS, *messages_story.STEPS]
step = Steps(STEPS)


@step("`helm uninstall`", "no pod of the operator is left")
def uninstall(it: CheckedShop) -> None:
    it.helm("uninstall", RELEASE, "--wait")
    assert not it.list_pods(OPERATORS, RELEASE)
