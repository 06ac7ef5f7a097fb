"""The judge's reading of mappings: as stated by hand, and as the product reads the same texts."""

from __future__ import annotations

from decimal import Decimal

import pytest

from demo.platform.documents import Documents
from demo.platform.shards import FIRST, SECOND, SHARDS
from tables.rules.mapping.forms import from_documents, from_yaml
from tables.rules.mapping.mapping import Mapping

PAID = {"id": 1, "status": "paid", "total": Decimal(5)}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Documents.of_roma(FIRST), from_documents(FIRST)),
        (Documents.of_yaml(SECOND), from_yaml(SECOND)),
    ],
)
def test_the_judge_and_the_product_read_the_demos_documents_alike(
    ours: Documents, theirs: Mapping
) -> None:
    for shard in (one for numbers in SHARDS.values() for one in numbers):
        for table in (f"orders_{shard}", "items"):
            found, mapped = ours.rule(f"trade_{shard}", table), theirs.of((f"trade_{shard}", table))
            assert mapped is not None
            assert found.logical == ".".join(mapped.logical)
            assert found.topic == mapped.topic
            assert sorted(found.tags) == sorted((one.name, one.column) for one in mapped.tags)
            assert (found.least is not None) == bool(mapped.rules.row_filter)


def test_a_tag_of_a_field_is_on_updates_that_change_it() -> None:
    rule = Documents.of_yaml(SECOND).rule("trade_3", "orders_3")
    assert rule.all_tags == ("order", "paid")
    assert rule.tags_of(PAID, PAID | {"status": "sent"}) == ("order", "paid")
    assert rule.tags_of(PAID, PAID | {"total": Decimal(6)}) == ("order",)
    assert rule.has(PAID)
    assert not rule.has(PAID | {"total": Decimal(0)})
