"""
Break each strategy by one line, in a copy, and see that its tests notice.

`.venv/bin/python -m tests.mutations` prints a line for each and exits 1 if one went unnoticed. The
comparison with RocketMQ's classes is left out: the named tests have to notice without Java.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ["lb_core", "tests", "pyproject.toml"]
NOTICED_BY = ["tests/unit/test_strategies.py", "tests/golden"]

AVG = "lb_core/strategies/averagely.py"
CIRCLE = "lb_core/strategies/averagely_by_circle.py"
HASH = "lb_core/strategies/consistent_hash.py"
ROOM = "lb_core/strategies/machine_room.py"
NEARBY = "lb_core/strategies/machine_room_nearby.py"
CONFIG = "lb_core/strategies/config.py"
BROADCASTING = "lb_core/strategies/broadcasting.py"
COMMON = "lb_core/strategies/common.py"
REGISTRY = "lb_core/strategies/registry.py"
POP = "lb_core/pop.py"

MUTATIONS = [  # file, the code as it is, the code once broken
    (AVG, "min(position, extra)", "extra"),
    (AVG, "(position < extra)", "(position <= extra)"),
    (AVG, "consumers.index(caller)", "len(consumers) - 1 - consumers[::-1].index(caller)"),
    (CIRCLE, "queues[position::count]", "queues[position : position + count]"),
    (CIRCLE, "consumers.index(caller) :: len(consumers)", "consumers.index(caller) :: 2"),
    (HASH, "[:4]", "[-4:]"),
    (HASH, '"big"', '"little"'),
    (HASH, "brokerName=", "broker="),
    (HASH, "DEFAULT_NODES = 10", "DEFAULT_NODES = 11"),
    (HASH, "range(first, first + nodes)", "range(nodes)"),
    (HASH, "range(first, first + nodes)", "range(first + 1, first + 1 + nodes)"),
    (HASH, "standing[ring[point]] -= 1", "pass"),
    (HASH, "ring[point] = consumer", "ring.setdefault(point, consumer)"),
    (HASH, "owners + owners[:1]", "owners + owners[-1:]"),
    (HASH, "bisect.bisect_left", "bisect.bisect_right"),
    (HASH, "if owners[_next_point(places, queue)] == caller",
     "if owners[_next_point(places, queue) - 1] == caller"),
    (HASH, 'joined.encode("utf-8", "replace")', 'joined.encode("utf-8", "ignore")'),
    (HASH, "_as_java_writes(key)", 'key.encode("utf-8", "replace")'),
    (HASH, "    if places:\n", "    if True:\n"),
    (HASH, "if nodes < 0:", "if nodes < 1:"),
    (HASH, "nodes * len(consumers) > MOST_POINTS", "nodes > MOST_POINTS"),
    (ROOM, 'broker.rstrip("@").split("@")', 'broker.split("@")'),
    (ROOM, "len(parts) == 2", "len(parts) >= 2"),
    (ROOM, "return parts[0] if", "return parts[1] if"),
    (ROOM, "if rooms is None:", "if False:"),
    (ROOM, "tail = len(inside) - extra + position", "tail = len(inside) - 1 - position"),
    (ROOM, "inside[tail : tail + 1]", "inside[tail:]"),
    (ROOM, "divmod(len(inside)", "divmod(len(queues)"),
    (NEARBY, "model.sorted_texts(", "sorted("),
    (NEARBY, "return shared + model", "return model"),
    (NEARBY, "if room in consumers_in and room != own_room:", "if room != own_room:"),
    (NEARBY, "owned[consumer] += dealt", "owned[consumer] = dealt"),
    (NEARBY, "queue.zone if queue.zone is not None", "queue.zone if False"),
    (NEARBY, "zone if zone is not None else", "zone or"),
    (NEARBY, "        if not room:\n            raise errors.IllegalArgumentException(\n"
     '                f"Machine room is null for mq', "        if room is None:\n"
     "            raise errors.IllegalArgumentException(\n"
     '                f"Machine room is null for mq'),
    (NEARBY, "return room if dash else None", "return room"),
    (NEARBY, "config.is_null_for_one_of(consumers, settings)", "False"),
    (NEARBY, "    inner.check(settings)\n", ""),
    (NEARBY, "if name == NAME:", "if False:"),
    (NEARBY, 'errors.NullPointerException("alloc', 'errors.BadRequestError("alloc'),
    (CONFIG, "return _queues(own) if own is not None else None",
     "return _queues(own) if own is not None else []"),
    (CONFIG, "lists.get(caller) if", "lists.get(str(caller)) or [] if"),
    (CONFIG, "abs(number) <= model.MAX_QUEUE_ID", "number >= 0"),
    (CONFIG, "not isinstance(number, bool) and", ""),
    (BROADCASTING, "everything = list(queues or ())", "everything = list(queues or ())[:1]"),
    (BROADCASTING, "return list(queues or ())", "return list(queues or ())[1:]"),
    (COMMON, "positions.setdefault(consumer, position)", "positions[consumer] = position"),
    (COMMON, '    if consumers and "" in consumers:\n', "    if False:\n"),
    (COMMON, "    if not caller:\n", "    if caller is None:\n"),
    (COMMON, "return list(queues), consumers", "return queues, consumers"),
    (REGISTRY, "name == GROUP_WIDE or name in _built_in", "name in _built_in"),
    (REGISTRY, "function(queues, list(consumers), config)", "function(queues, consumers, config)"),
    (REGISTRY, "        if consumer not in owned:\n", "        if False:\n"),
    (POP, "share <= 0 or", "share < 0 or"),
    (POP, "share >= len(consumers) - 1", "share >= len(consumers)"),
    (POP, "len(queues) < len(consumers)", "len(queues) <= len(consumers)"),
    (POP, "position % len(queues)", "(position + 1) % len(queues)"),
    (POP, "circle[start : start + share + 1]", "circle[start : start + share]"),
    (POP, "queue.broker, ANY_QUEUE,", "queue.broker, queue.id,"),
    (POP, "one.isspace() and one not in _NOT_BLANK_IN_JAVA", "one.isspace()"),
    (POP, "len(queues) * (share + 1) > MOST_ENTRIES", "False"),
]  # fmt: skip


def main() -> int:
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="evenkeel-mutations-") as scratch:
        copy = Path(scratch)
        copy_checkout(copy)
        if not tests_pass(copy):
            sys.stdout.write("the tests fail before anything is broken\n")
            return 1
        for file, before, after in MUTATIONS:
            noticed = is_noticed(copy / file, before, after, copy)
            unnoticed += not noticed
            verdict = "noticed  " if noticed else "UNNOTICED"
            sys.stdout.write(f"{verdict} {file}: {before!r} -> {after!r}\n")
    sys.stdout.write(f"{len(MUTATIONS)} tried, {unnoticed} unnoticed\n")
    return 1 if unnoticed else 0


def copy_checkout(place: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / name)


def is_noticed(file: Path, before: str, after: str, copy: Path) -> bool:
    """Whether the tests fail with this line broken. The line is mended afterwards."""
    whole = file.read_text(encoding="utf-8")
    if before not in whole:
        raise LookupError(f"{file.name} has no {before!r} any more: bring the list up to date")
    file.write_text(whole.replace(before, after, 1), encoding="utf-8")
    try:
        return not tests_pass(copy)
    finally:
        file.write_text(whole, encoding="utf-8")


def tests_pass(copy: Path) -> bool:
    # Without bytecode: a line broken and mended within one second would leave a stale cache.
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *NOTICED_BY], cwd=copy, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
