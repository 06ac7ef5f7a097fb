"""Every column type at its limits in other formats: what is written is what the server selects."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from app.worker.pipeline.formats.canal import CANAL
from app.worker.pipeline.formats.maxwell import MAXWELL
from app.worker.pipeline.formats.shape import Shape
from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.baseline import server_of
from devstack import Stack
from tables.rules.routes.routes import Routes
from tables.rules.table_version import TableVersion
from tests.harness.sql import connected, run
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.source import facts_of, written
from tests.steps import Rows
from tests.unit.app.worker.pipeline.formats.envelopes import envelope_of

DATABASE = "formats_oracle"
BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
GEOMETRIES = {"point", "geometry", "polygon", "geomcollection", "multipoint"}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
Row = dict[str, Any]
Same = Callable[[str, Any, Any], bool]


@pytest.fixture(scope="module", autouse=True)
def database(stack: Stack) -> None:
    run(stack.mysql, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", [CANAL, MAXWELL], ids=lambda one: one.name)
def test_a_value_in_another_format_is_what_the_server_selects(
    stack: Stack, family: str, shape: Shape
) -> None:
    table = f"{shape.name}_{family}"
    steps = written(stack.mysql, *statements_for(f"{DATABASE}.{table}", FAMILIES[family]()))
    ours = [row for step in steps if isinstance(step, Rows) for row in shaped(stack, shape, step)]
    expression, same = SAYS[shape.name]
    kinds, theirs = selected(stack, table, expression)
    assert ours
    assert [
        (name, kinds[name], row[name], expected[name])
        for row, expected in zip(ours, theirs, strict=True)
        for name in expected
        if not is_same(same, kinds[name], row[name], expected[name])
    ] == []


def is_same(same: Same, kind: str, ours: Any, theirs: Any) -> bool:
    return ours is None and theirs is None if theirs is None else same(kind, ours, theirs)


def shaped(stack: Stack, shape: Shape, step: Rows) -> list[Row]:
    """The rows of an event as the format writes them, read back; numbers as texts."""
    facts = facts_of(stack.mysql)
    book = CapturedTables(Routes(prefix="aq"), facts.charsets, server=server_of(facts))
    table = book.of(step.table_map)
    assert isinstance(table, CapturedTable)
    version = TableVersion(
        destination="shop", database=DATABASE, table=table.name[1], version=1, topic="t",
        definition=table.definition, gtid=None, coordinates=Coordinates("b.000001", 4), ts_ms=0,
    )  # fmt: skip
    write, found = shape.rows(version), []
    for row in table.rows(step.event_type, step.body):
        raw = orjson.dumps(write(envelope_of(None, orjson.loads(row[1] or ""))))
        data = json.loads(raw, parse_float=str, parse_int=str)["data"]
        found.append(data[0] if shape is CANAL else data)
    return found


def selected(stack: Stack, table: str, expression: str) -> tuple[dict[str, str], list[Row]]:
    """The types of the columns, and the rows as the server prints them."""
    with connected(stack.mysql) as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(
            "SELECT column_name, LOWER(data_type) FROM information_schema.columns"
            f" WHERE table_schema = '{DATABASE}' AND table_name = '{table}' ORDER BY ordinal_position"
        )
        kinds = dict(cursor.fetchall())
        chosen = ", ".join(printed(name, kind, expression) for name, kind in kinds.items())
        cursor.execute(f"SELECT {chosen} FROM {DATABASE}.{table} ORDER BY id")
        return kinds, [dict(zip(kinds, row, strict=True)) for row in cursor.fetchall()]


def printed(name: str, kind: str, labels: str) -> str:
    if kind in BYTES | GEOMETRIES | {"vector"}:
        return f"HEX({name})" if labels == "number" or kind not in GEOMETRIES else wkt(name)
    if kind == "bit" or (kind in ("enum", "set") and labels == "number"):
        return f"CAST(CAST({name} AS UNSIGNED) AS CHAR)"
    if kind in TEXTS | {"enum", "set"}:
        return f"CONVERT({name} USING utf8mb4)"
    if kind == "float":
        return f"CAST({name} * 1e0 AS CHAR)"
    return f"CAST({name} AS CHAR)"


def wkt(name: str) -> str:
    return f"ST_AsText(ST_SRID({name}, 0))"


def is_number(kind: str, ours: str, theirs: str) -> bool:
    form = "<f" if kind == "float" else "<d"
    return struct.pack(form, float(ours)) == struct.pack(form, float(theirs))


def canal_same(kind: str, ours: Any, theirs: Any) -> bool:
    assert isinstance(ours, str)
    if kind in ("float", "double"):
        return is_number(kind, ours, theirs)
    if kind == "vector":
        raw = bytes.fromhex(theirs)
        return vector(json.loads(ours)) == raw
    if kind in BYTES | GEOMETRIES:
        return ours.encode("latin-1") == bytes.fromhex(theirs)
    return bool(ours == theirs)


def maxwell_same(kind: str, ours: Any, theirs: Any) -> bool:
    if kind in ("float", "double"):
        return is_number(kind, ours, theirs)
    if kind == "vector":
        return vector([float(one) for one in ours]) == bytes.fromhex(theirs)
    if kind in BYTES:
        return base64.b64decode(ours) == bytes.fromhex(theirs)
    if kind in GEOMETRIES:
        pair = [NUMBER.sub(lambda one: str(float(one[0])), text) for text in (ours, theirs)]
        return pair[0].replace(" ", "") == pair[1].replace(" ", "")
    if kind == "set":
        return bool(ours == (theirs.split(",") if theirs else []))
    if kind == "enum":
        return bool(ours == (theirs or None))
    if kind == "year":
        return int(ours) == int(theirs)
    return bool(ours == theirs)


def vector(numbers: list[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


SAYS: dict[str, tuple[str, Same]] = {
    "canal": ("number", canal_same),
    "maxwell": ("label", maxwell_same),
}
