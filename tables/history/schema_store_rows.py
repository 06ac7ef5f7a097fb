"""The schema history as rows of Canal's two tables, and back.

Invariant: each column has the content that Canal defines for it; ``extra`` has the rest, so that
a history read back equals the history written. Content too large for a row continues in further
rows, marked in the server's name. The rows are of one history: rows that it removed are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar, cast

import orjson

from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import (
    Change,
    Column,
    Database,
    DatabaseChange,
    Index,
    Table,
    TableChange,
    TableName,
)
from connectors.mysql.ddl.show_create import create_table
from connectors.mysql.schema_store import PART, HistoryRow, RowKey, SnapshotRow, Stored
from tables.history.codec import Reading, checkpoint_records, head_json, record_json
from tables.history.history import SchemaHistory
from tables.history.record import CheckpointHead, SchemaCheckpoint, SchemaRecord
from tables.history.steps import Steps
from tables.journal_format import FORMAT, damaged, decoded

EXTRA_BYTES = 65_000
"""The size of a TEXT column, with a little room."""
PART_CHARACTERS = 16_000
"""The length of a part; a character takes at most four bytes, quoted or not."""
LIST_CHARACTERS, TYPE_CHARACTERS = 1024, 256
_PART = orjson.dumps({"format": FORMAT}).decode()
_LARGE = ("changes", "unresolved", "tables", "views", "gtid_set", "reason")
"""Fields that may be too large for ``extra``."""
_OTHERS = {"baseline": "#base-", "resolution": "#given-"}
"""Suffixes of the server's name for records without a statement: so no statement's record has their key."""


def key_of(record: SchemaRecord) -> RowKey:
    """The key of a record's row."""
    server, file, offset = record.position.identity
    other = _OTHERS.get(record.kind)
    return RowKey(f"{server}{other}{record.number}" if other else server, _short(file), offset)


def snapshot_key(head: CheckpointHead) -> RowKey:
    """The key of a checkpoint's row."""
    server, file, offset = head.position.identity
    return RowKey(server, _short(file), offset)


def _short(file: str) -> str:
    """A binlog file's name; a very long one keeps its end, which identifies it."""
    return file[-64:]


def record_rows(record: SchemaRecord) -> list[HistoryRow]:
    """The row of a record, after its continuation rows."""
    value = record_json(replace(record, changes=(), statement=""))
    del value["statement"]
    value["changes"] = [change_json(change) for change in record.changes]
    value["outcome"] = record.outcome
    tables = _names(record)
    if len(tables) > LIST_CHARACTERS:
        value["tables"] = [".".join(name) for name in record.concerned]
    extra, parts = _extra(value)
    key, ts_ms = key_of(record), record.position.ts_ms
    rows = [
        HistoryRow(
            destination=record.destination,
            file=key.file,
            offset=key.offset,
            master_id=f"{key.master_id}{PART}{number}",
            ts_ms=ts_ms,
            extra=part,
        )
        for number, part in enumerate(parts, start=1)
    ]
    rows.append(
        HistoryRow(
            destination=record.destination,
            file=key.file,
            offset=key.offset,
            master_id=key.master_id,
            ts_ms=ts_ms,
            use_schema=record.use_schema,
            sql_schema=",".join(record.schemas)[:LIST_CHARACTERS],
            sql_table=tables[:LIST_CHARACTERS],
            sql_text=record.statement,
            sql_type=record.type[:TYPE_CHARACTERS],
            extra=extra,
        )
    )
    return rows


def _names(record: SchemaRecord) -> str:
    """The tables that a record concerns, with their databases if there are several databases."""
    names = record.concerned
    is_one = len({database for database, _ in names}) < 2
    return ",".join(table if is_one else f"{database}.{table}" for database, table in names)


def _extra(value: dict[str, Any]) -> tuple[str, list[str]]:
    """A value for ``extra``; if too large, its parts for the continuation rows."""
    text = orjson.dumps({"format": FORMAT, **value})
    if len(text) <= EXTRA_BYTES:
        return text.decode(), []
    large = orjson.dumps({name: one for name, one in value.items() if name in _LARGE}).decode()
    cut = [
        large[begin : begin + PART_CHARACTERS] for begin in range(0, len(large), PART_CHARACTERS)
    ]
    small = {name: one for name, one in value.items() if name not in _LARGE}
    parts = [orjson.dumps({"format": FORMAT, "text": one}).decode() for one in cut]
    return orjson.dumps({"format": FORMAT, **small, "more": len(parts)}).decode(), parts


