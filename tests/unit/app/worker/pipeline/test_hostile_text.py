"""Hostile names in records that are composed as text, as the parsers of other programs read them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from aiokafka.record import MemoryRecords

from app.settings.connect_form import ConnectForm
from app.worker.pipeline.formats import registry
from app.worker.pipeline.formats.avro import AvroFactory
from app.worker.pipeline.formats.registry import FORMATS
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import SelectedRows
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Execution, Session, Table
from connectors.mysql.ddl.parsed_statement import parse_statement
from connectors.mysql.select.selected_table import SelectedTable
from connectors.mysql.types.registry import FieldType, MappedColumn
from connectors.store.registry import MemoryRegistry
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tables.state.journal.state import encoded
from tests import made
from tests.hostile import NAMES
from tests.unit.app.worker.pipeline.formats.test_transcoded import HISTORY
from tests.unit.app.worker.pipeline.formats.test_transcoded import routes as routes_of
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.portions.test_inserted_rows import cursor
from tests.unit.app.worker.pipeline.portions.test_selected_rows import (
    packets,
    selected,
    statement,
    watch,
)
from tests.unit.app.worker.pipeline.runs import RULES, pieces_of, run_stage, spec_of, versions_of
from tests.unit.connectors.mysql.select.packets import packets_of
from tests.unit.connectors.mysql.select.tables import CHARSETS, MYSQL
from wire.changes import reading_id

FORMAT_NAMES = ("debezium", "canal", "maxwell", "avro", "connect")
SIGNS = (
    *(name for name in NAMES if len(name.encode()) < 200),
    '","op":"c","x":"',
    '\\"',
    "\u2028line",
    "\x1f\x7f\x80",
)
Found = tuple[str, Any, Any, dict[str, bytes]]


@pytest.fixture
def schemas(monkeypatch: pytest.MonkeyPatch) -> MemoryRegistry:
    """The registry of records in Avro."""
    held = MemoryRegistry()
    factories = {**FORMATS, "avro": AvroFactory(lambda _: held)}
    monkeypatch.setattr(registry, "FORMATS", factories)
    return held


def read(pieces: Iterable[Piece], schemas: MemoryRegistry) -> Iterator[Found]:
    """Yield the topic, key, value and headers of each record."""
    for piece in pieces:
        assert piece.error is None
        for batch in piece.batches:
            held = MemoryRecords(bytes(batch.raw))
            while (found := held.next_batch()) is not None:
                for one in found:
                    key, value = (_parsed(text, schemas) for text in (one.key, one.value))
                    yield batch.topic, key, value, dict(one.headers)


def _parsed(text: bytes | None, schemas: MemoryRegistry) -> Any:
    if text is None:
        return None
    if text[0] != 0:
        return json.loads(text)
    schema = fastavro.parse_schema(json.loads(schemas.schemas[int.from_bytes(text[1:5], "big")]))
    return fastavro.schemaless_reader(io.BytesIO(text[5:]), schema, None)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_the_files_of_a_binlog_that_name_transactions_may_have_any_name(
    name: str, schemas: MemoryRegistry
) -> None:
    for file in (one for one in SIGNS if "/" not in one):
        source = Source([list(one) for one in HISTORY], gtids=False, basename=file)
        pieces = pieces_of(source, gtids=False, routes=routes_of(name), compacted=True)
        found = list(read(pieces, schemas))
        markers = [one for one in found if "__transactions" in one[0]]
        wanted = {source.name(number) for number in range(1, len(HISTORY) + 1)}
        assert {key["id"] for _, key, _, _ in markers} == wanted
        assert {value["id"] for _, _, value, _ in markers} == wanted
        rows = [one for one in found if one[0] == "aq.t"]
        # In a compacted topic the ChangeId is the key of rows without one, and of a TRUNCATE.
        keys = {key["change_id"] for _, key, _, _ in rows if "change_id" in key}
        assert keys == {f"{source.name(1)}#2", f"{source.name(4)}#0"}
        values = [value for _, _, value, _ in rows if value is not None]
        if name in ("debezium", "avro"):
            assert {value["transaction"]["id"] for value in values} == wanted
        if name in ("debezium", "avro", "connect"):
            assert {value["source"]["file"].rpartition(".")[0] for value in values} == {file}


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_existing_rows_of_tables_and_columns_of_any_name_have_valid_records(
    name: str, schemas: MemoryRegistry
) -> None:
    mapping = from_yaml(json.dumps({"databases": {"trade": {"from": ["d"], "format": name}}}))
    routes = Routes(prefix="aq", include=r"d\..*", destination="shop", mapping=mapping)
    rules, ids = replace(RULES, routes=routes), set()
    for number, sign in enumerate(SIGNS, 1):
        portion = _selected(_table(number, sign), number)
        spec = spec_of(rules, cursor(), {})
        pieces = run_stage([watch(("d", sign)), portion], cursor(), spec)
        ((key, value, headers),) = [
            (key, value, headers)
            for topic, key, value, headers in read(pieces, schemas)
            if topic == routes.topic(("d", sign))
        ]
        assert key == {sign: 1}
        change = headers["change_id"].decode()
        assert change.isascii()
        ids.add(change.rpartition(":")[0])
        if name == "debezium":
            assert value["after"] == {sign: 1, f"{sign}2": 7}
            assert value["source"]["table"] == sign
            assert f"{value['transaction']['id']}#0" == change
        elif name == "canal":
            assert value["data"] == [{sign: "1", f"{sign}2": "7"}]
        elif name == "maxwell":
            assert value["data"] == {sign: 1, f"{sign}2": 7}
        elif name == "connect":
            assert value["after"] == {sign: 1, f"{sign}2": 7}
            assert value["source"]["table"] == sign
        else:
            assert sorted(value["after"].values()) == [1, 7]
    assert len(ids) == len(SIGNS)


@pytest.mark.parametrize("with_schemas", [False, True])
@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_labels_defaults_and_comments_may_have_any_text(
    name: str, with_schemas: bool, schemas: MemoryRegistry
) -> None:
    mapping = from_yaml(json.dumps({"databases": {"trade": {"from": ["d"], "format": name}}}))
    routes = Routes(prefix="aq", include=r"d\..*", destination="shop", mapping=mapping)
    form = ConnectForm(key_schemas=with_schemas, value_schemas=with_schemas)
    rules = replace(RULES, routes=routes, connect=form)
    for text in SIGNS:
        known = _with_text(text)
        table = SelectedTable(("d", "t"), known, CHARSETS, server=MYSQL)
        row = [b"1", text.encode(), b"2", b"2", text.encode()]
        portion = replace(
            selected(of=_table(1, "t")),
            table_map=table.table_map,
            blocks=(packets_of(table.columns, [row]),),
        )
        spec = replace(spec_of(rules, cursor(), {}), charsets=CHARSETS, known={("d", "t"): known})
        ddl = statement(1, f"ALTER TABLE d.u ADD w int COMMENT {_literal(text)}")
        pieces = run_stage([watch(("d", "t")), portion, ddl], cursor(), spec)
        found = list(read(pieces, schemas))
        ((key, value),) = [one[1:3] for one in found if one[0] == routes.topic(("d", "t"))]
        if name == "connect" and with_schemas:
            columns = value["schema"]["fields"][1]["fields"]
            allowed = [one["parameters"]["allowed"] for one in columns if "parameters" in one]
            assert allowed == [f"other,{_of_connect(text)}", f"other,{_of_set(text)}"]
            key, value = key["payload"], value["payload"]
        assert key == {"id": 1, "k": text}
        after = value["data"] if name in ("canal", "maxwell") else value["after"]
        if name == "canal":
            (after,) = after
            assert value["mysqlType"]["e"] == _type_of(text)
        wanted: dict[str, tuple[Any, Any]] = {
            "canal": ("2", "2"),
            "maxwell": (text, [_of_set(text)]),
            "connect": (_of_connect(text), _of_set(text)),
        }
        assert (after["e"], after["s"]) == wanted.get(name, (text, _of_set(text)))
        assert (after["k"], after["v"]) == (text, text)
        (announced,) = versions_of(pieces)
        version = json.loads(encoded(announced.to_json()))
        assert version["comment"] == text
        assert {one["name"]: one.get("comment") for one in version["columns"]} == {
            "id": None, "k": text, "e": text, "s": None, "v": text,
        }  # fmt: skip
        assert version["columns"][2]["column_type"] == _type_of(text)
        assert version["columns"][4]["initial"] == {"value": text}
        (altered,) = [value for topic, _, value, _ in found if topic == "aq.__ddl.shop"]
        assert altered["ddl"].endswith(f" COMMENT {_literal(text)}")


def _of_set(text: str) -> str:
    """The label of the SET, which cannot have a comma."""
    return text.replace(",", ";")


def _of_connect(text: str) -> str:
    """The label as Debezium writes it."""
    return text.replace(",", "\\,")


def _type_of(text: str) -> str:
    """The type of the ENUM as the server prints it."""
    label = _literal(text).replace("\n", "\\n").replace("\r", "\\r")
    return f"enum('other',{label})"


def _literal(text: str) -> str:
    """The text in SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _with_text(text: str) -> Table:
    """A table with this text wherever a definition may have one."""
    quoted, label = _literal(text), _literal(_of_set(text))
    catalog = Catalog(MYSQL)
    columns = (
        "id int",
        f"k varchar(200) DEFAULT {quoted} COMMENT {quoted}",
        f"e enum('other',{quoted}) DEFAULT {quoted} COMMENT {quoted}",
        f"s set('other',{label})",
    )
    for sql in (
        "CREATE DATABASE d",
        f"CREATE TABLE d.t ({', '.join(columns)}, PRIMARY KEY (id, k)) COMMENT {quoted}",
        f"ALTER TABLE d.t ADD v varchar(200) NOT NULL DEFAULT {quoted} COMMENT {quoted}",
    ):
        parsed = parse_statement(sql, MYSQL, Session())
        catalog.apply_parsed(replace(parsed, execution=Execution(mark="1")))
    return catalog["d", "t"]


def _table(number: int, name: str) -> TableMap:
    """A table and two INT columns whose names begin with its own; the first is the key."""
    columns = [
        MappedColumn(type=FieldType.LONG, metadata=0, nullable=False, name=one, unsigned=False)
        for one in (name, f"{name}2")
    ]
    return TableMap(
        table_id=number, database="d", table=name, columns=tuple(columns), primary_key=(0,)
    )


def _selected(table: TableMap, number: int) -> SelectedRows:
    return replace(
        selected(of=table),
        read=reading_id("one", ("d", table.table), number),
        table_map=made.table_map(table)[made.HEADER.size :],
        blocks=(packets(table, [(1, 7)]),),
    )


def test_two_tables_never_share_the_id_of_a_reading() -> None:
    assert reading_id("7", ("shop", "order_items$"), 3) == "snapshot:7:shop.order_items$:3"
    assert reading_id("7", ("a.b", "c"), 1) != reading_id("7", ("a", "b.c"), 1)
    assert reading_id("7", ("a", "b:1"), 1) != reading_id("7", ("a", "b"), 11)
