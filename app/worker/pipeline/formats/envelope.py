"""Debezium's envelope in JSON: the keys, values and headers that ``docs/wire.md`` specifies.

Invariant: the same change always makes the same key, ChangeId and images; only ``ts_ms``, ``epoch`` and ``seq``
belong to the run that published it. Constant text of a table version, an event or a piece is rendered once,
since a row takes a few microseconds, most of them for its text.

A tag without a column is on each record of its table. A tag with a column is on updates that changed the
column, and on all other records, since an insert, a delete and a TRUNCATE add or remove the column's value. If
the before image lacks the column, an update that sets the column counts as a change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any

import orjson

from app.version import __version__
from app.worker.pipeline.formats.ddl_record import effect_fields
from app.worker.pipeline.formats.protocol import DetachedImages, Emitted, Marker, Records, WriteRows
from app.worker.pipeline.gather.items import REMOVED, SELECTED, Ddl, Replacement, Rows
from app.worker.pipeline.gather.masked_columns import MaskedRow
from app.worker.pipeline.rules import PublishingRules
from connectors.kafka.record_batches import Headers, RecordWriter
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.query_session import user_of
from connectors.mysql.binlog.statement_kind import type_of
from connectors.mysql.rows.compiled import SPLIT, Row
from tables.rules.mapping.rules import Tag
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.changes import DDL_ORDINAL, END_ORDINAL, change_id
from wire.records import (
    HEADER_CHANGE_ID,
    HEADER_NEW_KEY,
    HEADER_OLD_KEY,
    HEADER_REPLACEMENT,
    HEADER_TAGS,
    REPLACEMENT_BEGINS,
    WIRE_VERSION,
)
from wire.table_version import Definition

_JSON = json.JSONDecoder()
_BEFORE, _AFTER = '{"before":', ',"after":'
"""The text before each image in every row's value."""


class Debezium:
    """Debezium's envelope in JSON."""

    def __init__(self, rules: PublishingRules, *, connector: str, epoch: int) -> None:
        self._rules, self._connector, self._epoch = rules, connector, epoch
        self._texts: dict[tuple[str, str], TableText] = {}

    @staticmethod
    def keeps_tombstones(_rules: PublishingRules) -> bool:
        return True

    @staticmethod
    def form(_rules: PublishingRules) -> None:
        """See FormatFactory; these are the envelopes."""

    @staticmethod
    def incomparable(_rules: PublishingRules, _definition: Definition) -> str:
        return ""

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        return Envelope(
            self._rules,
            connector=self._connector,
            epoch=self._epoch,
            emitted=emitted,
            now_ms=now_ms,
            text=self._text,
        )

    def detach_images(self, value: bytes) -> DetachedImages:
        (before, after), rest = _images_and_rest(value)

        def value_without_images(name: str, content: object) -> bytes:
            return orjson.dumps({"before": None, "after": None, name: content, **rest})

        named = {"before": before, "after": after}
        return DetachedImages(
            images=b'{"before":%b,"after":%b}' % (before, after),
            sizes={name: len(image) for name, image in named.items() if image != b"null"},
            committed_ms=rest["source"]["ts_ms"],
            value=value_without_images,
        )

    def _text(self, version: TableVersion) -> TableText:
        """Return the constant parts of a version's envelopes."""
        name = (version.database, version.table)
        text = self._texts.get(name)
        if text is None or text.version is not version:
            route = self._rules.routes.of(name)
            text = TableText(version, route, connector=self._connector, epoch=self._epoch)
            self._texts[name] = text
        return text


def _images_and_rest(value: bytes) -> tuple[tuple[bytes, bytes], dict[str, Any]]:
    """Return the images byte for byte, and the rest of a value."""
    text = value.decode()
    _, middle = _JSON.raw_decode(text, len(_BEFORE))
    _, end = _JSON.raw_decode(text, middle + len(_AFTER))
    images = text[len(_BEFORE) : middle].encode(), text[middle + len(_AFTER) : end].encode()
    return images, orjson.loads(b"{" + text[end + 1 :].encode())


class TableText:
    """The constant text of a table version's records with the same tags."""

    __slots__ = (
        "_by_tags",
        "_names",
        "_route",
        "head",
        "headers",
        "middle",
        "tags",
        "tail",
        "version",
    )

    def __init__(
        self, version: TableVersion, route: Route | None, *, connector: str, epoch: int
    ) -> None:
        """``route`` is the route of the version's table; None if it is not captured any more."""
        self.version, self._route = version, route
        connector_fields = {
            "version": __version__,
            "connector": connector,
            "name": version.destination,
        }
        self.head = f',"source":{{{members(connector_fields)},"server_id":'
        self._names = {"db": version.database, "table": version.table}
        numbers = {"epoch": epoch, "schema": version.version, "wire": WIRE_VERSION}
        self.tail = f",{members(numbers)}}},"
        stated = route.mapped.tags if route is not None and route.mapped is not None else ()
        self.tags = RowTags(stated, [one.name for one in version.definition.columns])
        self._by_tags: dict[tuple[str, ...], TableText] = {}
        self._set_tags(self.tags.all)

    def with_tags(self, tags: tuple[str, ...]) -> TableText:
        """Return the text of the records with these tags."""
        found = self._by_tags.get(tags)
        if found is None:
            found = self._by_tags[tags] = object.__new__(TableText)
            found.version, found._route, found._names = self.version, self._route, self._names
            found.head, found.tail, found.tags = self.head, self.tail, self.tags
            found._set_tags(tags)
        return found

    def _set_tags(self, tags: tuple[str, ...]) -> None:
        self.middle = f",{members({**self._names, **mapped_fields(self._route, tags)})},"
        self.headers: Headers = tag_headers(tags)


