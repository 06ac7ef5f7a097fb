"""Masked tables as a decoder meets them: rows of either path, keys, versions, filters, and faults."""

from __future__ import annotations

import struct
from dataclasses import replace
from unittest import mock

import pytest

from app.worker.pipeline.formats.envelope import RowTags
from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from app.worker.pipeline.gather.gather import changed_keys
from connectors.errors import MalformedEvent, RuleImpossible
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.definition import Database
from connectors.mysql.rows import compiled as made_patterns
from connectors.mysql.rows.compiled import Row
from connectors.mysql.schema.table_map_completion import adopted
from connectors.mysql.schema.table_map_key import row_key
from connectors.mysql.types.registry import FieldType
from tables.history.impact.rule_findings import published
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import Hmac, MaskingKeys
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.gather.test_null_check import MYSQL, PLAIN
from tests.unit.app.worker.pipeline.history import CHARSETS

UTF8MB4 = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
KEY = bytes(32)
HASHED = Hmac("k", KEY)
WRITE, UPDATE = 30, 31
TEXT = replace(
    PLAIN.columns[0], type=FieldType.VARCHAR, metadata=40, name="c", collation=255, nullable=True
)
TABLE = replace(PLAIN, columns=(*PLAIN.columns[:2], TEXT))
"""``a`` INT, the primary key, ``b`` INT, ``c`` VARCHAR."""


def met(rules: str, table_map: TableMap = TABLE) -> CapturedTable:
    routes = Routes(
        prefix="aq",
        mapping=from_yaml(f"{{tables: {{x: {{from: [shop.t], {rules}}}}}}}"),
        keys=MaskingKeys((("k", KEY),)),
    )
    found = CapturedTables(routes, CHARSETS, server=MYSQL).of(table_map)
    assert isinstance(found, CapturedTable)
    return found


def image(a: int, b: int, c: str) -> bytes:
    return b"\0" + struct.pack("<ii", a, b) + bytes([len(c)]) + c.encode()


def head(columns: int = 7, *, update: bool = False) -> bytes:
    return bytes(8) + b"\x02\x00\x03" + bytes([columns]) * (2 if update else 1)


ALL = "column_actions: {A: {hmac: k}, b: {redact: '*'}, c: {truncate: 2}}"


@pytest.mark.parametrize("patterns", [0, 32])
def test_rules_are_for_images_and_keys_of_the_generated_decoder(patterns: int) -> None:
    with mock.patch.object(made_patterns, "_MOST_PATTERNS", patterns):
        rows = met(ALL).rows(WRITE, head() + image(1, 2, "xyz"))
    masked = HASHED(1)
    assert rows == [
        (None, f'{{"a":"{masked}","b":"*","c":"xy"}}', None, f'{{"a":"{masked}"}}', None)
    ]


def test_rules_are_for_partial_images_and_their_keys_too() -> None:
    body = bytes(8) + b"\x02\x00\x03\x01\x03" + b"\0" + struct.pack("<i", 1)
    ((before, after, old, new, _),) = met(ALL).rows(UPDATE, body + b"\0" + struct.pack("<ii", 3, 4))
    assert (before, old) == (f'{{"a":"{HASHED(1)}"}}', f'{{"a":"{HASHED(1)}"}}')
    assert (after, new) == (f'{{"a":"{HASHED(3)}","b":"*"}}', f'{{"a":"{HASHED(3)}"}}')


def test_a_version_has_the_columns_as_published() -> None:
    table = met("column_actions: {a: {hmac: k}, B: {rename: age}, c: drop}")
    assert [(one.name, one.type) for one in table.definition.columns] == [
        ("a", "varchar(66)"),
        ("age", "int"),
    ]
    ((_, after, _, _, _),) = table.rows(WRITE, head() + image(1, 2, "xyz"))
    assert after == f'{{"a":"{HASHED(1)}","age":2}}'


@pytest.mark.parametrize(
    "rules",
    [
        ALL,
        "column_actions: {a: {hmac: k}, B: {rename: age}, c: drop}",
        "column_actions: {A: {rename: id}, b: redact, c: {redact: '***'}}",
        "columns: [A, c], column_actions: {c: {truncate: 3}}",
        "key: [B, a], column_actions: {b: {hmac: k}, a: {rename: A2}}",
    ],
)
def test_the_impact_of_a_statement_is_judged_by_the_columns_of_the_version(rules: str) -> None:
    table = met(rules)
    known = adopted(TABLE, CHARSETS, database=UTF8MB4)
    shown = published(known, table.route).table
    assert [(one.name, one.type, one.nullable, one.charset) for one in shown.columns] == [
        (one.name, one.type, one.nullable, one.charset) for one in table.definition.columns
    ]
    assert row_key(shown) == table.definition.primary_key


