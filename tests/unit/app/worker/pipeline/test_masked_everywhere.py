"""A canary in masked columns, written in all ways, and searched for in all that leaves the decoders.

All output that could show it has a guard: rules in both decoders, no quotations in faults, sealed raw rows,
and statements without literals. ``test_without_its_guard_a_place_shows_the_canary`` takes each away.
"""

from __future__ import annotations

import base64
import logging
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.worker.pipeline.capture.schema_tracker import SchemaTracker
from app.worker.pipeline.gather.captured_tables import Schema, Unpublished
from app.worker.pipeline.gather.masked_columns import MaskedColumns
from app.worker.pipeline.gather.parked_event import parked_of
from app.worker.pipeline.hidden_statement import hidden_table
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import CapturedChunk
from app.worker.schemas.quarantine_release import Release
from connectors.errors import MappingError
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.online import ShadowRules
from connectors.mysql.position import SourceOffset
from connectors.mysql.schema.table_map_completion import adopted
from connectors.mysql.types.registry import FieldType, MappedColumn
from connectors.store.registry import RegistryAccess
from tables.history.codec import checkpoint_records, history_records
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import NO_KEYS, MaskingKeys
from tables.rules.routes.routes import Routes
from tables.state.cursor import Cursor
from tables.state.quarantine import Entry, Outcome, Resolution
from tests import made
from tests.made import SERVER as UUID
from tests.schema_registry import schema_registry
from tests.unit.app.worker.pipeline.gather.parked import SERVER, UTF8MB4
from tests.unit.app.worker.pipeline.history import CHARSETS
from tests.unit.app.worker.pipeline.runs import RULES, read_batches, run_stage, spec_of
from wire.topics import ddl_topic, dead_letters_topic, quarantine_topic

CANARY, NUMBER = "canary bird", 51_505_150
KEYS = MaskingKeys((("k", bytes(range(32))),))
MAPPING = """
tables:
  notes:
    from: [shop.notes, shop.parked, shop.kept]
    row_filter: note LIKE '%canary%' OR note IS NULL OR id > 0
    tags: {note: noted, card: carded}
    column_actions: {id: {hmac: k}, note: redact, card: {truncate: 2}, gone: drop}
"""
ROUTES = Routes(prefix="aq", include=r"shop\..*", mapping=from_yaml(MAPPING), keys=KEYS)


def _text(name: str) -> MappedColumn:
    return MappedColumn(
        type=FieldType.VARCHAR, metadata=400, nullable=True, name=name, collation=255
    )


def _table(name: str, number: int) -> TableMap:
    id_ = MappedColumn(type=FieldType.LONG, metadata=0, nullable=False, name="id", unsigned=False)
    texts = (_text("note"), _text("card"), _text("gone"))
    return TableMap(
        table_id=number, database="shop", table=name, columns=(id_, *texts), primary_key=(0,)
    )


NOTES, PARKED, PLAIN = _table("notes", 1), _table("parked", 2), _table("plain", 3)
KEPT = _table("kept", 4)
NAMES = {("shop", one.table): one for one in (NOTES, PARKED, PLAIN, KEPT)}


def image(number: int, text: bytes) -> bytes:
    """The canary in each column; the truncated one has other characters before it."""
    texts = (text, b"xx" + text, text)
    # The length of a VARCHAR that may have more than 255 bytes has two.
    return (
        b"\0"
        + struct.pack("<i", number)
        + b"".join(struct.pack("<H", len(one)) + one for one in texts)
    )


GOOD = image(NUMBER, CANARY.encode())
OTHER = image(NUMBER + 1, b"new " + CANARY.encode())
LARGE = image(NUMBER + 2, CANARY.encode() * 20)
BAD = image(NUMBER + 3, b"\xff\xfe" + CANARY.encode())
INSERT = f"INSERT INTO notes VALUES ({NUMBER}, '{CANARY}', \"{CANARY}\", 0x{CANARY.encode().hex()})"
STATEMENTS = (
    f"ALTER TABLE notes ADD COLUMN c1 varchar(80) DEFAULT '{CANARY}' COMMENT '{CANARY}'",
    f"ALTER TABLE parked ALTER note SET DEFAULT '{CANARY}', AUTO_INCREMENT = {NUMBER}",
    f"ALTER TABLE notes PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN ({NUMBER}))",
    f"CREATE TABLE copied SELECT * FROM notes WHERE note = '{CANARY}' /* {CANARY} */",
    f"CREATE VIEW seen AS SELECT id FROM notes WHERE id = {NUMBER}",
    f"ALTER TABLE notes FROBNICATE '{CANARY}'",
    f"CREATE TRIGGER t AFTER INSERT ON notes FOR EACH ROW SET @x = '{CANARY}'",
)
PLAIN_STATEMENT = "ALTER TABLE plain ADD COLUMN c1 varchar(80) DEFAULT 'shown'"


