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

from app.worker.pipeline.formats import registry
from app.worker.pipeline.formats.avro import AvroFactory
from app.worker.pipeline.formats.registry import FORMATS
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import SelectedRows
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.types.registry import FieldType, MappedColumn
from connectors.store.registry import MemoryRegistry
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests import made
from tests.hostile import NAMES
from tests.unit.app.worker.pipeline.formats.test_transcoded import HISTORY
from tests.unit.app.worker.pipeline.formats.test_transcoded import routes as routes_of
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.portions.test_inserted_rows import cursor
from tests.unit.app.worker.pipeline.portions.test_selected_rows import packets, selected, watch
from tests.unit.app.worker.pipeline.runs import RULES, pieces_of, run_stage, spec_of
from wire.changes import reading_id

FORMAT_NAMES = ("debezium", "canal", "maxwell", "avro")
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
        else:
            assert sorted(value["after"].values()) == [1, 7]
    assert len(ids) == len(SIGNS)


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
