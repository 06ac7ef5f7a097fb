"""The schema history as stored: its records as JSON, in the journal, and folded again.

Invariant: every column of Canal's ``meta_history`` and ``meta_snapshot`` has its own field; default values
are omitted. A record's key is its position, so that a statement read again replaces its own record. A
checkpoint is valid only with its head, which follows all its parts. A removed record has a value that marks
it as removed.

The history is a checkpoint and all records after its count, up to the cursor's count; if a record is
missing, there is no history. Records past the cursor's count are not reached yet. The last record of a key
is valid; of two records with the same number, the later record is valid. So any compaction folds to the same
history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from connectors.errors import JournalTooNew, JournalUnreadable
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import Change, Database, Table, TableName, ViewChange
from connectors.mysql.position import Coordinates, parse_gtids
from tables.history.definition_json import (
    PACK_BYTES,
    Definitions,
    change_json,
    named,
    server_from,
    server_json,
    session_json,
)
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.history.record import CheckpointHead, Given, SchemaCheckpoint, SchemaRecord, Unresolved
from tables.history.steps import RewoundHistory
from tables.journal_format import Entry, damaged, decoded, encoded, is_tombstone, tombstone
from tables.journal_kind import Kind, StatePart


def position_json(position: HistoryPosition) -> dict[str, Any]:
    """A position in the stream."""
    found: dict[str, Any] = {
        "server_uuid": position.server_uuid,
        "file": position.start.file,
        "pos": position.start.pos,
        "end_pos": position.end.pos,
        "ts_ms": position.ts_ms,
        "server_id": position.server_id,
        "thread": position.thread,
    }
    if position.end.file != position.start.file:
        found["end_file"] = position.end.file
    if position.gtid is not None:
        found["gtid"] = position.gtid
    if position.gtid_set is not None:
        found["gtid_set"] = str(position.gtid_set)
    if position.user is not None:
        found["user"] = position.user
    return found


def record_json(record: SchemaRecord) -> dict[str, Any]:
    """A record of the history."""
    found: dict[str, Any] = {
        "destination": record.destination,
        "number": record.number,
        "kind": record.kind,
        **position_json(record.position),
        "statement": record.statement,
        "type": record.type,
        "session": session_json(record.session),
        "changes": [change_json(change) for change in record.changes],
    }
    if record.reason is not None:
        found["reason"] = record.reason
        found["unresolved"] = record.unresolved
    if record.amends is not None:
        found["amends"] = record.amends
        found["current"] = record.current
    if record.given is not None:
        found["given"] = given_json(record.given)
    if record.unchanged:
        found["unchanged"] = record.unchanged
    if record.views:
        found["views"] = [[one.name, one.is_there] for one in record.views]
    return found


def given_json(given: Given | None) -> dict[str, Any] | None:
    """The author of a statement about a table."""
    if given is None:
        return None
    return {"by": given.by, "ts_ms": given.ts_ms, "source": given.source}


def given_from(value: dict[str, Any] | None) -> Given | None:
    """Read what ``given_json`` wrote."""
    if value is None:
        return None
    return Given(by=value["by"], ts_ms=value["ts_ms"], source=value["source"])


def head_json(head: CheckpointHead) -> dict[str, Any]:
    """The head of a checkpoint."""
    return {
        "destination": head.destination,
        "number": head.number,
        "count": head.count,
        "parts": head.parts,
        "made_ms": head.made_ms,
        "begins": head.begins,
        **position_json(head.position),
        "server": server_json(head.server),
    }


def items_json(checkpoint: SchemaCheckpoint) -> list[list[Any]]:
    """The content of a checkpoint, item by item: its kind, its name, and its value."""
    items: list[list[Any]] = []
    for name, database in checkpoint.databases.items():
        items.append(["database", name, [database.charset, database.collation]])
    for table_name, table in checkpoint.tables.items():
        text, digest = named(table)
        items.append(["table", table_name, [orjson.Fragment(text), digest]])
    for table_name, state in checkpoint.unresolved.items():
        positions = [position_json(state.since), position_json(state.last)]
        items.append(["unresolved", table_name, [state.reason, *positions]])
    for table_name, since in checkpoint.dropped.items():
        items.append(["dropped", table_name, position_json(since)])
    items += (["view", name, True] for name in sorted(checkpoint.views))
    items += (["given", record.tables[0], record_json(record)] for record in checkpoint.given)
    return items


class Reading:
    """Reads records and checkpoints; equal values become one object."""

    def __init__(self) -> None:
        self.definitions = Definitions()
        self._texts: dict[str, str] = {}

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def position(self, value: dict[str, Any]) -> HistoryPosition:
        """Read what ``position_json`` wrote."""
        file, gtid_set = self._text(value["file"]), value.get("gtid_set")
        start = Coordinates(file, value["pos"])
        end_file = self._text(value["end_file"]) if "end_file" in value else file
        return HistoryPosition(
            server_uuid=self._text(value["server_uuid"]),
            start=start,
            end=Coordinates(end_file, value["end_pos"]),
            gtid=value.get("gtid"),
            gtid_set=None if gtid_set is None else parse_gtids(gtid_set),
            ts_ms=value["ts_ms"],
            server_id=value["server_id"],
            thread=value["thread"],
            user=value.get("user"),
        )

    def record(self, value: dict[str, Any]) -> SchemaRecord:
        """Read what ``record_json`` wrote.

        Raise KeyError, TypeError, ValueError or IndexError for another value.
        """
        definitions = self.definitions
        return SchemaRecord(
            destination=self._text(value["destination"]),
            number=value["number"],
            kind=value["kind"],
            position=self.position(value),
            statement=value["statement"],
            type=self._text(value["type"]),
            session=definitions.session(value["session"]),
            changes=tuple([definitions.change(change) for change in value["changes"]]),
            reason=value.get("reason"),
            unresolved=tuple([definitions.name(name) for name in value.get("unresolved", ())]),
            amends=value.get("amends"),
            current=value.get("current", True),
            given=given_from(value.get("given")),
            unchanged=tuple([definitions.name(name) for name in value.get("unchanged", ())]),
            views=tuple(
                [
                    ViewChange(name=definitions.name(name), is_there=is_there)
                    for name, is_there in value.get("views", ())
                ]
            ),
        )

    def head(self, value: dict[str, Any]) -> CheckpointHead:
        """Read what ``head_json`` wrote; raise as ``record`` does."""
        return CheckpointHead(
            destination=value["destination"],
            number=value["number"],
            position=self.position(value),
            made_ms=value["made_ms"],
            count=value["count"],
            server=server_from(value["server"]),
            begins=value["begins"],
            parts=value["parts"],
        )

    def checkpoint(self, head: CheckpointHead, items: Iterable[list[Any]]) -> SchemaCheckpoint:
        """Read what ``items_json`` wrote; raise as ``record`` does."""
        tables: dict[TableName, Table] = {}
        databases: dict[str, Database] = {}
        unresolved: dict[TableName, Unresolved] = {}
        dropped: dict[TableName, HistoryPosition] = {}
        given: list[SchemaRecord] = []
        views: set[TableName] = set()
        for kind, name, value in items:
            if kind == "table":
                tables[self.definitions.name(name)] = self.definitions.table(*value)
            elif kind == "database":
                databases[name] = Database(charset=value[0], collation=value[1])
            elif kind == "unresolved":
                since, last = map(self.position, value[1:])
                state = Unresolved(reason=value[0], since=since, last=last)
                unresolved[self.definitions.name(name)] = state
            elif kind == "dropped":
                dropped[self.definitions.name(name)] = self.position(value)
            elif kind == "view":
                views.add(self.definitions.name(name))
            elif kind == "given":
                given.append(self.record(value))
            else:
                raise ValueError(f"a checkpoint holds {kind!r}")
        return SchemaCheckpoint(
            head=head,
            tables=tables,
            databases=databases,
            unresolved=unresolved,
            dropped=dropped,
            given=tuple(given),
            views=frozenset(views),
        )


HEAD = "head"
"""The last part of the key of a checkpoint's head; other keys end with the part's number."""
NEWEST = 0
"""As a checkpoint's number: the last complete checkpoint."""
OLDEST = -1
"""As a checkpoint's number: the first checkpoint after which no record is missing up to the cursor."""


