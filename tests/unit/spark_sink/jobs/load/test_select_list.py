"""What is selected of a column becomes the value that the topic's text becomes."""

from __future__ import annotations

import random
import struct

import pytest
from pyspark.sql import SparkSession

from spark_sink.jobs.load.loader import selected
from tests.unit.spark_sink.conftest import spark

__all__ = ["spark"]
pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
LIMITS = (0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF)
"""Zeros, the least and the greatest subnormal, the least normal, the greatest numbers."""


def test_a_vector_has_the_floats_of_its_bytes(spark: SparkSession) -> None:
    chance = random.Random(5)
    bits = [chance.randrange(2**32) for _ in range(3000)]
    finite = [one for one in (*LIMITS, *bits) if (one >> 23) & 255 != 255]
    held = struct.pack(f"<{len(finite)}I", *finite)
    frame = spark.createDataFrame([(1, held), (2, None), (3, held[:4])], "id int, b binary")
    column = selected(f"vector({len(finite)})")
    rows = frame.selectExpr(
        "id", f"CAST({column.typed.format(text='b')} AS array<float>) AS v"
    ).collect()
    found = {row.id: row.v for row in rows}
    assert struct.pack(f"<{len(finite)}f", *found[1]) == held
    assert found[2] is None
    assert struct.pack("<f", *found[3]) == held[:4]