def mapped_fields(route: Route | None, tags: tuple[str, ...]) -> dict[str, Any]:
    """Return the members of ``source`` that a mapping adds; none if it does not name the table."""
    if route is None or route.mapped is None:
        return {}
    names = dict(zip(("logical_db", "logical_table"), route.logical, strict=True))
    return {**names, "tags": tags} if tags else {**names}


def tag_headers(tags: tuple[str, ...]) -> Headers:
    """Return the header of tags, if there are any."""
    return [(HEADER_TAGS, ",".join(tags).encode())] if tags else []


def members(fields: dict[str, Any]) -> str:
    """Return the members of a JSON object, without its braces."""
    return orjson.dumps(fields).decode()[1:-1]


_MISSING = object()


class RowTags:
    """The tags of one table version's rows."""

    def __init__(self, tags: Iterable[Tag], columns: Iterable[str]) -> None:
        """``columns`` has the names as in images; tags may write them in another case."""
        names = {one.lower(): one for one in columns}
        stated = [(one.name, one.column.lower()) for one in tags]
        self._tags = tuple((name, names.get(column, column)) for name, column in stated)
        self._raw = tuple(stated)
        """The tags with the names of columns as in the binlog, in lower case."""
        self.all = tuple(dict.fromkeys(name for name, _ in self._tags))
        """The tags of records that are not updates."""
        self.watches = any(column for _, column in self._tags)
        """Whether updates differ in their tags."""

    def runs(self, rows: list[Row]) -> Iterator[tuple[tuple[str, ...], list[Row]]]:
        """Yield the rows in order, neighbours with equal tags together."""
        for tags, run in groupby(rows, self._of):
            yield tags, list(run)

    def _of(self, row: Row) -> tuple[str, ...]:
        before, after, old_key, new_key, _ = row
        if before is None or after is None or old_key != new_key:
            return self.all
        was, is_, tags = orjson.loads(before), orjson.loads(after), self._tags
        if isinstance(row, MaskedRow):
            # A masked value may be the same after it changed, and a renamed column has another name.
            was, is_ = map(_in_lower_case, row.raw)
            tags = self._raw
        found = (name for name, column in tags if not column or _changed(was, is_, column))
        return tuple(dict.fromkeys(found))


def _in_lower_case(image: str | None) -> dict[str, Any]:
    return {name.lower(): value for name, value in orjson.loads(image or "{}").items()}


def _changed(before: dict[str, Any], after: dict[str, Any], column: str) -> bool:
    if column not in after:
        return False
    found: bool = before.get(column, _MISSING) != after[column]
    return found


class Envelope:
    """Writes the records of one piece; see Records."""

    def __init__(
        self,
        rules: PublishingRules,
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
        """Write the rows of one event, each with its own tags; see ``_rows``."""
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
        """Write a key change: a delete and a tombstone under the old key, a create under the new key."""
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
            **effect_fields(item.resolved, self._rules, item.versions, parks=item.parks),
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
        return _marker(transaction, "BEGIN", self._epoch, "")

    def end(
        self, transaction: Transaction, counts: Mapping[str, int], *, part: int, last: bool
    ) -> Marker:
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
        return _marker(transaction, "END", self._epoch, more)

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
    # A GTID has no character that JSON escapes, but log_bin may give the files of a binlog any name.
    shown = "null" if gtid is None else f'"{gtid}"'
    return f'{transaction.server_id},"gtid":{shown},"file":{_json(transaction.file)},"pos":{pos}'


def _thread(transaction: Transaction) -> str:
    thread = transaction.thread
    return ',"thread":null' if thread is None else f',"thread":{thread}'


def _json(value: str) -> str:
    return orjson.dumps(value).decode()


def _marker(transaction: Transaction, status: str, epoch: int, more: str) -> Marker:
    name = orjson.dumps(transaction.id).decode()
    value = (
        f'{{"status":"{status}","id":{name},"ts_ms":{transaction.committed_ms},'
        f'"epoch":{epoch},"wire":{WIRE_VERSION}{more}}}'
    )
    return f'{{"id":{name}}}'.encode(), value.encode()