_UNREAD = 10_000
"""The limit of unread records: a checkpoint usually replaces most of them before they need to be read."""
_NUMBER = re.compile(rb'"number":(\d+)')
_FAULTS = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""The errors of a value that is not of the expected form."""

Unreadable = JournalUnreadable | JournalTooNew


@dataclass(slots=True)
class _Kept:
    offset: int
    record: SchemaRecord
    more: int
    """The number of records that continue its changes."""


class HistoryFold:
    """A destination's schema history in the journal.

    It keeps the content of one checkpoint only: the one that ``base`` names.
    """

    def __init__(self, base: int = NEWEST) -> None:
        self._base = base
        self._reading = Reading()
        self._unread: dict[bytes, StoredRecord] = {}
        self._unreadable: dict[bytes, tuple[StoredRecord, Unreadable]] = {}
        """Records that could not be read when they were needed; a later record of the key clears each."""
        self._records: dict[bytes, _Kept] = {}
        self._more: dict[bytes, dict[int, tuple[Change, ...]]] = {}
        """Changes that did not fit into their record, by the record's key and the number of the part."""
        self._heads: dict[int, CheckpointHead] = {}
        self._parts: dict[int, dict[int, bytes | None]] = {}
        """The parts of each checkpoint; None for a part whose content is not kept."""
        self._first: dict[int, int] = {}
        """The offset of each checkpoint's first record."""
        self._highest = 0

    def take(self, kind: str, names: list[str], record: StoredRecord) -> None:
        """Fold a record in; ``names`` are the names after the destination's in its key."""
        self._unreadable.pop(record.key, None)
        try:
            if kind == CHECKPOINT.name:
                if not removes_stray(names, record):
                    self._checkpoint(int(names[0]), names[1], record)
            elif self._base == NEWEST:
                self._let_wait(record)
            else:
                self._record(record)
        except _FAULTS as error:
            raise damaged("a record of the schema history", record, error) from error

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """The errors of records that could not be read when they were needed."""
        return tuple(error for _, error in self._unreadable.values())

    @property
    def highest(self) -> int:
        """The highest number that a checkpoint ever had; 0 before the first checkpoint."""
        return self._highest

    def given_keys(self) -> list[bytes]:
        """The keys of the definitions that operators gave."""
        return [key for key in self._records if RESOLVED.is_of(key)]

    def _let_wait(self, record: StoredRecord) -> None:
        self._unread[record.key] = record
        if len(self._unread) >= _UNREAD:
            self._read()

    def _read(self) -> None:
        """Read the unread records."""
        unread, self._unread = self._unread, {}
        for record in unread.values():
            try:
                self._record(record)
            except (JournalUnreadable, JournalTooNew) as error:
                self._unreadable[record.key] = record, error
            except _FAULTS as error:
                found = damaged("a record of the schema history", record, error)
                self._unreadable[record.key] = record, found

    def _record(self, record: StoredRecord) -> None:
        if is_tombstone(record):
            if self._records.pop(record.key, None) is None:
                key, _, part = record.key.rpartition(b"/")
                self._more.get(key, {}).pop(int(part) if part.isdigit() else 0, None)
            return
        value = decoded(record)
        if "part" in value:
            key = record.key.rpartition(b"/")[0]
            changes = tuple([self._reading.definitions.change(one) for one in value["changes"]])
            self._more.setdefault(key, {})[value["part"]] = changes
            return
        read = self._reading.record(value)
        self._records[record.key] = _Kept(record.offset, read, value.get("more", 0))

    def _checkpoint(self, number: int, part: str, record: StoredRecord) -> None:
        self._highest = max(self._highest, number)
        parts = self._parts.setdefault(number, {})
        if is_tombstone(record):
            if part == HEAD:
                self._heads.pop(number, None)
            else:
                parts.pop(int(part), None)
            return
        self._first[number] = min(record.offset, self._first.get(number, record.offset))
        if part == HEAD:
            self._heads[number] = self._reading.head(decoded(record))
            self._keep(number)
        else:
            parts[int(part)] = record.value if self._base in (NEWEST, OLDEST, number) else None

    def _keep(self, number: int) -> None:
        """Drop the content of all checkpoints but one, once this checkpoint is complete."""
        if self._base > 0 or not self._is_complete(number):
            return
        complete = [one for one in self._parts if self._has_content(one)]
        kept = number
        if self._base == OLDEST and not self._heads[number].begins:
            kept = min(complete)
        for one in complete:
            if one != kept:
                self._parts[one] = dict.fromkeys(self._parts[one])
        if self._base == NEWEST:
            self._forget_before(self._heads[number].count)

    def _forget_before(self, count: int) -> None:
        for key, record in list(self._unread.items()):
            if _is_within(record, count):
                del self._unread[key]
                self._records.pop(key, None)
        for key, (record, _) in list(self._unreadable.items()):
            if _is_within(record, count):
                del self._unreadable[key]
        for key, kept in list(self._records.items()):
            if kept.record.number <= count and kept.record.kind != "resolution":
                del self._records[key]
                self._more.pop(key, None)

    def _is_complete(self, number: int) -> bool:
        head, parts = self._heads.get(number), self._parts.get(number, {})
        return head is not None and all(part in parts for part in range(head.parts))

    def _has_content(self, number: int) -> bool:
        parts = self._parts[number]
        return self._is_complete(number) and all(
            parts[part] is not None for part in range(self._heads[number].parts)
        )

    def checkpoint_for(self, count: int) -> CheckpointHead | None:
        """The newest checkpoint from which the history of a cursor with ``count`` records can begin."""
        heads = self._candidates(count)
        return heads[-1] if heads else None

    def lacks_parts(self, head: CheckpointHead, count: int) -> bool:
        """Whether a checkpoint after ``head``, within ``count`` records, is incomplete."""
        return any(
            number > head.number and one.count <= count and not self._is_complete(number)
            for number, one in self._heads.items()
        )

    def base(self, count: int) -> CheckpointHead | None:
        """The checkpoint to begin from: no record after it is missing up to the cursor's count."""
        self._read()
        first = self._unbroken_to(count)
        heads = [head for head in self._candidates(count) if head.count >= first]
        if self._base > 0:
            heads = [head for head in heads if head.number == self._base]
        if not heads:
            return None
        return heads[0] if self._base == OLDEST else heads[-1]

    def _candidates(self, count: int) -> list[CheckpointHead]:
        """Complete checkpoints that are not past the cursor, from the last baseline on."""
        heads = [
            head
            for number, head in sorted(self._heads.items())
            if head.count <= count and self._is_complete(number)
        ]
        begins = max((at for at, head in enumerate(heads) if head.begins), default=0)
        return heads[begins:]

    def _numbered(self, count: int) -> dict[int, _Kept]:
        """By number, the complete records up to the cursor's count; of two with the same number, the later."""
        found: dict[int, _Kept] = {}
        for key, kept in self._records.items():
            number = kept.record.number
            if number > count or (number in found and found[number].offset > kept.offset):
                continue
            found[number] = self._with_more(key, kept)
        return {number: kept for number, kept in found.items() if not kept.more}

    def _with_more(self, key: bytes, kept: _Kept) -> _Kept:
        """A record with all its changes, if they are present."""
        more = self._more.get(key, {})
        if not kept.more or any(part not in more for part in range(1, kept.more + 1)):
            return kept
        changes = [change for part in range(1, kept.more + 1) for change in more[part]]
        record = replace(kept.record, changes=(*kept.record.changes, *changes))
        return _Kept(kept.offset, record, 0)

    def _unbroken_to(self, count: int) -> int:
        """The least count after which no record is missing, up to the cursor's count."""
        numbered = self._numbered(count)
        first = count
        while first in numbered:
            first -= 1
        return first

    def is_whole(self, count: int) -> bool:
        """Whether the history of a cursor with ``count`` records is complete."""
        head = self.base(count)
        return head is not None and self._has_content(head.number)

    def begins_at(self, head: CheckpointHead) -> int:
        """The offset of a checkpoint's first record; all records after its count have a higher offset."""
        return self._first[head.number]

    def build(self, count: int) -> SchemaHistory:
        """The history of a cursor with ``count`` records; it must be whole."""
        head = self.base(count)
        assert head is not None, "a history that is not whole"
        numbered = self._numbered(count)
        history = SchemaHistory()
        history.load(
            self._content(head),
            [numbered[number].record for number in range(head.count + 1, count + 1)],
            heads=[one for one in self._candidates(count) if one.number > head.number],
            resolutions=[one.record for one in self._kept_resolutions()],
            numbered=self._highest,
        )
        return history

    def _kept_resolutions(self) -> list[_Kept]:
        found = [one for one in self._records.values() if one.record.kind == "resolution"]
        return sorted(found, key=lambda one: one.offset)

    def _content(self, head: CheckpointHead) -> SchemaCheckpoint:
        """A checkpoint with all its schemas; raise JournalUnreadable."""
        try:
            return self._reading.checkpoint(head, self._items(head))
        except _FAULTS as error:
            record = self._part(head, HEAD, b"")
            raise damaged("a checkpoint of the schema history", record, error) from error

    def _items(self, head: CheckpointHead) -> Iterator[list[Any]]:
        """The items of a checkpoint, part by part: reading all at once would need much more memory."""
        for part in range(head.parts):
            value = self._parts[head.number][part]
            assert value is not None, "a history that is not whole"
            yield from decoded(self._part(head, part, value))["items"]

    def _part(self, head: CheckpointHead, part: int | str, value: bytes) -> StoredRecord:
        """A part of a checkpoint, with the offset of the checkpoint's first record."""
        key = CHECKPOINT.key(head.destination, str(head.number), str(part))
        return StoredRecord(key, value, self._first[head.number])


