"""Bytes that no server writes: what they announce, repeat or leave out ends in an error of ours, and soon."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
import zstandard

from connectors.errors import AqueductError, CorruptEvent, MalformedEvent, UnsupportedEvent
from connectors.mysql.binlog.events import EventType, payload_events
from connectors.mysql.binlog.gtid_events import parse_gtid_tagged
from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.buffer import inflated
from connectors.mysql.charsets import Charsets
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.counter import row_count
from connectors.mysql.rows.decoder import RowDecoder
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.stream.transaction_payload import Payload
from connectors.mysql.transaction_reader import TransactionReader
from connectors.mysql.types.decimals import decimal_groups, decimal_text
from connectors.mysql.types.floats import shortest_float32
from connectors.mysql.types.json_binary import document_text, double_text
from connectors.mysql.types.json_diff import patched
from connectors.mysql.types.json_text import Documents
from connectors.mysql.types.registry import FieldType, MappedColumn
from connectors.mysql.types.temporal import fraction_text
from tests.made import (
    SERVER,
    START,
    chunk_of,
    event,
    gtid,
    int_rows,
    int_table,
    packed,
    payload,
    payload_body,
    placed,
    table_map,
    xid,
)
from tests.steps import Recorded
from tests.unit.connectors.mysql.binary_json import document

CHARSETS = Charsets({255: "utf8mb4"}, {"utf8mb4": 4})
LAUGHS = b"".join(struct.pack("<HHBHBH", 2, 10, 2, 10, 2, 10) for _ in range(60)) + bytes(4)
"""Arrays of two elements, which are both the next such array."""


def read(*events: bytes) -> list[object]:
    recorded = Recorded()
    TransactionReader(SERVER, CHARSETS).read(chunk_of(*events), recorded)
    return list(recorded.steps)


@pytest.mark.parametrize("read", [document_text, Documents().text])
def test_a_document_whose_parts_share_their_bytes_is_refused(
    read: Callable[[bytes], str],
) -> None:
    with pytest.raises(ValueError, match="share their bytes"):
        read(b"\2" + LAUGHS)


def test_functions_of_arrays_refuse_a_document_that_shares_its_bytes_too() -> None:
    documents = Documents()
    for _ in range(500):
        documents.text(document([[1, 2], [3, 4]]))
    with pytest.raises(ValueError, match=r"share their bytes|nested"):
        documents.text(b"\2" + LAUGHS)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no number"):
        double_text(value)
    with pytest.raises(ValueError, match="FLOAT"):
        shortest_float32(struct.pack("<f", value))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("decoder", [CompiledDecoder, RowDecoder])
def test_a_double_that_is_no_number_is_never_published_as_null(
    value: float, decoder: type[CompiledDecoder] | type[RowDecoder]
) -> None:
    column = MappedColumn(type=FieldType.DOUBLE, metadata=0, nullable=True, name="d")
    described = replace(int_table(), columns=(column,))
    body = bytes(8) + b"\2\0\1\xff\0" + struct.pack("<d", value)
    with pytest.raises(MalformedEvent, match="DOUBLE"):
        list(decoder(described, CHARSETS).decode(EventType.WRITE_ROWS, body))


def test_digits_and_fractions_that_do_not_fit_are_refused() -> None:
    groups, whole = decimal_groups(2, 0)
    assert decimal_text(b"\xe3", groups, whole) == "99"
    with pytest.raises(ValueError, match="digits"):
        decimal_text(b"\xe4", groups, whole)
    with pytest.raises(ValueError, match="fraction"):
        fraction_text(1_000_000, 6)


def test_documents_do_not_grow_too_deep_by_partial_updates() -> None:
    deep: list[object] = []
    for _ in range(50):
        deep = [deep]
    raw = document(deep)
    diffs = b"".join(
        b"\0" + packed(len(path)) + path + packed(len(raw)) + raw
        for path in (b"$" + b"[0]" * (50 * n) for n in range(20))
    )
    with pytest.raises(ValueError, match="too deep"):
        patched("[]", diffs)


def test_an_insertion_after_an_array_of_whatever_index_appends() -> None:
    raw, path = document(2), b"$[99999999999999999999]"
    assert patched("[1]", b"\1" + packed(len(path)) + path + packed(len(raw)) + raw) == "[1, 2]"


def images_of_nothing(kind: EventType) -> bytes:
    return bytes(8) + b"\2\0\1" + b"\0" * (2 if kind == EventType.UPDATE_ROWS else 1) + b"rest"


@pytest.mark.parametrize(
    "kind", [EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS]
)
def test_rows_without_a_column_end(kind: EventType) -> None:
    body, described = images_of_nothing(kind), int_table()
    with pytest.raises(MalformedEvent):
        row_count(described, kind, body)
    for decoder in (RowDecoder(described, CHARSETS), CompiledDecoder(described, CHARSETS)):
        with pytest.raises(UnsupportedEvent, match="distinguished"):
            list(decoder.decode(kind, body))


@pytest.mark.parametrize(
    "columns",
    [
        (),
        (MappedColumn(type=FieldType.LONG, metadata=0, nullable=True, name="c"),) * 2,
        (MappedColumn(type=FieldType.LONG, metadata=0, nullable=True, name="c"),) * 5000,
    ],
    ids=["none", "one name twice", "more than a table has"],
)
def test_columns_that_no_table_has_are_refused(columns: tuple[MappedColumn, ...]) -> None:
    body = table_map(replace(int_table(), columns=columns))[19:]
    with pytest.raises(ValueError, match="columns"):
        parse_table_map(body)


@pytest.mark.parametrize(
    ("kind", "metadata"),
    [
        (FieldType.NEWDECIMAL, b"\x00\x00"),
        (FieldType.NEWDECIMAL, b"\x42\x00"),
        (FieldType.NEWDECIMAL, b"\x02\x03"),
        (FieldType.BIT, b"\x01\x08"),
        (FieldType.BIT, b"\x00\x00"),
        (FieldType.BLOB, b"\x05"),
        (FieldType.JSON, b"\x00"),
        (FieldType.DATETIME2, b"\x07"),
        (FieldType.STRING, b"\xf7\x03"),
        (FieldType.STRING, b"\xf8\x09"),
    ],
)
def test_metadata_that_its_type_never_has_is_refused(kind: int, metadata: bytes) -> None:
    body = bytes(8) + b"\1d\0\1t\0\1" + bytes([kind, len(metadata)]) + metadata + b"\0"
    with pytest.raises(ValueError, match="metadata"):
        parse_table_map(body)


@pytest.mark.parametrize("number", [0, 1 << 63, (1 << 64) - 1])
def test_a_gtid_with_a_number_that_none_has_is_refused(number: int) -> None:
    with pytest.raises(MalformedEvent, match="number"):
        read(gtid(number), xid())


def test_a_tag_shorter_than_it_says_is_refused() -> None:
    body = bytearray(b"\2\0\2\0\0\2" + bytes(16) + b"\4\4\6\x10ab")
    body[1] = len(body) << 1
    with pytest.raises(IndexError):
        parse_gtid_tagged(bytes(body))


def test_compressed_transactions_within_one_another_are_refused() -> None:
    nested = xid()
    for _ in range(2000):
        nested = payload(nested, algorithm=255)
    with pytest.raises(CorruptEvent, match="within another"):
        read(nested)


@pytest.mark.parametrize("size", [1 << 30, 1 << 40, (1 << 64) - 1])
def test_a_payload_gets_no_room_for_what_it_announces(size: int) -> None:
    body = payload_body(zstandard.compress(xid()), size=size)
    with pytest.raises(CorruptEvent, match="announced"):
        payload_events(body)
    with pytest.raises(CorruptEvent, match="announced"):
        list(Payload.parse(memoryview(body)).pieces(10))


def test_a_compressed_event_of_more_than_any_packet_is_refused() -> None:
    with pytest.raises(CorruptEvent, match="announced"):
        inflated(zlib.compress(b"x"), (1 << 30) + 1)


@pytest.mark.parametrize("size", [0, 18, (1 << 30) + 1])
def test_an_event_of_a_payload_that_cannot_be_so_long_is_refused(size: int) -> None:
    content = struct.pack("<IBIIIH", 0, 16, 7, size, 0, 0) + bytes(40)
    body = payload_body(zstandard.compress(content), size=len(content))
    with pytest.raises(CorruptEvent, match=f"states {size} bytes"):
        list(Payload.parse(memoryview(body)).pieces(10))


def cut(*events: bytes, target: int) -> None:
    cutter = Cutter(START, checksum=True, target=target)
    for one in events:
        whole = placed(one, START.pos, checksum=True)
        packet = (len(whole) + 1).to_bytes(3, "little") + b"\0\0" + whole
        cutter.space()[: len(packet)] = packet
        list(cutter.take(len(packet)))


def test_a_compressed_statement_that_is_none_is_an_error_of_ours() -> None:
    with pytest.raises(AqueductError, match="coordinates"):
        cut(event(165, bytes(14) + b"\x81\x05nothing"), target=1000)


def test_rows_too_short_to_be_cut_after_are_an_error_of_ours() -> None:
    table: TableMap = int_table()
    with pytest.raises(MalformedEvent, match="coordinates"):
        cut(gtid(1), table_map(table), event(30, b"\1"), int_rows(table, 1), target=30)


def test_an_error_does_not_hold_the_bytes_that_were_read() -> None:
    body = bytes(8) + b"\xc8" + b"\xff" * 200 + b"\0\1t\0\1\3\0\0"
    with pytest.raises(MalformedEvent) as caught:
        read(event(EventType.TABLE_MAP, body))
    assert "\\xff" not in str(caught.value)
    # What remains is a reason of one line, and the remedy.
    assert len(caught.value.detail) < 150
