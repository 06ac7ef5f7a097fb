"""The records of a change: keys, values and headers as specified in ``docs/wire.md``.

Invariant: the same change always makes the same key, ChangeId and images; only ``ts_ms``, ``epoch`` and ``seq``
belong to the run that published it. Constant text of a table, an event or a chunk is rendered once, since a row
takes a few microseconds, most of them for its text.

Transaction markers: the BEGIN and END records of the transactions topic.

The effect of a statement and its impact on subscribers, as fields of a DDL record. Invariant:
without a schema history no effect is reported, rather than one that may be wrong. The steps of an
online schema change tool are reported as the change that they amount to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import orjson

from app.version import __version__
from app.worker.pipeline.formats.debezium.table_text import TableText, mapped_fields, tag_headers
from app.worker.pipeline.formats.debezium.tags import RowTags
from app.worker.pipeline.formats.protocol import Emitted, Marker, WriteRows
from app.worker.pipeline.gather.items import REMOVED, SELECTED, Ddl, Replacement, Rows
from app.worker.pipeline.rules import Rules
from connectors.kafka.record_batches import Headers, RecordWriter
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.query_session import user_of
from connectors.mysql.binlog.statement_kind import type_of
from connectors.mysql.ddl.definition import DatabaseChange, Table, TableChange, TableName
from connectors.mysql.ddl.online.cut_over import OnlineAlter
from connectors.mysql.rows.compiled.decoder import SPLIT
from connectors.mysql.rows.compiled.generate import Row
from connectors.mysql.schema.row_key import row_key
from tables.history.impact.impact import RouteOf, ddl_effects, rows_changed, truncated
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.changes import DDL_ORDINAL, END_ORDINAL, change_id
from wire.records import (
    HEADER_CHANGE_ID,
    HEADER_NEW_KEY,
    HEADER_OLD_KEY,
    HEADER_REPLACEMENT,
    REPLACEMENT_BEGINS,
    WIRE_VERSION,
)


class Envelope:
    """Writes the records of one chunk; see Records."""

    def __init__(
        self,
        rules: Rules,
        *,
        connector: str,
        epoch: int,
        emitted: Emitted,
        now_ms: int,
        text: Callable[[TableVersion], TableText],
    ) -> None:
        self._rules = rules
        self._destination = rules.destination
        self._connector = connector
        self._epoch = epoch
        self._now = now_ms
        self._emitted = emitted
        self._text = text

    def rows(self, version: TableVersion, writer: RecordWriter) -> WriteRows:
        text = self._text(version)
        rows = self._tagged_rows if text.tags.watches else self._rows
        return partial(rows, text, writer.append)

    def _tagged_rows(
        self, text: TableText, append: Any, item: Rows, ordinal: int, order: int
    ) -> int:
        """Write the rows of one event, of which each has its own tags; see ``_rows``."""
        for tags, rows in text.tags.runs(item.rows):
            run = item._replace(rows=rows)
            order = self._rows(text.with_tags(tags), append, run, ordinal, order)
            ordinal += len(rows)
        return order

    def _rows(self, text: TableText, append: Any, item: Rows, ordinal: int, order: int) -> int:
        """Write the rows of one event, the first with this ordinal; return the ``order`` of the last record."""
        emitted = self._emitted
        transaction, seq = item.transaction, emitted.seq
        name = transaction.id
        head = f'{text.head}{_position_members(transaction, item.pos)},"row":'
        query = "" if item.query is None else f',"query":{_json(item.query)}'
        committed = transaction.committed_ms
        is_read = item.event_type in (SELECTED, REMOVED)
        created, snapshot = ("r", "incremental") if is_read else ("c", "false")
        middle = f'{_thread(transaction)}{text.middle}"ts_ms":{committed},"snapshot":"{snapshot}"{query},"seq":'
        end = f'","ts_ms":{self._now},"transaction":{{"id":{_json(name)},"total_order":'
        tail, size = f'{text.tail}"op":"', 0
        more = text.headers
        for row in item.rows:
            before, after, old_key, new_key, marks = row
            if before is None:
                op, key = created, new_key
            elif after is None:
                op, key = "d", old_key
            elif old_key == new_key:
                op, key = "u", new_key
            else:
                emitted.seq = seq
                texts = head, middle, tail, end
                self._key_change(row, texts, append, (name, ordinal, order), more)
                seq, order, ordinal = seq + 2, order + 2, ordinal + 1
                continue
            seq += 1
            order += 1
            marked = f",{marks}" if marks else ""
            value = (
                f'{{"before":{before or "null"},"after":{after or "null"}{marked}{head}{ordinal}'
                f"{middle}{seq}{tail}{op}{end}{order}}}}}"
            ).encode()
            raw_key = None if key is None else key.encode()
            headers = [(HEADER_CHANGE_ID, f"{name}#{ordinal}".encode()), *more]
            append(raw_key, value, headers)
            size += len(value)
            if raw_key is not None:
                size += len(raw_key)
                if after is None:
                    append(raw_key, None, headers)
                    size += len(raw_key)
            ordinal += 1
        emitted.seq = seq
        emitted.size += size
        return order

    def _key_change(
        self,
        row: Row,
        texts: tuple[str, str, str, str],
        append: Any,
        numbers: tuple[str, int, int],
        more: Headers,
    ) -> None:
        """Write a key change: a delete under the old key (compacted topics too), a create under the new."""
        before, after, old, new, marks = row
        head, middle, tail, end = texts
        name, ordinal, order = numbers
        seq = self._emitted.seq
        old_key, new_key = (old or "").encode(), (new or "").encode()
        first, split, second = (marks or "").partition(SPLIT)
        marked = {1: first, 2: second if split else first}

        def value(was: str, is_: str, op: str, half: int) -> bytes:
            absent = f",{marked[half]}" if marked[half] else ""
            return (
                f'{{"before":{was},"after":{is_}{absent}{head}{ordinal}'
                f"{middle}{seq + half}{tail}{op}{end}{order + half}}}}}"
            ).encode()

        delete_headers = [
            (HEADER_CHANGE_ID, f"{name}#{ordinal}/0".encode()),
            (HEADER_NEW_KEY, new_key),
            *more,
        ]
        create_headers = [
            (HEADER_CHANGE_ID, f"{name}#{ordinal}/1".encode()),
            (HEADER_OLD_KEY, old_key),
            *more,
        ]
        self._append(append, old_key, value(before or "null", "null", "d", 1), delete_headers)
        self._append(append, old_key, None, [delete_headers[0], *more])
        self._append(append, new_key, value("null", after or "null", "c", 2), create_headers)

    def ddl(self, item: Ddl, writer: RecordWriter) -> None:
        self._emitted.seq += 1
        query, transaction = item.query, item.transaction
        value = {
            "source": self._source(item, query.database, None),
            "database": query.database,
            "ddl": query.sql,
            "type": type_of(query.sql),
            "user": user_of(query.status),
            "ts_ms": self._now,
            **effect_fields(item.resolved, self._rules, item.versions),
        }
        key = orjson.dumps({"destination": self._destination})
        headers = [(HEADER_CHANGE_ID, change_id(transaction.id, DDL_ORDINAL).encode())]
        self._append(writer.append, key, orjson.dumps(value), headers)

    def truncate(
        self,
        item: Ddl,
        route: Route,
        writer: RecordWriter,
        *,
        schema: int | None,
        ordinal: int,
        order: int,
    ) -> None:
        self._emitted.seq += 1
        source = self._source(item, *route.table)
        tags = RowTags(route.mapped.tags if route.mapped else (), ()).all
        value = {
            "before": None,
            "after": None,
            "source": {**source, **mapped_fields(route, tags), "row": ordinal, "schema": schema},
            "op": "t",
            "ts_ms": self._now,
            "transaction": {"id": item.transaction.id, "total_order": order},
        }
        headers = [
            (HEADER_CHANGE_ID, change_id(item.transaction.id, ordinal).encode()),
            *tag_headers(tags),
        ]
        if item.replacement is Replacement.BEGINS:
            headers.append((HEADER_REPLACEMENT, REPLACEMENT_BEGINS))
        self._append(writer.append, None, orjson.dumps(value), headers)

    def replaced(self, item: Ddl, route: Route, writer: RecordWriter) -> None:
        source = {**self._source(item, *route.table), **mapped_fields(route, ())}
        value = {"source": source, "op": "t", "transaction": {"id": item.transaction.id}}
        headers = [
            (HEADER_CHANGE_ID, change_id(item.transaction.id, END_ORDINAL).encode()),
            (HEADER_REPLACEMENT, orjson.dumps(value)),
        ]
        self._append(writer.append, None, None, headers)

    def begin(self, transaction: Transaction) -> Marker:
        return begin_marker(transaction, self._epoch)

    def end(
        self, transaction: Transaction, counts: Mapping[str, int], *, part: int, last: bool
    ) -> Marker:
        return end_marker(transaction, self._epoch, counts, part, last=last)

    def _append(self, append: Any, key: bytes | None, value: bytes | None, headers: Any) -> None:
        append(key, value, headers)
        self._emitted.size += len(key or b"") + len(value or b"")

    def _source(self, item: Ddl, database: str | None, table: str | None) -> dict[str, Any]:
        """Return the ``source`` field of a record that is not a row's."""
        transaction = item.transaction
        return {
            "version": __version__,
            "connector": self._connector,
            "name": self._destination,
            "server_id": transaction.server_id,
            "gtid": transaction.gtid,
            "file": transaction.file,
            "pos": item.pos,
            "row": None,
            "thread": transaction.thread,
            "db": database,
            "table": table,
            "ts_ms": transaction.committed_ms,
            "snapshot": "false",
            "seq": self._emitted.seq,
            "epoch": self._epoch,
            "schema": None,
            "wire": WIRE_VERSION,
        }