def removes_stray(names: list[str], record: StoredRecord) -> bool:
    """Whether a tombstone has a key that no part of a checkpoint can have, and so changes nothing."""
    is_part = len(names) == 2 and names[0].isdecimal() and names[1].isdecimal()
    is_head = len(names) == 2 and names[0].isdecimal() and names[1] == HEAD
    return not (is_part or is_head) and is_tombstone(record)


def _is_within(record: StoredRecord, count: int) -> bool:
    """Whether a checkpoint of ``count`` records includes an unread record."""
    number = _NUMBER.search(record.value)
    return bool(number and int(number[1]) <= count and not RESOLVED.is_of(record.key))


HISTORY_PART = StatePart(lambda _: HistoryFold())
HISTORY: Kind[Any] = Kind(name="history", part=HISTORY_PART)
BASELINE: Kind[Any] = Kind(name="baseline", part=HISTORY_PART)
RESOLVED: Kind[Any] = Kind(name="resolved", part=HISTORY_PART)
CHECKPOINT: Kind[Any] = Kind(name="checkpoint", part=HISTORY_PART)
NUMBERED = (HISTORY, BASELINE, RESOLVED)
"""Kinds of the history's own records, which later checkpoints include."""


_KINDS = {"statement": HISTORY, "baseline": BASELINE, "resolution": RESOLVED}


