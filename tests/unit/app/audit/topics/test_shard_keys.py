"""Keys that begin with the real table, as the audit expects them of a mapped table."""

from __future__ import annotations

import pytest

from app.audit.topics.record_comparison import Columns, key_fault
from connectors.kafka.reading import StoredRecord, partition_of

SHARD = ("m1", "shop_1", "orders")
WITH_SHARD = b'{"__shard":["m1","shop_1","orders"],"id":7}'


@pytest.mark.parametrize(
    ("key", "shard", "fault"),
    [
        (WITH_SHARD, SHARD, None),
        (b'{"id":7}', None, None),
        (b'{"id":7}', SHARD, "its key is not its row's"),
        (WITH_SHARD, None, "its key is not its row's"),
        (WITH_SHARD, ("m2", "shop_1", "orders"), "its key is not its row's"),
    ],
)
def test_a_key_has_the_real_table_if_and_only_if_its_route_says_so(
    key: bytes, shard: tuple[str, str, str] | None, fault: str | None
) -> None:
    columns = Columns(names=("id",), key=("id",), same=(None,), kinds=("int",))
    value = {"before": None, "after": {"id": 7}, "op": "c"}
    record = StoredRecord(key, b"", 0)
    target = (partition_of(key, 4), 4)
    assert key_fault(columns, value, record, target, shard=shard) == fault
