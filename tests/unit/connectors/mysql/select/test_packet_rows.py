"""Rows are encoded in events of limited size, and decoded to the same rows."""

import json
from dataclasses import replace

import pytest

from connectors.errors import SnapshotUnsupported
from connectors.mysql.binlog.table_map import parse_table_map, table_id_of
from connectors.mysql.ddl.definition import Server
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.counter import row_count
from connectors.mysql.select.packets import PacketEncoder
from tests.unit.connectors.mysql.select.packets import packets_of
from tests.unit.connectors.mysql.select.tables import (
    CHARSETS,
    MARIADB,
    MYSQL,
    column,
    encoder,
    read_back,
)

NUMBERS = (column("int", "id", nullable=False), column("varchar(9)", "name"))


def test_a_row_is_read_back_with_each_combination_of_nulls() -> None:
    kinds = (
        "int",
        "varchar(9)",
        "mediumtext",
        "datetime(3)",
        "json",
        "mediumint",
        "float",
        "binary(3)",
        "bit(2)",
    )
    columns = [column(kind, f"c{n}") for n, kind in enumerate(kinds)]
    texts = (
        b"1",
        b"x",
        b"y" * 70_000,
        b"2026-11-27 10:11:12.130",
        b'{"a": 1}',
        b"-2",
        b"1.5",
        b"a\0\0",
        b"\2",
    )
    values = (1, "x", "y" * 70_000, "2026-11-27T10:11:12.130", '{"a": 1}', -2, 1.5, "YQAA", "Ag==")
    rows, expected = [], []
    for nulls in range(1 << len(kinds)):
        rows.append([None if nulls >> n & 1 else text for n, text in enumerate(texts)])
        expected.append(tuple(None if nulls >> n & 1 else one for n, one in enumerate(values)))
    assert read_back(encoder(*columns), rows) == expected


def test_a_body_has_as_many_rows_as_fit() -> None:
    made = encoder(*NUMBERS)
    rows = [(b"%d" % n, b"abc") for n in range(10)]
    # A head of 12 bytes; 9 of each row.
    bodies = list(made.bodies(rows, most_bytes=12 + 3 * 9))
    table_map = parse_table_map(made.table_map)
    assert [len(body) for body in bodies] == [39, 39, 39, 21]
    assert [row_count(table_map, int(made.event_type), body) for body in bodies] == [3, 3, 3, 1]


def test_a_row_that_is_larger_is_alone() -> None:
    made = encoder(*NUMBERS)
    bodies = list(made.bodies([(b"1", b"a"), (b"2", b"b" * 9), (b"3", b"c")], most_bytes=20))
    assert [len(body) - 12 for body in bodies] == [7, 15, 7]
    assert list(made.bodies([], most_bytes=20)) == []


@pytest.mark.parametrize(
    "text",
    [
        "null", "-0.0", "1e20", "12.50", '""', "[0.1, 0.10, 0.100]", '"\\u0001\\b\\" / é 😀"',
        '{"bb": 1, "a": {"b": [1, 2.5, null, true]}, "a": 2}', f'["{"x" * 70_000}"]',
    ],
)  # fmt: skip
def test_a_document_keeps_the_text_that_the_server_has_written(text: str) -> None:
    made = encoder(column("int", "id"), column("json", "doc"), key="id")
    assert read_back(made, [(b"1", text.encode())]) == [(1, text)]
    decoder = CompiledDecoder(parse_table_map(made.table_map), CHARSETS)
    (body,) = made.bodies([(b"1", text.encode()), (b"2", None)])
    first, second = decoder.rows(int(made.event_type), body)
    assert json.loads(first[1] or "") == {"id": 1, "doc": text}
    assert json.loads(second[1] or "") == {"id": 2, "doc": None}


def test_the_decoder_of_the_pipeline_reads_the_rows_at_once() -> None:
    made = encoder(*NUMBERS, key="id")
    decoder = CompiledDecoder(parse_table_map(made.table_map), CHARSETS)
    (body,) = made.bodies([(b"1", b"a"), (b"2", None)])
    assert decoder.rows(int(made.event_type), body) == [
        (None, '{"id":1,"name":"a"}', None, '{"id":1}', None),
        (None, '{"id":2,"name":null}', None, '{"id":2}', None),
    ]


def test_events_have_the_id_of_their_table_map() -> None:
    table_map = replace(parse_table_map(encoder(*NUMBERS).table_map), table_id=0x0102_0304_0506)
    (body,) = PacketEncoder(table_map).bodies(packets_of(table_map.columns, [(b"1", b"a")]))
    assert table_id_of(body) == 0x0102_0304_0506


@pytest.mark.parametrize("count", [1, 3])
def test_a_row_of_other_columns_is_refused(count: int) -> None:
    table_map = parse_table_map(encoder(*NUMBERS).table_map)
    columns = [table_map.columns[0], *[table_map.columns[1]] * 2][:count]
    packets = packets_of(columns, [(b"1", b"a", b"b")[:count]])
    with pytest.raises(SnapshotUnsupported, match="a row is not in the form of its columns"):
        list(PacketEncoder(table_map).bodies(packets))


def test_bytes_longer_than_their_type_are_refused() -> None:
    with pytest.raises(SnapshotUnsupported, match="column 'name'"):
        read_back(encoder(*NUMBERS), [(b"1", b"x" * 256)])
    with pytest.raises(SnapshotUnsupported, match="column 'c'"):
        read_back(encoder(column("mediumblob")), [(bytes(1 << 24),)])


def test_a_label_in_question_marks_is_refused() -> None:
    with pytest.raises(SnapshotUnsupported, match=r"a label of column 'e'.*\[table=shop\.orders\]"):
        encoder(column("enum('a','?')", "e"))


@pytest.mark.parametrize("server", [MYSQL, MARIADB])
def test_labels_are_numbers(server: Server) -> None:
    columns = (column("enum('a','it''s')", "e", charset="latin1"), column("set('x','y')", "s"))
    made = encoder(*columns, server=server)
    rows = read_back(made, [(b"2", b"3"), (b"0", b"0")], mariadb=server is MARIADB)
    assert rows == [("it's", "x,y"), ("", "")]
