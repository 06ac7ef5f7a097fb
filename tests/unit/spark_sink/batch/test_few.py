"""The batches small enough for the driver."""

import pytest

from spark_sink.batch.table_merge import few


@pytest.mark.parametrize(
    ("rows", "size", "held"),
    [(20_000, 16 * 1024**2, True), (20_001, 1, False), (1, 16 * 1024**2 + 1, False)],
)
def test_neither_many_rows_nor_a_few_large_ones_are_held_by_the_driver(
    rows: int, size: int, held: bool
) -> None:
    assert few(rows=rows, size=size) is held