def snapshot_rows(checkpoint: SchemaCheckpoint) -> list[SnapshotRow]:
    """The rows of a snapshot: definitions first, so that a search for the last row finds its own row."""
    head = checkpoint.head
    key = snapshot_key(head)
    texts = [value.decode() for _, value in checkpoint_records(checkpoint)]
    rows = [
        _snapshot_row(head, key._replace(master_id=f"{key.master_id}{PART}{number}"), text, _PART)
        for number, text in enumerate(texts, start=1)
    ]
    view = Steps(checkpoint).view(head.count)
    data = orjson.dumps(dict(view.snapshot(create_table))).decode()
    value = {**head_json(head), "parts": len(texts)}
    extra, more = _extra(value)
    if more:
        # The last part repeats the head.
        extra, _ = _extra({name: one for name, one in value.items() if name not in _LARGE})
    return [*rows, _snapshot_row(head, key, data, extra)]


def _snapshot_row(head: CheckpointHead, key: RowKey, data: str, extra: str) -> SnapshotRow:
    return SnapshotRow(
        destination=head.destination,
        file=key.file,
        offset=key.offset,
        master_id=key.master_id,
        ts_ms=head.position.ts_ms,
        data=data,
        extra=extra,
    )


class _Found:
    """The content of rows: records and checkpoints by their numbers."""

    def __init__(self, stored: Stored) -> None:
        self._reading, self._changes = Reading(), Changes()
        self._parts = {row.key: row.extra for row in stored.history if PART in row.master_id}
        self._data = {row.key: row.data for row in stored.snapshots if PART in row.master_id}
        self.records = self._records(stored.history)
        self.heads = self._heads(stored.snapshots)

    def _records(self, rows: Iterable[HistoryRow]) -> dict[int, SchemaRecord]:
        found: dict[int, SchemaRecord] = {}
        for row in rows:
            if PART in row.master_id:
                continue
            try:
                record = self._record(row)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise damaged("a record", _stored(row.extra), error) from error
            found[record.number] = record
        return found

    def _record(self, row: HistoryRow) -> SchemaRecord:
        value = _value(row.extra)
        if "more" in value:
            numbers = range(1, value["more"] + 1)
            texts = [_value(self._parts[_part(row.key, number)])["text"] for number in numbers]
            value |= orjson.loads("".join(texts))
        changes = tuple([self._changes.change(change) for change in value["changes"]])
        record = self._reading.record({**value, "changes": (), "statement": row.sql_text})
        return replace(record, changes=changes)

    def _heads(self, rows: Iterable[SnapshotRow]) -> dict[int, tuple[CheckpointHead, RowKey]]:
        found = {}
        for row in rows:
            if PART in row.master_id:
                continue
            parts = _value(row.extra)["parts"]
            last = self._data.get(_part(row.key, parts))
            if last is not None:
                head = self._reading.head(_content(last))
                found[head.number] = head, row.key
        return dict(sorted(found.items()))

    def checkpoint(self, number: int) -> SchemaCheckpoint:
        """A checkpoint with all its schemas."""
        head, key = self.heads[number]
        items = (
            item
            for part in range(1, head.parts + 1)
            for item in _content(self._data[_part(key, part)] or "")["items"]
        )
        return self._reading.checkpoint(head, items)


def history_of(stored: Stored) -> SchemaHistory | None:
    """The stored history, from the oldest snapshot after which no record is missing; None without one."""
    found = _Found(stored)
    heads = [head for head, _ in found.heads.values()]
    begins = max((index for index, head in enumerate(heads) if head.begins), default=0)
    heads = heads[begins:]
    if not heads:
        return None
    end = _unbroken(found.records, heads[-1].count, 1)
    first = _unbroken(found.records, end + 1, -1)
    base = next(head for head in heads if head.count >= first - 1)
    history = SchemaHistory()
    history.load(
        found.checkpoint(base.number),
        [found.records[number] for number in range(base.count + 1, end + 1)],
        heads=[head for head in heads if head.number > base.number],
        resolutions=[one for one in found.records.values() if one.kind == "resolution"],
        numbered=heads[-1].number,
    )
    return history


