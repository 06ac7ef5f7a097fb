"""The integers of tagged GTIDs are read at any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.mysql.binlog.gtid_events import integer, signed


def written(value: int) -> bytes:
    """An unsigned integer, by the words of the library's readme."""
    size = next((n for n in range(1, 9) if value < 1 << 7 * n), 9)
    if size == 9:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << size | (1 << size - 1) - 1).to_bytes(size, "little")


@given(value=st.integers(0, (1 << 64) - 1), before=st.binary(max_size=3))
def test_an_integer_of_any_size_is_read(value: int, before: bytes) -> None:
    data = before + written(value)
    assert integer(data + b"\x55", len(before)) == (value, len(data))
    number = ~(value >> 1) if value & 1 else value >> 1
    assert signed(data, len(before)) == (number, len(data))