def record_key(record: SchemaRecord) -> bytes:
    """The key of a record; of a statement, ``history/<destination>/<server>/<file>/<offset>``.

    A baseline's key also has its number; a resolution's key its table, and a time if it gives no definition.
    """
    server, file, offset = record.position.identity
    parts = [record.destination, server, file, str(offset)]
    if record.kind == "baseline":
        parts.append(str(record.number))
    elif record.kind == "resolution":
        parts += [name for table in record.concerned for name in table]
        if record.unchanged and record.given is not None:
            # It gives no definition, so it must not replace a record that gave a definition there.
            parts.append(str(record.given.ts_ms))
    return _KINDS[record.kind].key(*parts)


def checkpoint_key(destination: str, number: int, part: int | str) -> bytes:
    """``checkpoint/<destination>/<number>/<part>``; the last part is called ``head``."""
    return CHECKPOINT.key(destination, str(number), str(part))


def history_records(record: SchemaRecord, *, limit: int = PACK_BYTES) -> list[Entry]:
    """A record for the journal, in the transaction of its position.

    One statement may change very many tables, as DROP DATABASE does: changes that do not fit into the
    first entry follow under the same key with a number appended.
    """
    key, value = record_key(record), record_json(record)
    first, *others = _packed([orjson.dumps(change) for change in value["changes"]], limit) or [
        b"[]"
    ]
    value["changes"] = orjson.Fragment(first)
    if others:
        value["more"] = len(others)
    found = [(key, encoded(value))]
    for part, pack in enumerate(others, start=1):
        header = {"number": record.number, "ts_ms": record.position.ts_ms, "part": part}
        more = encoded({**header, "changes": orjson.Fragment(pack)})
        found.append((key + f"/{part}".encode(), more))
    return found


