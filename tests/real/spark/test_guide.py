"""The programs of docs/spark.md run unchanged."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from mq_client import blocking
from sandbox.rocketmq import RocketMq

GUIDE = Path(__file__).parents[3] / "docs" / "spark.md"


def test_the_guides_programs_send_stream_and_read(
    spark: SparkSession, rocketmq: RocketMq, client: blocking.Client, tmp_path: Path
) -> None:
    programs = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert len(programs) == 4
    rocketmq.create_topics({"orders": 2, "receipts": 1})
    # The group of the stream has no offsets, so the stream starts at the earliest offsets.
    names = {
        "spark": spark,
        "NAME_SERVER": rocketmq.name_server.address,
        "CHECKPOINT": str(tmp_path),
    }
    for program in programs:
        exec(compile(program, str(GUIDE), "exec"), names)
    receipts = names["receipts"].collect()  # type: ignore[attr-defined]  # made by the guide
    assert sorted(bytes(row.body) for row in receipts) == [b"order 1", b"order 3"]
