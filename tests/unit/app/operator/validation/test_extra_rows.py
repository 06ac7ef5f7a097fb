"""Keys of extra rows become SQL of the source's own key, or the reason why they cannot be removed."""

from __future__ import annotations

import pytest

from app.operator.validation.extra_rows import ExtraRow, ExtraRows
from connectors.mysql.select.record_keys import RecordKeys
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import MaskingKeys
from tables.rules.routes.routes import Routes
from tests.unit.connectors.mysql.select.tables import CHARSETS, MYSQL, NAME, column, table

TABLE = table(
    column("int", "Id", nullable=False),
    column("varchar(9)", "name", nullable=False),
    column("int", "price"),
    key="name Id",
)


def extra(rules: str | None = None) -> ExtraRows:
    mapping = None
    if rules is not None:
        mapping = from_yaml(f"tables: {{trade.o: {{from: ['shop.orders'], topic: t, {rules}}}}}")
    keys = MaskingKeys((("k", bytes(range(32))),))
    routes = Routes(prefix="aq", destination="shop", mapping=mapping, keys=keys)
    route = routes.of(NAME)
    assert route is not None
    return ExtraRows(route, TABLE, RecordKeys(NAME, TABLE, CHARSETS, server=MYSQL))


def test_keys_are_in_the_order_of_the_tables_own() -> None:
    found, obstacles = extra().removable([b'{"name":"a","Id":1}', '{"name":"é","Id":2}'.encode()])
    assert found == [
        ExtraRow('{"name":"a","Id":1}', ("_utf8mb4 X'61'", "1")),
        ExtraRow('{"name":"é","Id":2}', ("_utf8mb4 X'c3a9'", "2")),
    ]
    assert obstacles == set()


def test_the_real_table_is_no_column_and_names_are_the_tables_own() -> None:
    rules = "shard_in_key: always, key: [Id, name], column_actions: {ID: {rename: number}}"
    key = '{"__shard":["shop","shop","orders"],"number":1,"name":"a"}'
    found, obstacles = extra(rules).removable([key.encode()])
    assert (found, obstacles) == ([ExtraRow(key, ("_utf8mb4 X'61'", "1"))], set())


@pytest.mark.parametrize(
    ("rules", "key", "why"),
    [
        ("shard_in_key: never", b'{"name":"a","Id":1}', "do not name the real table"),
        ("partition_by: [price]", b'{"name":"a","Id":1}', "partition_by has columns"),
        ("column_actions: {NAME: {hmac: k}}", b'{"name":"a","Id":1}', "its key is masked"),
        ("partitions: 2", b'{"name":"a"}', "its key had other columns"),
        ("partitions: 2", b'{"name":"a","Id":1,"price":2}', "its key had other columns"),
        ("partitions: 2", b'{"name":7,"Id":1}', "a value of column 'name'"),
    ],
)
def test_a_row_that_cannot_be_removed_stays_with_the_reason(
    rules: str, key: bytes, why: str
) -> None:
    found, obstacles = extra(rules).removable([key])
    assert found == []
    assert [why in one for one in obstacles] == [True]


def test_one_that_cannot_does_not_keep_the_others() -> None:
    found, obstacles = extra().removable([b'{"name":"a"}', b'{"name":"a","Id":1}'])
    assert (len(found), len(obstacles)) == (1, 1)


def test_partitions_may_be_chosen_by_the_key() -> None:
    assert len(extra("partition_by: [ID]").removable([b'{"name":"a","Id":1}'])[0]) == 1
