"""Selected rows become the keys and images that a worker would publish of them."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.operator.validation.errors import NotComparable, TableChanged
from app.operator.validation.expected_rows import ExpectedRows
from app.worker.pipeline.gather.captured_tables import Schema, Unpublished
from app.worker.pipeline.stage import StageSpec
from connectors.errors import SnapshotUnsupported
from connectors.mysql.ddl.definition import Table
from connectors.mysql.position import Coordinates
from connectors.mysql.select.chunk_reader import ReadChunk
from connectors.mysql.select.selected_table import SelectedTable
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import MaskingKeys
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.runs import RULES
from tests.unit.connectors.mysql.select.packets import packets_of
from tests.unit.connectors.mysql.select.tables import CHARSETS, MYSQL, NAME, column, table

KEY = bytes(range(32))
COLUMNS = (
    column("int", "id", nullable=False),
    column("varchar(9)", "name"),
    column("decimal(5,2)", "price"),
)
ORDERS = table(*COLUMNS, key="id")
ROWS = [(b"%d" % number, b"name%d" % number, b"%d.50" % number) for number in range(4)]


def expected(mapping: str | None = None, known: Schema = ORDERS, **rules: Any) -> ExpectedRows:
    routes = Routes(
        prefix="aq",
        include=r"shop\..*",
        destination="shop",
        mapping=None if mapping is None else from_yaml(mapping),
        keys=MaskingKeys((("k", KEY),)),
    )
    spec = StageSpec(
        rules=replace(RULES, routes=routes, **rules),
        server_uuid="u",
        charsets=CHARSETS,
        mariadb=False,
        epoch=1,
        versions={},
        server=MYSQL,
        known={NAME: known},
    )
    return ExpectedRows(spec)


def chunk(rows: list[Any], of: Table = ORDERS) -> ReadChunk:
    made = SelectedTable(NAME, of, CHARSETS, server=MYSQL)
    return ReadChunk(
        table_map=made.table_map,
        # Each row in a block of its own.
        blocks=tuple(packets_of(made.columns, [row]) for row in rows),
        rows=len(rows),
        last=None,
        is_last=True,
        high=Coordinates("b.000001", 4),
        began_ms=1,
        keys=tuple(
            made.key_literals(row, of.primary_key)
            for row in made.values.rows(packets_of(made.columns, rows))
        ),
    )


def published(made: ExpectedRows, rows: list[Any]) -> list[tuple[Any, Any, tuple[str, ...]]]:
    found, lost = made.of(NAME, chunk(rows))
    assert lost == 0
    return [(orjson.loads(one.key), orjson.loads(one.image), one.literals) for one in found]


def test_rows_have_key_image_and_literals_chunk_after_chunk() -> None:
    made = expected()
    assert [one.name for one in made.definition(NAME, ORDERS).columns] == ["id", "name", "price"]
    for _ in range(2):
        assert published(made, ROWS[1:3]) == [
            ({"id": 1}, {"id": 1, "name": "name1", "price": "1.50"}, ("1",)),
            ({"id": 2}, {"id": 2, "name": "name2", "price": "2.50"}, ("2",)),
        ]
        assert published(made, []) == []


def test_the_rules_of_a_mapping_hold() -> None:
    made = expected(
        """
        tables:
          trade.orders:
            from: ['shop.orders']
            topic: trade
            row_filter: id <> 1
            shard_in_key: always
            tags: {name: named}
            tag_topics: [named]
            column_actions: {name: {hmac: k}, price: drop}
        """
    )
    assert [one.name for one in made.definition(NAME, ORDERS).columns] == ["id", "name"]
    masked = "k:" + hmac.new(KEY, b"name3", hashlib.sha256).hexdigest()
    found = published(made, ROWS)
    # The filter leaves one row out, and the literals of the others stay theirs.
    assert [literals for _, _, literals in found] == [("0",), ("2",), ("3",)]
    shard = ["shop", *NAME]
    assert found[2][:2] == ({"__shard": shard, "id": 3}, {"id": 3, "name": masked})


def test_a_masked_key_is_that_of_the_record_and_its_literals_are_not_kept() -> None:
    made = expected(
        "tables: {trade.orders: {from: ['shop.orders'], column_actions: {id: {hmac: k}}}}"
    )
    made.definition(NAME, ORDERS)
    assert made.masks_key(NAME)
    masked = "k:" + hmac.new(KEY, b"1", hashlib.sha256).hexdigest()
    image = {"id": masked, "name": "name1", "price": "1.50"}
    assert published(made, ROWS[1:2]) == [({"id": masked}, image, ())]
    assert len({key["id"] for key, _, _ in published(made, ROWS)}) == len(ROWS)


def test_a_column_of_the_key_that_is_only_renamed_is_no_masked_one() -> None:
    made = expected(
        "tables: {trade.orders: {from: ['shop.orders'], column_actions: {id: {rename: nr}}}}"
    )
    made.definition(NAME, ORDERS)
    assert not made.masks_key(NAME)
    assert published(made, ROWS[1:2])[0][::2] == ({"nr": 1}, ("1",))


def test_a_row_too_large_for_its_topic_is_compared_with_its_image() -> None:
    made = expected(oversize="claim_check", largest=10, claims="/nowhere")
    assert len(published(made, ROWS)) == len(ROWS)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("operations: [insert]", "only these operations are published of it: insert"),
        ("key: [name]", "no key that identifies rows"),
        ("column_actions: {id: {redact: x}}", "different rows could have one key"),
        ("column_actions: {ID: drop}", "different rows could have one key"),
        ("key: [name], column_actions: {id: {hmac: k}}", "no key that identifies rows"),
        ("columns: [nothing]", "nothing"),
    ],
)
def test_a_table_whose_topic_cannot_have_its_rows_is_refused(rule: str, why: str) -> None:
    made = expected(f"tables: {{trade.orders: {{from: ['shop.orders'], {rule}}}}}")
    with pytest.raises(NotComparable, match=why):
        made.definition(NAME, ORDERS)


@pytest.mark.remedy("NotComparable")
def test_tables_without_a_key_and_quarantined_ones_are_refused_until_that_ends() -> None:
    keyless = table(*COLUMNS)
    with pytest.raises(NotComparable, match=r"no key that identifies rows.*app audit"):
        expected(known=keyless).definition(NAME, keyless)
    with pytest.raises(NotComparable, match=r"quarantined.*app schema quarantine"):
        expected(known=Unpublished.QUARANTINED).definition(NAME, ORDERS)
    assert expected(known=ORDERS).definition(NAME, ORDERS)
    odd = table(*COLUMNS, column("frob(3)", "x"), key="id")
    with pytest.raises(SnapshotUnsupported):
        expected(known=odd).definition(NAME, odd)


def test_rows_that_make_no_records_are_a_reason_not_to_compare_their_table() -> None:
    made, whole = expected(), chunk(ROWS)
    with pytest.raises(NotComparable, match="a row is not in the form of its columns"):
        made.of(NAME, replace(whole, blocks=(whole.blocks[0][:-3],)))
    chinese = table(column("varchar(9)", "name", charset="gbk", nullable=False), key="name")
    with pytest.raises(NotComparable, match="its rows make no records: MalformedEvent: "):
        expected(known=chinese).of(NAME, chunk([(b"\xff\xff",)], chinese))


def test_rows_of_another_definition_are_not_compared() -> None:
    made = expected(known=table(*COLUMNS, column("int", "more"), key="id"))
    with pytest.raises(TableChanged, match="its definition changed"):
        made.of(NAME, chunk(ROWS))