def _position_members(transaction: Transaction, pos: int) -> str:
    """Return the members from the server's id to the offset."""
    gtid = transaction.gtid
    # A GTID has no sign that JSON escapes; log_bin may give the files of a binlog any name.
    shown = "null" if gtid is None else f'"{gtid}"'
    return f'{transaction.server_id},"gtid":{shown},"file":{_json(transaction.file)},"pos":{pos}'


def _thread(transaction: Transaction) -> str:
    thread = transaction.thread
    return ',"thread":null' if thread is None else f',"thread":{thread}'


def _json(value: str) -> str:
    return orjson.dumps(value).decode()


def begin_marker(transaction: Transaction, epoch: int) -> Marker:
    """Return the BEGIN record of a transaction."""
    return _marker(transaction, "BEGIN", epoch, "")


def end_marker(
    transaction: Transaction, epoch: int, counts: Mapping[str, int], part: int, *, last: bool
) -> Marker:
    """Return the END record of a transaction or of a part."""
    if len(counts) == 1:
        ((topic, total),) = counts.items()
        each = f'{{"topic":"{topic}","event_count":{total}}}'
    else:
        total = sum(counts.values())
        each = ",".join(
            f'{{"topic":"{topic}","event_count":{n}}}' for topic, n in sorted(counts.items())
        )
    more = (
        f',"event_count":{total},"data_collections":[{each}],'
        f'"part":{part},"last":{"true" if last else "false"}'
    )
    return _marker(transaction, "END", epoch, more)