def transactions() -> Iterator[list[bytes]]:
    """Each becomes a chunk."""
    number = 0

    def whole(*events: bytes) -> list[bytes]:
        nonlocal number
        number += 1
        return [made.gtid(number), made.query("BEGIN"), *events, made.xid()]

    def rows(kind: int, *images: bytes, table: TableMap = NOTES) -> list[bytes]:
        return [made.rows_query(INSERT), made.table_map(table), made.rows(table, images, kind=kind)]

    yield whole(*rows(EventType.WRITE_ROWS, GOOD, LARGE))
    yield whole(*rows(EventType.UPDATE_ROWS, GOOD, image(NUMBER, b"x " + CANARY.encode())))
    yield whole(*rows(EventType.UPDATE_ROWS, GOOD, OTHER))
    yield whole(*rows(EventType.DELETE_ROWS, OTHER, LARGE))
    yield whole(*rows(EventType.WRITE_ROWS, GOOD, BAD, OTHER))
    yield whole(*rows(EventType.WRITE_ROWS, GOOD, OTHER, table=PARKED))
    yield whole(*partial())
    # A statement that also reads a masked table changes one that is not.
    yield whole(
        made.rows_query(INSERT),
        made.table_map(made.int_table(9)),
        made.int_rows(made.int_table(9), 1),
    )
    for sql in (*STATEMENTS, PLAIN_STATEMENT):
        number += 1
        yield [made.gtid(number), made.query(sql)]


def partial() -> list[bytes]:
    """An update whose images lack columns."""
    body = (1).to_bytes(6, "little") + b"\1\0" + b"\2\0" + b"\4" + b"\x03\x03"
    short = struct.pack("<H", len(CANARY)) + CANARY.encode()
    for _ in range(2):
        body += b"\0" + struct.pack("<i", NUMBER) + short
    return [made.rows_query(INSERT), made.table_map(NOTES), made.event(EventType.UPDATE_ROWS, body)]


def history() -> SchemaHistory:
    found = SchemaHistory()
    found.init("shop")
    tables = {name: adopted(one, CHARSETS, database=UTF8MB4) for name, one in NAMES.items()}
    for name in (("shop", "notes"), ("shop", "parked"), ("shop", "kept")):
        tables[name] = hidden_table(name, _with_default(tables[name]), ROUTES)
    position = HistoryPosition.between(_cursor().offset, ts_ms=0)
    found.baseline(tables, {"shop": UTF8MB4}, position, SERVER)
    return found


def _with_default(table: Any) -> Any:
    first, *rest = table.columns
    return replace(
        table,
        columns=(replace(first, definition=f"DEFAULT {NUMBER} COMMENT '{CANARY}'"), *rest),
        options=f"ENGINE=InnoDB COMMENT='{CANARY}'",
    )


def _cursor() -> Cursor:
    offset = SourceOffset(server_uuid=UUID, coordinates=made.START)
    return Cursor(destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset)


class Published:
    """All that leaves the decoders and the tracker."""

    def __init__(
        self,
        folder: Path,
        *,
        limit: int = 10,
        oversize: str = "claim_check",
        mapping: str = MAPPING,
        largest: int = 900,
        registry: str = "",
    ) -> None:
        rules = replace(
            RULES,
            routes=replace(ROUTES, mapping=from_yaml(mapping)),
            statements=True,
            registry=RegistryAccess(url=registry),
            undecodable_limit=limit,
            oversize=oversize,
            claims=str(folder),
            largest=largest,
            max_batch_bytes=largest,
        )
        known: dict[tuple[str, str], Schema] = {("shop", "parked"): Unpublished.QUARANTINED}
        self.spec = replace(spec_of(rules, _cursor(), {}), server=SERVER, known=known)
        self.history = history()
        tracker = SchemaTracker(
            self.history, server_uuid=UUID, charsets=CHARSETS, mariadb=False, server=SERVER,
            shadows=ShadowRules(), routes=ROUTES,
        )  # fmt: skip
        self.pieces: list[Piece] = run_stage(_chunks(tracker), _cursor(), self.spec)
        self.folder = folder

    def records(self, topic: str) -> list[Any]:
        return [
            one
            for piece in self.pieces
            for batch in piece.batches
            if batch.topic == topic
            for one in read_batches(f"{topic}__quarantine", 0, bytes(batch.raw))
        ]

    def shown(self) -> Iterator[tuple[str, bytes]]:
        """Places, with their bytes."""
        for piece in self.pieces:
            for batch in piece.batches:
                yield batch.topic, bytes(batch.raw)
            yield "dead letters as reported", repr(piece.dead_letters).encode()
            yield "the trace of the source", repr(piece.trace).encode()
            yield "the position", repr((piece.coordinates, piece.resume)).encode()
            yield (
                "an error",
                f"{piece.error} {piece.error!r} {piece.error and piece.error.context}".encode(),
            )
            for version in piece.tables.versions:
                yield "a version", repr(version.to_json()).encode()
            for key, value in piece.notes:
                yield "a note", key + value
        for record in self.history.records:
            for key, value in history_records(record):
                yield "the schema history", key + value
        checkpoint = self.history.checkpoint(
            HistoryPosition.between(_cursor().offset, ts_ms=0), made_ms=0, count=self.history.count
        )
        for key, value in checkpoint_records(checkpoint):
            yield "a checkpoint of the history", key + value
        for file in self.folder.rglob("*"):
            if file.is_file():
                yield "the claim store", str(file).encode() + file.read_bytes()