def _unbroken(records: dict[int, SchemaRecord], number: int, step: int) -> int:
    """The last number in a direction before the first missing one."""
    while number + step in records:
        number += step
    return number


def _part(key: RowKey, number: int) -> RowKey:
    return key._replace(master_id=f"{key.master_id}{PART}{number}")


def _value(extra: str | None) -> dict[str, Any]:
    return _content(extra or "")


def _content(text: str) -> dict[str, Any]:
    return decoded(_stored(text))


def _stored(text: str | None) -> StoredRecord:
    """A row's text as a stored record of the journal's format."""
    return StoredRecord(b"a row of the central schema store", (text or "").encode(), 0)


# Changes of tables as JSON in a central schema store, for operators and other programs, and back.
#
# Invariant: every definition is whole and each value is named; default values are omitted. Every
# later version can read what is written.


Part = TypeVar("Part", Column, Index)


def change_json(change: Change) -> dict[str, Any]:
    """A change of a table or of a database."""
    if isinstance(change, DatabaseChange):
        pair = {name: _database_json(getattr(change, name)) for name in ("old", "new")}
        return {"database": change.name, **pair}
    found: dict[str, Any] = {"table": change.name}
    found |= {name: _table_json(getattr(change, name)) for name in ("old", "new")}
    for name in ("renamed_to", "renamed_from"):
        if getattr(change, name) is not None:
            found[name] = getattr(change, name)
    return found


def _database_json(database: Database | None) -> dict[str, str] | None:
    if database is None:
        return None
    return {"charset": database.charset, "collation": database.collation}


def _table_json(table: Table | None) -> dict[str, Any] | None:
    if table is None:
        return None
    return {
        "columns": [_part_json(column) for column in table.columns],
        "indexes": [_part_json(index) for index in table.indexes],
        "charset": table.charset,
        "collation": table.collation,
        "options": table.options,
    }


def _part_json(part: Column | Index) -> dict[str, Any]:
    values = {field.name: (getattr(part, field.name), field.default) for field in fields(part)}
    return {name: value for name, (value, usual) in values.items() if _differs(value, usual)}


def _differs(value: object, usual: object) -> bool:
    return usual is MISSING or value != usual


class Changes:
    """Reads changes; equal columns and tables are one object, so that a long history is small."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    def change(self, value: dict[str, Any]) -> Change:
        """Read what ``change_json`` wrote; raise KeyError or TypeError for another value."""
        old, new = value["old"], value["new"]
        if "database" in value:
            return DatabaseChange(
                name=value["database"],
                old=old and Database(**old),
                new=new and Database(**new),
            )
        return TableChange(
            name=_name(value["table"]),
            old=self._table(old),
            new=self._table(new),
            renamed_to=_name(value["renamed_to"]) if "renamed_to" in value else None,
            renamed_from=_name(value["renamed_from"]) if "renamed_from" in value else None,
        )

    def _table(self, value: dict[str, Any] | None) -> Table | None:
        if value is None:
            return None
        columns = tuple([self._part(Column, one) for one in value["columns"]])
        indexes = tuple([self._part(Index, one) for one in value["indexes"]])
        rest = {name: value[name] for name in ("charset", "collation", "options")}
        # Equal columns and keys are one object, so identity is equality.
        key = (tuple(map(id, columns)), tuple(map(id, indexes)), *rest.values())
        if key not in self._kept:
            self._kept[key] = Table(columns=columns, indexes=indexes, **rest)
        return cast(Table, self._kept[key])

    def _part(self, kind: type[Part], value: dict[str, Any]) -> Part:
        fields: dict[str, Any] = {
            name: tuple(one) if type(one) is list else one for name, one in value.items()
        }
        key = (kind, *fields.items())
        if key not in self._kept:
            self._kept[key] = kind(**fields)
        return cast(Part, self._kept[key])


def _name(value: list[str]) -> TableName:
    return value[0], value[1]
