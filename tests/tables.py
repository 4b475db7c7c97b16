"""Real tables of Delta Lake and Iceberg, for tests that write into them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from spark_jobs.pipeline.flow.sinks.delta import DeltaPlace
from spark_jobs.pipeline.flow.sinks.iceberg import IcebergPlace
from spark_jobs.pipeline.flow.sinks.tables import TablePlace


@dataclass(frozen=True)
class LakeTable:
    """Where a table is, and how a program other than a flow uses it."""

    place: TablePlace
    read: Callable[[], pa.Table]
    add: Callable[[pa.Table], None]
    """Append rows, with new columns."""


def make_delta(folder: Path) -> LakeTable:
    path = str(folder / "orders")

    def add(rows: pa.Table) -> None:
        write_deltalake(path, rows, mode="append", schema_mode="merge")

    return LakeTable(DeltaPlace(path, {}), lambda: DeltaTable(path).to_pyarrow_table(), add)


def make_iceberg(folder: Path) -> LakeTable:
    options = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/lake",
    }
    catalog = load_catalog("lake", **options)
    catalog.create_namespace("shop")
    name = "shop.orders"

    def find() -> Any:
        return catalog.load_table(name)

    def add(rows: pa.Table) -> None:
        table = find()
        with table.update_schema() as change:
            change.union_by_name(rows.schema)
        table.append(rows)

    return LakeTable(IcebergPlace(f"lake.{name}", options), lambda: find().scan().to_arrow(), add)


LAKE_TABLES = {"delta": make_delta, "iceberg": make_iceberg}
