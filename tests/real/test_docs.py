"""The programs of docs/rocketmq-client.md run unchanged, one after the other."""

import re
from pathlib import Path

import pytest

from sandbox.rocketmq import RocketMq

GUIDE = Path(__file__).parents[2] / "docs" / "rocketmq-client.md"


def test_the_guides_programs_read_back_what_they_sent(
    rocketmq: RocketMq, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq.name_server.address)
    programs = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    shown = []
    for program in programs:
        exec(compile(program, str(GUIDE), "exec"), {})
        shown.append(capsys.readouterr().out.splitlines())
    threads, by_asyncio = shown
    bodies = {line.split(" ", 3)[3] for line in threads if line.startswith("broker")}
    assert {f"b'order {number}'" for number in range(10)} == bodies
    assert sum(int(line.rsplit(" ", 1)[1]) for line in threads if line.startswith("orders@")) == 0
    assert by_asyncio == ["[b'by asyncio']"]
