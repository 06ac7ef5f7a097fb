"""Avro messages: the schema of each type, the bytes, subjects, tombstones, and images taken out."""

from __future__ import annotations

import io
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import orjson
import pytest

from app.worker.pipeline import decoder_progress
from app.worker.pipeline.formats.avro import (
    Avro,
    AvroFactory,
    RegisteredSchema,
    avro_name,
    envelope_schema,
    field_names,
    row_schema,
    schema_number,
    truncation_schema,
)
from connectors.store.registry import MemoryRegistry
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.formats.envelopes import Image, envelope_of, version_of
from tests.unit.app.worker.pipeline.runs import RULES

TABLE = ("trade", "orders")
MAPPING = "{databases: {trade: {from: [shop_1], format: avro}}, tables: {trade.orders: {from: [orders_3]%s}}}"


def avro(registry: MemoryRegistry, more: str = "") -> Avro:
    mapping = from_yaml(MAPPING % more)
    routes = Routes(prefix="aq", include=r"shop_1\..*", destination="shop", mapping=mapping)
    return AvroFactory(lambda _: registry)(
        replace(RULES, routes=routes), connector="mysql", epoch=3
    )


def read(registry: MemoryRegistry, message: bytes) -> dict[str, Any]:
    """The value as a consumer reads it, which knows the registry alone."""
    assert message[0] == 0
    schema = orjson.loads(registry.schemas[int.from_bytes(message[1:5], "big")])
    found = fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None)
    assert isinstance(found, dict)
    return found


def written(
    registry: MemoryRegistry,
    columns: list[tuple[str, str]],
    before: Image,
    after: Image,
    **source: Any,
) -> dict[str, Any]:
    encode = avro(registry).rows(version_of(*columns))
    return read(registry, encode(envelope_of(before, after, **source)))


def test_progress_is_reported_before_and_after_each_registration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str] = []

    class Registry(MemoryRegistry):
        def register(self, subject: str, schema: str) -> int:
            found.append("register")
            return super().register(subject, schema)

    monkeypatch.setattr(decoder_progress, "_reports", [lambda: found.append("report")])
    one = avro(Registry())
    one.rows(version_of(("id", "int")))
    assert found == ["report", "register", "report"]


@pytest.mark.parametrize(
    ("kind", "value", "avro_type", "found"),
    [
        ("tinyint", -128, "int", -128),
        ("mediumint unsigned", 16777215, "int", 16777215),
        ("int", -2147483648, "int", -2147483648),
        ("int unsigned", 4294967295, "long", 4294967295),
        ("bigint", -9223372036854775808, "long", -9223372036854775808),
        ("bigint unsigned", 18446744073709551615, ("decimal", 20, 0), Decimal(18446744073709551615)),
        ("year", 2026, "int", 2026),
        ("decimal(8,2)", "-12.50", ("decimal", 8, 2), Decimal("-12.50")),
        ("decimal(65,30) unsigned", "0." + "0" * 29 + "1", ("decimal", 65, 30), Decimal("1e-30")),
        ("float", 0.5, "float", 0.5),
        ("double", 1, "double", 1.0),
        ("bit(9)", "AQA=", "bytes", b"\x01\x00"),
        ("binary(2)", "AP8=", "bytes", b"\x00\xff"),
        ("longblob", "", "bytes", b""),
        ("date", "2026-11-21", "string", "2026-11-21"),
        ("datetime(3)", "2026-11-21T10:15:00.123", "string", "2026-11-21T10:15:00.123"),
        ("timestamp", "2026-11-21T09:15:00Z", "string", "2026-11-21T09:15:00Z"),
        ("time", "-838:59:59", "string", "-838:59:59"),
        ("varchar(80)", "Zoë", "string", "Zoë"),
        ("text", "", "string", ""),
        ("enum('a','b')", "b", "string", "b"),
        ("set('a','b')", "a,b", "string", "a,b"),
        ("json", '{"a": 1}', "string", '{"a": 1}'),
    ],
)  # fmt: skip
def test_each_type(kind: str, value: Any, avro_type: Any, found: Any) -> None:
    if isinstance(avro_type, tuple):
        _, precision, scale = avro_type
        avro_type = {
            "type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale,
        }  # fmt: skip
    version = version_of(("a", kind))
    (field,) = row_schema(TABLE, version.definition.columns)["fields"]
    assert field == {"name": "a", "type": ["null", avro_type], "default": None}
    registry = MemoryRegistry()
    assert written(registry, [("a", kind)], None, {"a": value})["after"] == {"a": found}
    assert written(registry, [("a", kind)], None, {"a": None})["after"] == {"a": None}


def test_geometries_and_vectors_are_records_and_arrays() -> None:
    point = {"srid": 4326, "wkb": "AQEAAAA="}
    columns = [("a", "point"), ("b", "geometry"), ("c", "vector(2)")]
    row = {"a": point, "b": point, "c": [0.5, -1]}
    raw = {"srid": 4326, "wkb": b"\x01\x01\x00\x00\x00"}
    found = written(MemoryRegistry(), columns, None, row)
    assert found["after"] == {"a": raw, "b": raw, "c": [0.5, -1.0]}


