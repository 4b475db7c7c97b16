"""The settings that the engine gets for a group's strategy."""

from typing import Any, get_args

import msgspec
import pytest

from contract.kinds.groups import StrategyChoice, StrategyName
from evenkeel import planning
from lb_core import strategies
from lb_core.model import Queue
from tests.deciding import group

OWNED = [{"topic": "orders", "broker": "broker-a", "ids": "0-1"}]


def config(**strategy: Any) -> dict[str, object]:
    """Read the settings that the engine gets for this strategy."""
    return dict(planning.build_policy(group(strategy=strategy).spec.strategy).config)


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        ({"name": "ConsistentHash", "consistentHash": {"virtualNodes": 3}}, {"virtualNodes": 3}),
        ({"name": "ConsistentHash", "consistentHash": {}}, {"virtualNodes": 10}),
        ({"name": "ConsistentHash"}, {}),
        ({"name": "MachineRoom", "machineRoom": {"rooms": ["r1"]}}, {"rooms": ["r1"]}),
        ({"name": "MachineRoomNearby"}, {"inner": "AVG"}),
        (
            {"name": "MachineRoomNearby", "machineRoomNearby": {"inner": "ConsistentHash"}},
            {"inner": "CONSISTENT_HASH"},
        ),
        (
            {"name": "Config", "config": {"queues": {"a": OWNED}}},
            {"queues": {"a": [Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)]}},
        ),
        ({"name": "Sticky", "sticky": {"zones": "Require"}}, {}),
    ],
)
def test_a_strategys_settings_reach_the_engine_under_its_names(
    strategy: dict[str, Any], settings: dict[str, object]
) -> None:
    assert config(**strategy) == settings


def test_the_part_of_a_strategy_has_its_name_and_the_names_of_its_settings() -> None:
    parts = {each.name: each.type for each in msgspec.structs.fields(StrategyChoice)}
    for choice in StrategyName:
        if (found := parts.pop(choice.name.lower(), None)) is not None:
            (part,) = (each for each in get_args(found) if each is not type(None))
            fields = {each.encode_name for each in msgspec.structs.fields(part)}
            assert fields <= set(strategies.find_by_title(choice.value).settings), choice
    assert parts.keys() == {"name", "pinned_consumers"}
