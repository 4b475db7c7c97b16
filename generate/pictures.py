"""Draws the pictures of the documentation."""

from collections.abc import Callable
from pathlib import Path

from generate import starting, strategies
from generate.drawing import Drawing
from lb_core import plan

FOLDER = Path("docs", "pictures")


def draw_way() -> str:
    """Draw how the operator makes an assignment from objects, and how a job follows it."""
    it = Drawing(860, 400)
    it.box(20, 30, 170, 60, "object", "Topic", "which queues exist")
    it.box(20, 120, 170, 60, "object", "ConsumerGroup", "spec: who reads, and how")
    it.box(20, 210, 170, 60, "theirs", "pods", "or a static list")
    it.box(
        270,
        100,
        200,
        100,
        "ours",
        "operator",
        "observes, plans, publishes",
        "one leads, by a Lease",
    )
    it.arrow((190, 60), (240, 60), (240, 130), (268, 130))
    it.arrow((190, 150), (268, 150))
    it.arrow((190, 240), (240, 240), (240, 170), (268, 170))
    it.box(270, 20, 200, 44, "theirs", "RocketMQ name server")
    it.arrow((370, 64), (370, 98))
    it.write(380, 86, "routes", "small")
    it.box(
        570,
        100,
        270,
        100,
        "object",
        "ConsumerGroup",
        "status: epoch, who reads what,",
        "moves, conditions",
    )
    it.arrow((470, 150), (568, 150))
    it.write(476, 142, "assignment", "small")
    it.box(570, 250, 270, 50, "ours", "driver of the job", "follows each epoch, batch by batch")
    it.arrow((705, 200), (705, 248))
    it.write(715, 228, "watched", "small")
    it.arrow((570, 275), (370, 275), (370, 202), dashed=True)
    it.write(380, 266, "its report: epoch, slots, errors", "small")
    for number in range(3):
        it.box(570 + 95 * number, 335, 80, 45, "ours", f"slot {number}", "an executor")
        it.arrow((610 + 95 * number, 300), (610 + 95 * number, 333))
    it.box(270, 335, 200, 45, "theirs", "RocketMQ brokers")
    it.arrow((470, 358), (568, 358))
    it.write(476, 350, "its queues", "small")
    it.box(20, 335, 170, 45, "theirs", "Prometheus")
    it.arrow((330, 200), (330, 310), (105, 310), (105, 333), dashed=True)
    it.write(115, 304, "metrics, of drivers too", "small")
    return it.svg()


def draw_slots() -> str:
    """Draw how a slot outlives its executors."""
    it = Drawing(860, 250)
    for left, title, fillers in (
        (20, "before", ("executor 0", "executor 1")),
        (310, "executor 1 is killed", ("executor 0", "")),
        (600, "its replacement is warm", ("executor 0", "executor 3")),
    ):
        it.write(left + 120, 28, title, "title mid")
        for number, filler in enumerate(fillers):
            y = 45 + 95 * number
            it.box(
                left,
                y,
                110,
                76,
                "object",
                f"billing-{number}",
                "slot",
                f"queues {4 * number}-{4 * number + 3}",
            )
            kind = "ours" if filler else "gone"
            it.box(
                left + 135,
                y + 13,
                105,
                50,
                kind,
                filler or "nobody",
                *(() if filler else ("others read",)),
            )
            it.arrow((left + 135, y + 38), (left + 112, y + 38), dashed=not filler)
    it.arrow((263, 88), (305, 88))
    it.arrow((553, 88), (595, 88))
    it.write(430, 240, "status.assignments does not change: nothing moves", "small mid")
    return it.svg()


def batch() -> str:
    """Draw the steps of a batch, and what happens after a failure."""
    it = Drawing(860, 215)
    steps = (
        ("1 plan", "ends of all queues", "theirs"),
        ("2 journal", "ranges, epoch, filter", "object"),
        ("3 pull", "each slot its own", "ours"),
        ("4 write", "transform, sink", "ours"),
        ("5 commit", "in the checkpoint", "object"),
        ("6 report", "offsets to brokers", "theirs"),
    )
    for number, (title, line, kind) in enumerate(steps):
        x = 15 + 140 * number
        it.box(x, 30, 128, 62, kind, title, line)
        if number:
            it.arrow((x - 12, 61), (x - 1, 61))
    it.arrow((650, 92), (650, 130), (215, 130), (215, 95), dashed=True)
    it.write(
        432,
        147,
        "failure between 2 and 5: the same ranges again, with the same filter",
        "small mid",
    )
    it.arrow((780, 92), (780, 175), (80, 175), (80, 95), dashed=True)
    it.write(432, 194, "the next batch follows the newest epoch", "small mid")
    return it.svg()


def joining() -> str:
    """Draw which queues move when a consumer joins the first group of docs/strategies.md."""
    before = strategies.make_group(3, 1, 16)
    after = strategies.join_one(before)
    names = [member.id for member in after.members]
    it = Drawing(860, 330)
    it.write(170, 28, "three consumers", "title")
    it.write(520, 28, "a fourth consumer joins", "title")
    for row, way in enumerate(strategies.EVERYWHERE[:4]):
        first = plan.plan(None, before.queues, before.members, way.policy)
        second = plan.plan(first, after.queues, after.members, way.policy)
        y = 45 + 66 * row
        it.write(15, y + 16, way.name, "title")
        for place, queue in enumerate(each for run in before.queues for each in run):
            old, new = first.assignment.find_owner(queue), second.assignment.find_owner(queue)
            assert old is not None
            assert new is not None
            it.square(170 + 20 * place, y, 17, names.index(old))
            it.square(520 + 20 * place, y, 17, names.index(new), is_moved=old != new)
        told = f"{second.moved} queues move; {strategies.format_loads(second)} queues each"
        it.write(520, y + 38, told, "small")
    it.write(170, 318, "Each colour is a consumer. A queue with a thick edge has moved.", "small")
    return it.svg()


PICTURES: dict[str, Callable[[], str]] = {
    "way.svg": draw_way,
    "slots.svg": draw_slots,
    "batch.svg": batch,
    "joining.svg": joining,
    "starting.svg": starting.draw_starting,
}


def write(root: Path) -> None:
    """Draw all pictures."""
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(), encoding="utf-8")