def test_a_renamed_key_has_its_new_name() -> None:
    table = met("column_actions: {a: {rename: id}}")
    ((_, _, _, key, _),) = table.rows(WRITE, head() + image(1, 2, "xyz"))
    assert (key, table.definition.primary_key) == ('{"id":1}', ("id",))


def kept(table: CapturedTable, *images: bytes, update: bool = False) -> list[Row]:
    """The rows that pass the row filter."""
    kind = UPDATE if update else WRITE
    rows = table.rows(kind, head(update=update) + b"".join(images))
    assert table.selection is not None
    return [row for run in table.selection.runs(rows, kind) for row in run.rows]


@pytest.mark.parametrize("action", ["redact", "{hmac: k}", "drop", "{rename: d}"])
def test_a_row_filter_reads_values_and_names_as_in_the_binlog(action: str) -> None:
    table = met(f"row_filter: b > 5 AND a > 0, column_actions: {{b: {action}}}")
    rows = kept(table, image(1, 2, "x"), image(2, 9, "x"), image(3, 7, "x"))
    assert [key for _, _, _, key, _ in rows] == ['{"a":2}', '{"a":3}']
    (row,) = kept(table, image(1, 2, "x"), image(1, 9, "x"), update=True)
    assert row[0] is None


@pytest.mark.parametrize("action", ["redact", "{hmac: k}", "drop", "{rename: d}"])
def test_field_tags_compare_values_as_in_the_binlog(action: str) -> None:
    table = met(f"tags: {{B: changed, '': each}}, column_actions: {{b: {action}}}")
    tags = RowTags(table.route.mapped.tags, [one.name for one in table.definition.columns])  # type: ignore[union-attr]
    images = [image(1, 2, "x"), image(1, 3, "x"), image(1, 3, "x"), image(1, 3, "y")]
    rows = table.rows(UPDATE, head(update=True) + b"".join(images))
    assert [set(found) for found, _ in tags.runs(rows)] == [{"changed", "each"}, {"each"}]


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("column_actions: {a: drop}", "after drop different rows could have one key"),
        ("column_actions: {b: {truncate: 1}}", "truncate is for texts"),
    ],
)
def test_an_action_that_does_not_fit_quarantines_the_table(rules: str, fault: str) -> None:
    with pytest.raises(RuleImpossible, match=fault):
        met(rules)


def test_a_fault_in_rows_of_a_masked_table_quotes_nothing() -> None:
    cut = head() + image(1, 2, "canary")[:-1]
    with pytest.raises(MalformedEvent, match=r"IndexError; the rest is hidden") as caught:
        met("column_actions: {c: redact}").rows(WRITE, cut)
    assert caught.value.__context__ is None
    with pytest.raises(MalformedEvent, match="past the end"):
        met("column_actions: {c: {rename: d}}").rows(WRITE, cut)


def test_a_masked_column_has_no_first_value_and_a_renamed_one_its_own_identity() -> None:
    rules = "column_actions: {b: {redact: '*'}, c: {rename: note}}"
    a, b, c = (
        replace(adopted(TABLE, CHARSETS, database=UTF8MB4).columns[at], initial=given)
        for at, given in enumerate(("", '{"value":7}', '{"value":"x"}'))
    )
    a = replace(a, definition="COMMENT '?'")
    known = replace(
        adopted(TABLE, CHARSETS, database=UTF8MB4), columns=(a, b, c), options="COMMENT='?'"
    )
    routes = Routes(
        prefix="aq",
        mapping=from_yaml(f"{{tables: {{x: {{from: [shop.t], {rules}}}}}}}"),
        keys=MaskingKeys((("k", KEY),)),
    )
    found = CapturedTables(routes, CHARSETS, server=MYSQL, known={("shop", "t"): known}).of(TABLE)
    assert isinstance(found, CapturedTable)
    assert [(one.name, one.id, one.initial) for one in found.definition.columns] == [
        ("a", None, None),
        ("b", None, {"unknown": ""}),
        ("note", "c", {"value": "x"}),
    ]
    # What is kept of comments is without their texts.
    assert [one.comment for one in found.definition.columns] == [None] * 3
    assert found.definition.comment is None


@pytest.mark.parametrize(
    ("rules", "identifies", "is_shown"),
    [
        ("column_actions: {b: redact}", True, True),
        ("column_actions: {A: {hmac: k}}", True, False),
        ("key: [b], column_actions: {a: drop}", False, False),
        ("key: [b], column_actions: {a: {hmac: k}}", False, False),
        ("key: [b]", False, False),
    ],
)
def test_keys_identify_rows_also_as_hmacs(rules: str, *, identifies: bool, is_shown: bool) -> None:
    table = met(rules)
    assert (table.identifies_rows, table.has_row_keys) == (identifies, is_shown)
    rows = table.rows(WRITE, head() + image(1, 2, "x") + image(3, 2, "x"))
    keys = changed_keys(table, rows)
    assert (None if keys is None else len(set(keys))) == (2 if identifies else None)
