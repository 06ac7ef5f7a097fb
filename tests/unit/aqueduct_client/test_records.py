"""Records by their fields."""

import json
from hashlib import sha256

import pytest

from aqueduct_client import records
from aqueduct_client.errors import ForeignFormat, ImagesElsewhere, MalformedRecord, WireTooNew
from aqueduct_client.record_selection import Selection, Window
from tests.unit.aqueduct_client.made import SERVER, TOPIC, headers, record, value
from wire.records import Op


def test_each_field_of_the_envelope_has_a_name_and_a_type() -> None:
    one = record(value(7, logical_db="trade", logical_table="o", db="trade_3"), *headers(7, ["a"]))
    assert (one.op, one.before, one.after) == (Op.CREATE, None, {"id": 7, "amount": "1.50"})
    assert (one.seq, one.epoch, one.ordinal, one.ts_ms, one.schema_version) == (7, 1, 0, 7000, 2)
    assert (one.logical_table, one.database, one.table) == ("trade.o", "trade_3", "orders")
    assert (one.gtid, one.change_id) == (f"{SERVER}:7", f"{SERVER}:7#0")
    assert (one.key, one.columns, one.tags) == ({"id": 1}, ("id", "amount"), frozenset("a"))
    assert (one.destination, one.absent, one.transaction_id) == ("shop", (), f"{SERVER}:7")


def test_without_a_mapping_the_logical_table_is_the_real_one() -> None:
    assert record(value(1)).logical_table == "trade.orders"


def test_key_tags_and_change_id_are_known_without_parsing() -> None:
    one = record(b"\xffpoison", *headers(3, ["x", "y"]))
    assert (one.key, one.tags, one.change_id) == ({"id": 1}, frozenset("xy"), f"{SERVER}:3#0")
    with pytest.raises(MalformedRecord, match=r"no JSON.*partition=0, offset=0"):
        _ = one.seq


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"op":"c"}', b'{"op":"c","source":1}', b""])
def test_a_value_that_is_no_envelope_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRecord):
        _ = record(body).op


def test_an_unknown_operation_and_a_missing_field_are_named() -> None:
    with pytest.raises(MalformedRecord, match="op is 'z'"):
        _ = record(value(1, op="z")).op
    with pytest.raises(MalformedRecord, match="source has no seq"):
        _ = record(b'{"op":"c","source":{}}').seq
    with pytest.raises(MalformedRecord, match="source has no table"):
        _ = record(b'{"op":"c","source":{"db":"trade"}}').logical_table
    with pytest.raises(MalformedRecord, match="no header change_id"):
        _ = record(value(1)).change_id


@pytest.mark.remedy("client.WireTooNew")
def test_a_newer_contract_is_refused_until_the_client_knows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(WireTooNew, match=r"version 2.*Update aqueduct_client"):
        _ = record(value(1, wire=2)).seq
    monkeypatch.setattr(records, "WIRE_VERSION", 2)
    assert record(value(1, wire=2)).seq == 1


@pytest.mark.remedy("client.ImagesElsewhere")
def test_images_that_are_elsewhere_are_never_taken_for_null() -> None:
    stored = b'{"before":null,"after":{"id":1}}'
    envelope = json.loads(value(1))
    pointer = {"location": "file:///c", "size": len(stored), "sha256": sha256(stored).hexdigest()}
    envelope |= {"after": None, "claim_check": pointer}
    one = record(json.dumps(envelope).encode())
    with pytest.raises(ImagesElsewhere, match="claim_check"):
        _ = one.after
    assert one.with_images(stored).after == {"id": 1}
    with pytest.raises(MalformedRecord, match="SHA-256"):
        one.with_images(stored + b" ")
    left = record(json.dumps(json.loads(value(1)) | {"left_out": {"after": 9}}).encode())
    with pytest.raises(ImagesElsewhere):
        _ = left.before


def test_a_record_in_another_format_is_refused_by_name() -> None:
    one = record(b'{"data":[{"id":"1"}]}', *headers(1), ("format", b"canal"), offset=5)
    assert one.change_id == f"{SERVER}:1#0"
    for read in (lambda: one.seq, lambda: one.after, lambda: one.logical_table):
        with pytest.raises(
            ForeignFormat, match=r"the format canal \[.*offset=5\].*docs/formats.md"
        ):
            read()


def test_a_record_in_another_format_is_not_delivered_and_a_tombstone_is_passed_over() -> None:
    selection = Selection(tables={TOPIC: None})
    with pytest.raises(ForeignFormat):
        selection.take(record(b"{}", *headers(1), ("format", b"canal")).raw, Window(8))
    assert selection.take(record(None, *headers(1), ("format", b"canal")).raw, Window(8)) is None
