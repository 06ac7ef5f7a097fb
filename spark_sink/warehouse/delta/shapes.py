"""The shape that a Delta table has, by its log."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from spark_sink.errors import ForeignTable
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.sql.statements import shape_of


def shape_at(
    path: str,
    name: tuple[str, str],
    properties: Mapping[str, str],
    schema: StructType,
    comment: str = "",
) -> Shape:
    """The shape in a table's properties, schema and comment. Raises ForeignTable."""
    mapped = properties.get("delta.columnMapping.mode", "none") != "none"
    found = shape_of(name, properties, schema, comment=comment, mapped=mapped)
    if found is None:
        raise ForeignTable(path, advice="Move it away; the sink creates its tables itself")
    return found