def _chunks(tracker: SchemaTracker) -> Iterator[CapturedChunk]:
    start = made.START
    for events in transactions():
        chunk = made.chunk_of(*events, start=start)
        chunk.ends_in_statement = len(events) == 2
        start = made.places(*events, start=start)[-1]
        yield CapturedChunk(chunk, tracker.note(chunk))


def traces() -> list[bytes]:
    """The canary as any place could have it."""
    raw = CANARY.encode()
    # Of three alignments in base64, what does not depend on the neighbours.
    encoded = [base64.b64encode(bytes(n) + raw)[4:-4] for n in range(3)]
    return [
        raw, raw.hex().encode(), raw.hex().upper().encode(), *encoded,
        str(NUMBER).encode()[:7], struct.pack("<i", NUMBER), struct.pack("<i", NUMBER).hex().encode(),
    ]  # fmt: skip


def leaks(places: Iterable[tuple[str, bytes]]) -> set[str]:
    return {place for place, raw in places for trace in traces() if trace in raw}


@pytest.mark.parametrize("oversize", ["claim_check", "stop"])
def test_a_masked_value_is_nowhere(
    oversize: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    found = Published(tmp_path, oversize=oversize)
    assert [one.error for one in found.pieces] == [None] * len(found.pieces)
    assert leaks(found.shown()) == set()
    assert leaks([("the log", caplog.text.encode())]) == set()
    # Each place was reached.
    assert any(tmp_path.rglob("*.json")) == (oversize == "claim_check")
    assert len(found.records(dead_letters_topic("aq", "shop"))) == 1
    assert len(found.records(quarantine_topic("aq", "shop"))) == 2
    assert len(found.records(ddl_topic("aq", "shop"))) == len(STATEMENTS) + 1
    values = b"".join(one.value or b"" for one in found.records("aq.shop.notes"))
    assert values.count(b'"tags":["carded","noted"]') == 9
    assert b"INSERT INTO notes VALUES (0, '?', '?', '?')" in values
    assert b"INSERT INTO notes VALUES (0, '?', '?', '?')" in found.records("aq.shop.t")[0].value


@pytest.mark.parametrize("oversize", ["claim_check", "stop"])
@pytest.mark.parametrize("record_format", ["canal", "maxwell"])
def test_a_masked_value_is_nowhere_in_another_format(
    record_format: str, oversize: str, tmp_path: Path
) -> None:
    found = Published(
        tmp_path, oversize=oversize, mapping=f"{MAPPING}    format: {record_format}\n", largest=500
    )
    assert leaks(found.shown()) == set()
    assert any(tmp_path.rglob("*.json")) == (oversize == "claim_check")
    records = found.records("aq.shop.notes")
    assert {dict(one.headers)["format"].decode() for one in records} == {record_format}
    kinds = [orjson.loads(one.value)["type"].lower() for one in records]
    assert {"insert", "update", "delete"} == set(kinds)
    if oversize == "stop":
        assert b'"note":null,"card":"xx"' in b"".join(one.value for one in records)


def test_a_masked_value_is_nowhere_in_avro_and_its_schemas(tmp_path: Path) -> None:
    with schema_registry() as server:
        found = Published(
            tmp_path, mapping=f"{MAPPING}    format: avro\n", largest=500, registry=server.url
        )
        assert [one.error for one in found.pieces] == [None] * len(found.pieces)
        assert leaks(found.shown()) == set()
        texts = "".join(server.held.schemas.values()).encode()
    assert leaks([("schemas", texts)]) == set()
    assert b'"name":"card"' in texts
    assert any(tmp_path.rglob("*.json"))
    values = [one.value for one in found.records("aq.shop.notes") if one.value]
    assert {value[:5] for value in values} == {b"\0\0\0\0\1"}


def test_a_statement_of_other_tables_keeps_its_literals(tmp_path: Path) -> None:
    texts = [one.value for one in Published(tmp_path).records(ddl_topic("aq", "shop"))]
    assert sum(b"DEFAULT 'shown'" in one for one in texts) == 1


def test_an_error_that_stops_the_destination_quotes_nothing(tmp_path: Path) -> None:
    found = Published(tmp_path, limit=0)
    assert found.pieces[-1].error is not None
    assert leaks(found.shown()) == set()


def test_what_is_sealed_is_opened_by_the_key_alone_and_published_masked(tmp_path: Path) -> None:
    found = Published(tmp_path)
    records = [
        (one.key, one.value, dict(one.headers))
        for one in found.records(quarantine_topic("aq", "shop"))
    ]
    for keys in (NO_KEYS, MaskingKeys((("k", bytes(32)),))):
        with pytest.raises(MappingError, match=r"key 'k'|key than 'k'"):
            parked_of(*records[0], 0, keys=keys)
    waiting = [parked_of(*record, at, keys=KEYS) for at, record in enumerate(records)]
    assert GOOD in waiting[0].body
    assert waiting[1].query is not None
    assert CANARY in waiting[1].query.sql
    entry = Entry(
        destination="shop", name=("shop", "parked"), why="a test",
        since=HistoryPosition.between(_cursor().offset, ts_ms=0),
    )  # fmt: skip
    table = adopted(PARKED, CHARSETS, database=UTF8MB4)
    resolution = Resolution(
        destination="shop", name=("shop", "parked"), id="r", table=table, by="anna", ts_ms=1
    )
    spec = replace(found.spec, known={}, rules=replace(found.spec.rules, oversize="stop"))
    release = Release(spec, resolution, entry, found.history)
    released = release.decode(waiting, _cursor())
    assert released.entry.outcome is not Outcome.REFUSED
    raw = b"".join(bytes(one.raw) for one in released.piece.batches)
    assert b'"note":null,"card":"xx"' in raw
    assert (
        leaks([("rows", raw), ("definition", repr(release.definition(UTF8MB4)).encode())]) == set()
    )


Patch = Callable[[pytest.MonkeyPatch], None]


def _rules_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MaskedColumns, "of", lambda *_: MaskedColumns())