def test_the_envelope_has_all_members() -> None:
    image = {"id": 7, "note": "x"}
    columns = [("id", "bigint"), ("note", "text")]
    more = {"query": "UPDATE …", "tags": ["a", "b"]}
    found = written(MemoryRegistry(), columns, {"id": 7, "note": None}, image, **more)
    expected = envelope_of({"id": 7, "note": None}, image, **more)
    missing = dict.fromkeys(("absent", "replaced", "claim_check", "left_out"))
    assert found == {**expected, **missing}
    plain = written(MemoryRegistry(), columns, image, None, gtid=None, thread=None)
    assert (plain["op"], plain["after"], plain["source"]["gtid"]) == ("d", None, None)
    assert plain["source"]["query"] is None


def test_columns_that_an_image_lacks_are_null_and_listed() -> None:
    registry = MemoryRegistry()
    encode = avro(registry).rows(version_of(("id", "bigint"), ("note", "text")))
    envelope = {**envelope_of({"id": 7}, {"id": 7}), "absent": ["note"]}
    found = read(registry, encode(envelope))
    assert (found["after"], found["absent"]) == ({"id": 7, "note": None}, ["note"])


def test_the_bytes_are_those_of_the_specification() -> None:
    schema = {"type": "record", "name": "A", "fields": [
        {"name": "a", "type": ["null", "long"]}, {"name": "b", "type": "string"},
    ]}  # fmt: skip
    message = RegisteredSchema.of(258, schema).message({"a": -2, "b": "Zoë"})
    # Zero, the id in four bytes; the second of the union, -2 zigzag, four bytes of text.
    assert message == b"\x00\x00\x00\x01\x02" + b"\x02\x03" + b"\x08Zo\xc3\xab"
    assert schema_number(message) == 258


@pytest.mark.parametrize(
    ("name", "found"), [("id", "id"), ("a.b", "a_b"), ("2nd", "_2nd"), ("ключ", "____"), ("", "_")]
)
def test_names_are_as_avro_allows(name: str, found: str) -> None:
    assert avro_name(name) == found


def test_columns_with_one_field_name_get_two_and_keep_their_own_names() -> None:
    columns = version_of(("a.b", "int"), ("a_b", "int"), ("ok", "int")).definition.columns
    assert field_names(columns) == {"a.b": "a_b", "a_b": "a_b_2", "ok": "ok"}
    docs = [one.get("doc") for one in row_schema(TABLE, columns)["fields"]]
    assert docs == ["a.b", "a_b", None]
    numbered = version_of(("a_b_3", "int"), ("a.b", "int"), ("a-b", "int")).definition.columns
    assert field_names(numbered) == {"a_b_3": "a_b_3", "a.b": "a_b", "a-b": "a_b_3_3"}
    found = written(MemoryRegistry(), [("a.b", "int"), ("a_b", "int")], None, {"a.b": 1, "a_b": 2})
    assert found["after"] == {"a_b": 1, "a_b_2": 2}


@pytest.mark.parametrize(
    ("more", "topic", "subject"),
    [
        ("", "aq.trade.orders", "aq.trade.orders-value"),
        (", topic: t", "aq.t", "aq.t-trade.orders.Envelope"),
        ("", "aq.__shard.shop.trade.orders", "aq.trade.orders-value"),
    ],
)
def test_the_subject_is_the_topic_s_or_the_table_s_in_it(
    more: str, topic: str, subject: str
) -> None:
    registry = MemoryRegistry()
    version = replace(version_of(("id", "bigint")), topic=topic)
    one = avro(registry, more)
    one.rows(version)
    one.rows(version)
    assert registry.subjects == {subject: [1]}


def test_a_truncate_has_a_schema_of_its_own() -> None:
    registry = MemoryRegistry()
    one = avro(registry)
    route = one._rules.routes.of(("shop_1", "orders_3"))
    assert route is not None
    found = read(registry, one.truncation(route)(envelope_of(None, None, row=None)))
    assert registry.subjects == {"aq.trade.orders-trade.orders.Truncation": [1]}
    assert (found["op"], found["source"]["table"]) == ("t", "orders_3")
    assert "before" not in found


def test_shards_with_equal_columns_have_one_schema() -> None:
    columns = version_of(("id", "bigint")).definition.columns
    assert envelope_schema(TABLE, columns) == envelope_schema(TABLE, columns)
    fastavro.parse_schema(truncation_schema(("a-b", "2")))


def test_images_are_taken_out_and_stored_as_a_message_without_the_numbers_of_the_run() -> None:
    registry = MemoryRegistry()
    one = avro(registry)
    encode = one.rows(version_of(("id", "bigint"), ("note", "text")))
    row = {"id": 7, "note": "x" * 500}
    values = [encode(envelope_of(None, row, seq=seq, epoch=seq)) for seq in (1, 2)]
    first, second = map(one.detach_images, values)
    assert first.images == second.images
    assert (first.committed_ms, first.sizes) == (1795234567123, {"after": 505})
    smaller = first.value("claim_check", {"location": "file:///c"})
    assert len(smaller) < 400
    whole, light, stored = (read(registry, raw) for raw in (values[0], smaller, first.images))
    assert stored["after"] == whole["after"] == row
    assert light == {**whole, "after": None, "claim_check": '{"location":"file:///c"}'}
    left = read(registry, first.value("left_out", first.sizes))
    assert left["left_out"] == '{"after":505}'
