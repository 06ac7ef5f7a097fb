"""Records that cannot be used: their positions and reasons, and a batch without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame, Row

from spark_sink.errors import MalformedRecord, UnsupportedPartialImage
from spark_sink.source.positions import At, any_of

MOST: Final = 10_000
"""The most records that are found at a time."""
_PLACE: Final = re.compile(r"topic (\S+), partition (\d+), offset (\d+)")

Reasons = Mapping[At, tuple[str, str]]
"""The class of the error and the reason of each record."""


def positions_of(fault: MalformedRecord | UnsupportedPartialImage) -> list[At]:
    """Return the positions of the records that an error names."""
    if isinstance(fault, UnsupportedPartialImage):
        return list(fault.places)
    if fault.reasons:
        return list(fault.reasons)
    found = _PLACE.search(fault.where)
    return [(found[1], int(found[2]), int(found[3]))] if found else []


def at_of(row: Row) -> At:
    """Return the position of a row with the columns topic, partition and offset."""
    return row.topic, row.partition, row.offset


def outside(batch: DataFrame, places: Iterable[At]) -> DataFrame:
    """Return the batch without these records."""
    return batch.where(f"NOT {any_of(places)}")