def checkpoint_records(checkpoint: SchemaCheckpoint, *, limit: int = PACK_BYTES) -> list[Entry]:
    """A checkpoint for the journal: parts, then the head, which makes it valid."""
    head = checkpoint.head
    packs = _packed([orjson.dumps(item) for item in items_json(checkpoint)], limit)
    found = []
    for part, pack in enumerate(packs):
        value = {"checkpoint": head.number, "part": part, "items": orjson.Fragment(pack)}
        found.append((checkpoint_key(head.destination, head.number, part), encoded(value)))
    last = replace(head, parts=len(packs))
    found.append((checkpoint_key(head.destination, head.number, HEAD), encoded(head_json(last))))
    return found


def _packed(items: list[bytes], limit: int) -> list[bytes]:
    packs: list[list[bytes]] = []
    room = 0
    for item in items:
        if not packs or len(item) >= room:
            packs.append([])
            room = limit
        packs[-1].append(item)
        room -= len(item) + 1
    return [b"[" + b",".join(pack) + b"]" for pack in packs]


def tombstones(
    records: Iterable[SchemaRecord] = (), heads: Iterable[CheckpointHead] = ()
) -> list[Entry]:
    """Journal entries that remove records and checkpoints."""
    keys = [key for record in records for key, _ in history_records(record)]
    for head in heads:
        parts: list[int | str] = [HEAD, *range(head.parts)]
        keys += [checkpoint_key(head.destination, head.number, part) for part in parts]
    return [tombstone(key) for key in keys]


def rewound_records(rewound: RewoundHistory) -> list[Entry]:
    """The journal entries of a rollback, for the transaction of the cursor that goes back."""
    found = tombstones(rewound.forgotten, rewound.heads)
    for record in rewound.records:
        found += history_records(record)
    return found
