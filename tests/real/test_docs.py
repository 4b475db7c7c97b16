"""The programs of docs/rocketmq-client.md run as they stand."""

import re
from pathlib import Path

import pytest

from sandbox.rocketmq import RocketMq

GUIDE = Path(__file__).parents[2] / "docs" / "rocketmq-client.md"


def test_the_guides_program_reads_back_what_it_sent(
    rocketmq: RocketMq, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    rocketmq.create_topics({"orders": 4, "orders-too": 1})
    exec(compile(program, str(GUIDE), "exec"), {"NAME_SERVER": rocketmq.name_server.address})
    lines = capsys.readouterr().out.splitlines()
    bodies = {line.split(" ", 3)[3] for line in lines if line.startswith("broker")}
    assert {f"b'order {number}'" for number in range(10)} == bodies
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("orders@")) == 0
