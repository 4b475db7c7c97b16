"""
Converts rows to the columns of a table without any loss, or refuses the rows.

A cast of Arrow can lose data: it drops fields that a struct lacks, rounds numbers, and truncates
times. So this module compares the types first. It gives a value another type only if the value
stays the same.
"""

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
from pyarrow import types

from spark_jobs.pipeline.flow.sinks.kinds import RowsRefusedError, refuse_rows

SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
"""By unsigned type: a signed type for all its values, because tables have no unsigned types."""
_NUMBERS = (types.is_integer, types.is_floating, types.is_decimal)
_DECIMALS = (types.is_decimal,)
_DATES = (types.is_date,)
_TEXTS = (
    types.is_string, types.is_large_string, types.is_string_view,
    types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary,
)  # fmt: skip
_LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list)


def fit(rows: pa.Table, schema: pa.Schema, computed: Collection[str] = ()) -> pa.Table:
    """
    Convert rows to the columns of a table.

    If the rows lack a column, add it with null values. If the table computes it, leave it out.
    """
    if unknown := sorted({*rows.column_names} - {*schema.names}):
        raise RowsRefusedError(f"it has no column {', '.join(unknown)}")
    kinds = [each for each in schema if each.name in rows.column_names or each.name not in computed]
    columns = []
    for kind in kinds:
        if kind.name in rows.column_names:
            column = rows[kind.name]
            _check(kind.name, column.type, kind.type)
        else:
            column = pa.nulls(rows.num_rows, kind.type)
        columns.append(column)
    names = [kind.name for kind in kinds]
    with refuse_rows():
        return pa.table(columns, names=names).cast(pa.schema(kinds))


def plan_columns(schema: pa.Schema) -> pa.Schema:
    """Plan the columns of a table for such rows. Raise `ValueError` if a type is not known yet."""
    return pa.schema([pa.field(each.name, _plan(each.name, each.type)) for each in schema])


def _check(name: str, given: pa.DataType, wanted: pa.DataType) -> None:
    """Refuse a type whose values could change without an error."""
    if types.is_dictionary(given):
        _check(name, given.value_type, wanted)
    elif _is(given, _LISTS) and _is(wanted, _LISTS):
        _check(f"{name}[]", given.value_type, wanted.value_type)
    elif types.is_map(given) and types.is_map(wanted):
        _check(f"{name}[key]", given.key_type, wanted.key_type)
        _check(f"{name}[]", given.item_type, wanted.item_type)
    elif types.is_struct(given) and types.is_struct(wanted):
        fields = {each.name: each.type for each in wanted}
        for each in given:
            if each.name not in fields:
                raise RowsRefusedError(f"it has no column {name}.{each.name}")
            _check(f"{name}.{each.name}", each.type, fields[each.name])
    elif not (given == wanted or types.is_null(given) or _holds(given, wanted)):
        raise RowsRefusedError(f"column {name} is {wanted}, and its values are {given}")


def _holds(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast between these types either keeps a value or raises an error."""
    if types.is_timestamp(given):
        return bool(types.is_timestamp(wanted) and (given.tz is None) == (wanted.tz is None))
    if types.is_floating(given):
        return bool(types.is_floating(wanted) and given.bit_width <= wanted.bit_width)
    if types.is_integer(given):
        return _is(wanted, _NUMBERS)
    return any(_is(given, kinds) and _is(wanted, kinds) for kinds in (_TEXTS, _DECIMALS, _DATES))


def _is(kind: pa.DataType, kinds: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    return any(is_kind(kind) for is_kind in kinds)


def _plan(name: str, kind: pa.DataType) -> pa.DataType:
    if types.is_null(kind):
        raise ValueError(f"no row has a value of {name} yet, so its type is not known")
    if types.is_dictionary(kind):
        return _plan(name, kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if _is(kind, _LISTS):
        return pa.list_(_plan(f"{name}[]", kind.value_type))
    if types.is_map(kind):
        return pa.map_(_plan(f"{name}[key]", kind.key_type), _plan(f"{name}[]", kind.item_type))
    if types.is_struct(kind):
        return pa.struct(
            [pa.field(each.name, _plan(f"{name}.{each.name}", each.type)) for each in kind]
        )
    return SIGNED.get(kind, kind)
