"""The shape that a Delta table has, by its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql.types import StructType

from spark_sink.errors import ForeignTable
from spark_sink.warehouse.common.statements import shape_of
from spark_sink.warehouse.shape import Shape

_ADVICE: Final = "Move it away; the sink creates its tables itself"
_OF_A_CREATION: Final = re.compile(r"_delta_log|\.part-.*|part-\d{5}-[-0-9a-f]{36}\S*\.parquet")
"""What an interrupted creation leaves in its folder: files with rows, but no commit of them.

A folder of Parquet files that another job has written has a `_SUCCESS`, too.
"""


def refuse_foreign(path: str, names: Iterable[str]) -> None:
    """Raise ForeignTable if a folder that is no table has more than an interrupted creation leaves."""
    if foreign := sorted(name for name in names if not _OF_A_CREATION.fullmatch(name)):
        raise ForeignTable(f"{path} has {foreign[0]}", advice=_ADVICE)


def shape_at(
    path: str,
    name: tuple[str, str],
    properties: Mapping[str, str],
    schema: StructType,
    comment: str = "",
) -> Shape:
    """The shape in a table's properties, schema and comment. Raise ForeignTable."""
    mapped = properties.get("delta.columnMapping.mode", "none") != "none"
    found = shape_of(name, properties, schema, comment=comment, mapped=mapped)
    if found is None:
        raise ForeignTable(path, advice=_ADVICE)
    return found