def _marker(transaction: Transaction, status: str, epoch: int, more: str) -> Marker:
    name = orjson.dumps(transaction.id).decode()
    value = (
        f'{{"status":"{status}","id":{name},"ts_ms":{transaction.committed_ms},'
        f'"epoch":{epoch},"wire":{WIRE_VERSION}{more}}}'
    )
    return f'{{"id":{name}}}'.encode(), value.encode()


def effect_fields(
    resolved: ResolvedStatement | None, rules: Rules, versions: Mapping[TableName, int]
) -> dict[str, Any]:
    """Return fields of a DDL record; none without a history, or if the statement affects nothing in it.

    ``versions``: those of the published tables that it altered or renamed, from it on.
    """
    if resolved is None or (resolved.record is not None and resolved.record.is_of_views):
        return {}
    changes = list(resolved.logical_changes())
    fields: dict[str, Any] = {
        "statement_type": resolved.type,
        "outcome": "resolved" if resolved.reason is None else "unresolved",
        "reason": resolved.reason,
        "unresolved": [_name(name) for name in resolved.unresolved],
        "tables": [
            _table(change, versions) for change in changes if isinstance(change, TableChange)
        ],
        "databases": [
            _database(change) for change in changes if isinstance(change, DatabaseChange)
        ],
        "effects": list(_effects(resolved, rules.routes.of)),
    }
    online = [one for one in resolved.logical if isinstance(one, OnlineAlter)]
    if online:
        fields["online"] = [{**_named(one.name), "tool": one.tool} for one in online]
    return fields


def _effects(resolved: ResolvedStatement, route_of: RouteOf) -> Iterator[dict[str, Any]]:
    yield from ddl_effects(resolved.logical, route_of, renames=resolved.renames)
    for name in resolved.emptied:
        yield from (one.to_json() for one in truncated(name, route_of))
    for name, what in resolved.unlogged:
        yield from (one.to_json() for one in rows_changed(name, what, route_of))


def _table(change: TableChange, versions: Mapping[TableName, int]) -> dict[str, Any]:
    kind = "altered"
    if change.renamed_to or change.renamed_from:
        kind = "renamed"
    elif change.old is None:
        kind = "created"
    elif change.new is None:
        kind = "dropped"
    number = versions.get(change.name) if change.new is not None else None
    return {
        **_named(change.name),
        "change": kind,
        **({} if number is None else {"version": number}),
        "renamed_to": _name(change.renamed_to),
        "renamed_from": _name(change.renamed_from),
        "old": definition_of(change.old),
        "new": definition_of(change.new),
    }


def _name(name: TableName | None) -> dict[str, str] | None:
    return None if name is None else _named(name)


def _named(name: TableName) -> dict[str, str]:
    return {"database": name[0], "table": name[1]}


def _database(change: DatabaseChange) -> dict[str, Any]:
    return {
        "database": change.name,
        "old": change.old and {"charset": change.old.charset, "collation": change.old.collation},
        "new": change.new and {"charset": change.new.charset, "collation": change.new.collation},
    }


def definition_of(table: Table | None) -> dict[str, Any] | None:
    """Return a table as the schemas topic describes it, with the other facts of its history."""
    if table is None:
        return None
    return {
        "columns": [column.to_json() for column in table.columns],
        "primary_key": list(row_key(table)),
        "charset": table.charset,
        "collation": table.collation,
    }
