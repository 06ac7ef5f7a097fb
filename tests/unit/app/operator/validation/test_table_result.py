"""Differences are counted, and the first ones listed with their keys."""

from __future__ import annotations

import pytest

from app.operator.validate import Validation
from app.operator.validation import table_result
from app.operator.validation.table_result import ExtraRow, TableResult, removable_rows
from connectors.mysql.select.record_keys import RecordKeys
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import MaskingKeys
from tables.rules.routes.routes import Routes
from tests.unit.connectors.mysql.select.tables import CHARSETS, MYSQL, NAME, column, table
from wire.validation import Kind


def result(**more: object) -> TableResult:
    return TableResult(name=("shop", "t"), topic="aq.shop.t", **more)  # type: ignore[arg-type]


def test_a_table_is_one_line_and_its_differences_follow() -> None:
    found = result(rows=9, most_listed=2)
    found.add(Kind.DIFFERENT, b'{"id":1}', columns=["v", "w"], literals=("1",))
    found.add(Kind.EXTRA, b'{"id":2}')
    found.add(Kind.MISSING, b'{"id":3}', literals=("3",))
    found.unjudged["rows whose images are gone"] += 4
    found.later = 5
    found.notes.append("a note")
    assert found.lines() == [
        "shop.t: rows=9 missing=1 extra=1 different=1",
        '  different: {"id":1}: v, w',
        '  extra: {"id":2}',
        "  … and 1 more",
        "  not judged: rows whose images are gone: 4",
        "  written while it was compared: 5",
        "  note: a note",
    ]
    assert (found.repairable, found.extra) == ([("1",), ("3",)], [b'{"id":2}'])
    assert not found.is_complete


def test_a_table_that_is_not_compared_is_not_called_equal() -> None:
    found = result(not_compared="it is quarantined")
    assert found.lines() == ["shop.t: not compared: it is quarantined"]
    # What was read before its trouble was equal.
    assert result(not_compared="it is locked", rows=7).lines() == [
        "shop.t: not compared: it is locked"
    ]
    whole = Validation(destination="shop", tables=(result(rows=1), found))
    assert (whole.differences, whole.is_complete) == (0, False)
    assert whole.to_json()["equal"] is False
    assert whole.lines()[-1] == "validation of shop: tables=2 not_compared=1 rows=1 differences=0"


def test_keys_for_a_repair_are_bounded() -> None:
    found = result(most_listed=0)
    for number in range(table_result.MOST_REPAIRED + 5):
        found.add(Kind.MISSING, b"{}", literals=(str(number),))
        found.add(Kind.EXTRA, b"{}")
    assert (len(found.repairable), len(found.extra), found.differences) == (10_000, 10_000, 20_010)
    assert found.listed == []


def test_what_was_found_of_a_table_before_its_trouble_is_shown() -> None:
    found = result(rows=9, not_compared="it is locked")
    found.add(Kind.DIFFERENT, b'{"id":1}', columns=["v"], literals=("1",))
    assert found.lines() == [
        "shop.t: not compared: it is locked",
        "  until then: rows=9 missing=0 extra=0 different=1",
        '  different: {"id":1}: v',
    ]
    assert not found.is_complete


TABLE = table(
    column("int", "Id", nullable=False),
    column("varchar(9)", "name", nullable=False),
    column("int", "price"),
    key="name Id",
)


def removable(*found: bytes, rules: str | None = None) -> tuple[list[ExtraRow], set[str]]:
    mapping = None
    if rules is not None:
        mapping = from_yaml(f"tables: {{trade.o: {{from: ['shop.orders'], topic: t, {rules}}}}}")
    keys = MaskingKeys((("k", bytes(range(32))),))
    routes = Routes(prefix="aq", destination="shop", mapping=mapping, keys=keys)
    route = routes.of(NAME)
    assert route is not None
    return removable_rows(found, route, TABLE, RecordKeys(NAME, TABLE, CHARSETS, server=MYSQL))


def test_keys_are_in_the_order_of_the_tables_own() -> None:
    found, obstacles = removable(b'{"name":"a","Id":1}', '{"name":"é","Id":2}'.encode())
    assert found == [
        ExtraRow('{"name":"a","Id":1}', ("_utf8mb4 X'61'", "1")),
        ExtraRow('{"name":"é","Id":2}', ("_utf8mb4 X'c3a9'", "2")),
    ]
    assert obstacles == set()


def test_the_real_table_is_no_column_and_names_are_the_tables_own() -> None:
    rules = "shard_in_key: always, key: [Id, name], column_actions: {ID: {rename: number}}"
    key = '{"__shard":["shop","shop","orders"],"number":1,"name":"a"}'
    found, obstacles = removable(key.encode(), rules=rules)
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
    found, obstacles = removable(key, rules=rules)
    assert found == []
    assert [why in one for one in obstacles] == [True]


def test_one_that_cannot_does_not_keep_the_others() -> None:
    found, obstacles = removable(b'{"name":"a"}', b'{"name":"a","Id":1}')
    assert (len(found), len(obstacles)) == (1, 1)


def test_partitions_may_be_chosen_by_the_key() -> None:
    assert len(removable(b'{"name":"a","Id":1}', rules="partition_by: [ID]")[0]) == 1