def _slow_rules_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("connectors.mysql.rows.compiled.ruled", lambda image, _: image)


def _unsealed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("app.worker.pipeline.encode.sealed_record", lambda record, _: record)


def _with_literals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "app.worker.pipeline.gather.captured_tables.hidden_query", lambda query, *_, **__: query
    )


def _with_queries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "app.worker.pipeline.gather.captured_tables.query_without_literals", lambda text, _: text
    )


def _history_with_literals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "app.worker.pipeline.capture.schema_tracker.hidden", lambda statement, _: statement
    )


def _baseline_with_literals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{__name__}.hidden_table", lambda _name, table, _routes: table)


@pytest.mark.parametrize(
    ("guard", "place"),
    [
        (_rules_off, "aq.shop.notes"),
        (_rules_off, "the claim store"),
        (_slow_rules_off, "aq.shop.notes"),
        (_unsealed, "aq.__quarantine.shop"),
        (_unsealed, "aq.__dead_letters.shop"),
        (_with_literals, "aq.__ddl.shop"),
        (_with_queries, "aq.shop.notes"),
        (_with_queries, "aq.shop.t"),
        (_history_with_literals, "the schema history"),
        (_baseline_with_literals, "a checkpoint of the history"),
    ],
)
def test_without_its_guard_a_place_shows_the_canary(
    guard: Patch, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard(monkeypatch)
    assert place in leaks(Published(tmp_path).shown())


def test_a_key_goes_to_decoders_and_into_no_text() -> None:
    copied = pickle.loads(pickle.dumps(replace(RULES, routes=ROUTES)))
    assert copied.routes.keys == KEYS
    assert copied.routes.masks_any
    for shown in (repr(copied), repr(copied.routes.of(("shop", "notes")))):
        assert repr(bytes(range(32)))[2:20] not in shown
