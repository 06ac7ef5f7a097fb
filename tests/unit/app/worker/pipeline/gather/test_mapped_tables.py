"""Mapped tables as a decoder meets them: the columns of their keys, and rules that do not fit them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from connectors.errors import RuleImpossible
from connectors.mysql.binlog.events import EventType, Query
from connectors.mysql.rows.compiled import Row
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.gather.test_null_check import (
    DEFINED,
    HEAD,
    MYSQL,
    PLAIN,
    SEVEN,
    WRITE,
)
from tests.unit.app.worker.pipeline.history import CHARSETS


def met(text: str) -> CapturedTable:
    """The table ``shop.t``, with the columns a (primary key), b and c, all INT."""
    routes = Routes(prefix="aq", destination="m1", mapping=from_yaml(text))
    found = CapturedTables(routes, CHARSETS, server=MYSQL).of(PLAIN)
    assert isinstance(found, CapturedTable)
    return found


def key_of(table: CapturedTable) -> str | None:
    """The key of an inserted row."""
    ((_, _, _, key, _),) = table.rows(WRITE, HEAD + b"\x00" + 3 * SEVEN)
    return key


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ("", '{"a":7}'),
        ("key: [C, b]", '{"c":7,"b":7}'),
        ("shard_in_key: always", '{"__shard":["m1","shop","t"],"a":7}'),
        ("shard_in_key: always, key: [c]", '{"__shard":["m1","shop","t"],"c":7}'),
    ],
)
def test_a_key_has_the_columns_of_its_rule_and_the_real_table_where_it_must(
    rules: str, key: str
) -> None:
    table = met(f"{{tables: {{x: {{from: [shop.t], {rules}}}}}}}")
    assert key_of(table) == key
    assert int(EventType.WRITE_ROWS) == WRITE


@pytest.mark.parametrize(
    ("rules", "left_out"),
    [("", set()), ("columns: [A, b]", {"c"}), ("columns: [a, b, c]", set())],
)
def test_the_columns_that_a_list_omits_are_those_that_the_table_has(
    rules: str, left_out: set[str]
) -> None:
    assert met(f"{{tables: {{x: {{from: [shop.t], {rules}}}}}}}").left_out == left_out


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("key: [gone]", "'gone', which its records' key is to have"),
        ("tags: {gone: t}", "'gone', which the tag t names"),
        ("row_filter: a = 'x'", "cannot be compared"),
    ],
)
def test_rules_that_do_not_fit_a_table_quarantine_it_by_name(rules: str, fault: str) -> None:
    with pytest.raises(RuleImpossible, match=fault) as caught:
        met(f"{{tables: {{x: {{from: [shop.t], {rules}}}}}}}")
    assert caught.value.name_of_table == ("shop", "t")


CASES = (("shop", "t"), ("shop", "T"), ("SHOP", "t"))


def published(
    text: str, tables: Iterable[tuple[str, str]], *, lower: int = 0
) -> set[tuple[str, str]]:
    """The tables that are not quarantined, where all exist before the first of their rows."""
    routes = Routes(prefix="aq", destination="m1", mapping=from_yaml(text))
    known = dict.fromkeys(tables, DEFINED)
    captured = CapturedTables(
        routes, CHARSETS, server=replace(MYSQL, lower_case_table_names=lower), known=known
    )
    found, refused = set(), {}
    for number, (database, table) in enumerate(known):
        described = replace(PLAIN, table_id=number, database=database, table=table)
        try:
            captured.of(described)
        except RuleImpossible as error:
            refused[error.name_of_table] = str(error)
        else:
            found.add((database, table))
    assert refused.keys() == set(known) - found
    assert all("shard_in_key: always" in one for one in refused.values())
    return found


@pytest.mark.parametrize(
    "text",
    [
        "{tables: {trade.x: {from: [shop.t]}}}",
        "{databases: {trade: {from: [shop]}}}",
        "{databases: {trade: {from: [shop]}}, tables: {trade.t: {}}}",
        "{databases: {trade: {from: [shop]}}, tables: {trade.t: {from: [t], topic: x}}}",
        "{tables: {shop.t: {}}}",
    ],
)
def test_tables_that_one_literal_name_takes_never_share_keys(text: str) -> None:
    own = published(text, CASES)
    assert ("shop", "t") in own
    assert not own & {("SHOP", "t")}
    assert (("shop", "T") in own) is ("databases" in text and "tables" not in text)
    assert published(text, reversed(CASES)) == own
    # Alone, each is published as before; and a server that ignores case has one of them.
    assert published(text, [("shop", "T")]) == {("shop", "T")}
    assert published(text, CASES, lower=1) == set(CASES)
    # None has the letters of the rule: the first one by name is published.
    others = published(text, [("SHOP", "t"), ("Shop", "t")])
    assert others == {("SHOP", "t")}


def test_tables_with_their_own_topic_or_shard_in_the_key_share_none() -> None:
    for text in (
        "{tables: {t: {tags: {a: x}}}}",
        "{tables: {trade.x: {from: [shop.t], shard_in_key: always}}}",
        "{tables: {trade.x: {from: [shop.t], shard_in_key: never}}}",
        "{databases: {trade: {from: [shop], topic: trade}}}",
    ):
        found = published(text, CASES)
        assert found == (set(CASES) - {("shop", "T")} if "tags" in text else set(CASES)), text


def test_omitted_columns_are_in_no_image_and_no_version() -> None:
    table = met("{tables: {x: {from: [shop.t], columns: [C, a]}}}")
    ((_, after, _, key, _),) = table.rows(WRITE, HEAD + b"\x00" + 3 * SEVEN)
    assert (after, key) == ('{"a":7,"c":7}', '{"a":7}')
    assert [column.name for column in table.definition.columns] == ["a", "c"]


def test_a_key_may_replace_a_primary_key_that_is_omitted() -> None:
    table = met("{tables: {x: {from: [shop.t], columns: [b, c], key: [b]}}}")
    ((_, after, _, key, _),) = table.rows(WRITE, HEAD + b"\x00" + 3 * SEVEN)
    assert (after, key) == ('{"b":7,"c":7}', '{"b":7}')


def updated(table: CapturedTable, before: tuple[int, int], after: tuple[int, int]) -> list[Row]:
    """The rows of an update: a and b of each image; c is 7."""
    head = bytes(8) + b"\x02\x00\x03\x07\x07"
    images = [b"\x00" + struct.pack("<iii", *one, 7) for one in (before, after)]
    return table.rows(31, head + b"".join(images))


def test_a_change_of_a_partition_column_is_a_change_of_key_for_the_writer() -> None:
    table = met("{tables: {x: {from: [shop.t], partition_by: [B]}}}")
    ((_, _, old, new, _),) = updated(table, (1, 5), (1, 6))
    assert (old, new) == ('{"a":1}\0{"b":5}', '{"a":1}\0{"b":6}')
    ((_, _, old, new, _),) = updated(table, (1, 5), (1, 5))
    assert old == new


def test_a_partial_image_without_the_partition_column_quarantines_the_table() -> None:
    table = met("{tables: {x: {from: [shop.t], partition_by: [b]}}}")
    only_a = bytes(8) + b"\x02\x00\x03\x01" + b"\x00" + struct.pack("<i", 1)
    with pytest.raises(RuleImpossible, match=r"lacks column 'b'.*binlog_row_image = FULL"):
        table.rows(32, only_a)


def test_a_table_without_a_key_has_no_chosen_partition() -> None:
    mapping = from_yaml("{tables: {x: {from: [shop.t], partition_by: [b]}}}")
    tables = CapturedTables(Routes(prefix="aq", mapping=mapping), CHARSETS, server=MYSQL)
    with pytest.raises(RuleImpossible, match="partition_by needs a key"):
        tables.of(replace(PLAIN, primary_key=None))


@pytest.mark.parametrize(
    ("sql", "is_published"),
    [
        ("ALTER TABLE t ADD d int", False),
        ("alter /* s.plain */ table `shop`.`t` add d int", False),
        ("DROP TABLE t", True),
        ("ALTER TABLE plain ADD d int", True),
        ("RENAME TABLE t TO u, plain TO v", True),
        ("ALTER something that is not understood", True),
        ("CREATE DATABASE other", True),
    ],
)
def test_a_statement_is_omitted_by_the_rules_of_its_tables(sql: str, is_published: bool) -> None:
    routes = Routes(prefix="aq", mapping=from_yaml("{tables: {x: {from: [shop.t], ddl: [drop]}}}"))
    tables = CapturedTables(routes, CHARSETS, server=MYSQL)
    query = Query(thread=1, database="shop", sql=sql, sql_mode=0, error_code=0)
    assert tables.publishes_statement(query) == is_published
