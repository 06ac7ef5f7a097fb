"""A checkpoint, the records after it, and their combined result.

Invariant: only the record with the next number is accepted; its versions are in force from its number on.
No statement is parsed here: records are resolved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from connectors.errors import HistoryTooShort, JournalDamaged, PositionUnknown
from connectors.mysql.ddl.definition import Change, DatabaseChange, TableName
from connectors.mysql.position import SourceOffset
from tables.history.position import AtTime, HistoryPosition, PositionQuery, reached
from tables.history.record import (
    CheckpointHead,
    Dropped,
    SchemaCheckpoint,
    SchemaRecord,
    Unresolved,
)
from tables.history.view import Amendment, SchemaView, Version, Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundHistory:
    """The result of a rollback of a history."""

    count: int
    """The number of remaining records."""
    records: tuple[SchemaRecord, ...]
    """Definitions that were given later and are valid at the position too; they are the next records."""
    forgotten: tuple[SchemaRecord, ...]
    """Records that will be read again from the stream; the journal is to remove them too."""
    heads: tuple[CheckpointHead, ...]
    """Checkpoints after that position, to be removed from the journal."""


class Steps:
    """A history from one checkpoint on."""

    __slots__ = ("_elsewhere", "_statements", "base", "heads", "records", "versions")

    def __init__(self, base: SchemaCheckpoint) -> None:
        self.base = base.head
        self.records: list[SchemaRecord] = []
        self.heads = [base.head]
        """This checkpoint and later ones."""
        self.versions = _versions_of(base)
        self._statements: dict[str, list[int]] = {}
        """For each server the numbers of its statements, which are in the order of its binlog."""
        self._elsewhere: tuple[str, int, frozenset[str]] = ("", 0, frozenset())
        """The present server, the number of statements from other servers, and their GTIDs."""

    @property
    def count(self) -> int:
        """The number of the last step."""
        return self.base.count + len(self.records)

    @property
    def newest(self) -> CheckpointHead:
        """The last checkpoint."""
        return self.heads[-1]

    def add(self, record: SchemaRecord) -> None:
        """Add the next record."""
        if record.number != self.count + 1:
            raise JournalDamaged(
                f"record {record.number} of the schema history where {self.count + 1} comes next",
                destination=record.destination,
            )
        if record.kind == "resolution":
            # Numbered as of this checkpoint: the definition may have been given for a later position.
            record = replace(record, amends=self._amended_by(record))
            self.records.append(record)
            self._amend(record)
            return
        self.records.append(record)
        for change in record.changes:
            self._change(change, record.number)
        for view in record.views:
            self.versions.views.put(self.versions.name(view.name), record.number, view.is_there)
        for name in record.unresolved:
            self._put(name, record.number, self._unresolved(name, record))
        if record.kind == "statement":
            self._statements.setdefault(record.position.server_uuid, []).append(record.number)

    def _change(self, change: Change, number: int) -> None:
        if isinstance(change, DatabaseChange):
            name = self.versions.database_name(change.name)
            self.versions.databases.put(name, number, change.new)
        else:
            self._put(change.name, number, change.new)

    def _put(self, name: TableName, number: int, version: Version) -> None:
        self.versions.tables.put(self.versions.name(name), number, version)

    def _unresolved(self, name: TableName, record: SchemaRecord) -> Unresolved:
        reason = record.reason or ""
        old = self.view(record.number - 1).state(*name)
        if isinstance(old, Unresolved):
            return Unresolved(reason=old.reason, since=old.since, last=record.position)
        return Unresolved(reason=reason, since=record.position, last=record.position)

    def _amend(self, record: SchemaRecord) -> None:
        amends = record.amends
        assert amends is not None
        if amends < self.base.count and not record.current:
            return
        for change in record.changes:
            if isinstance(change, DatabaseChange):
                continue
            name = self.versions.name(change.name)
            amendment = Amendment(
                amends=max(amends, self.base.count),
                position=record.position,
                number=record.number,
                table=change.new,
            )
            known = self.versions.amendments
            known[name] = (*known.get(name, ()), amendment)

    def _amended_by(self, record: SchemaRecord) -> int:
        """The step whose outcome a resolution corrects; perhaps only a later checkpoint includes that step."""
        number = self.number_of(record.position)
        if number is None and self._begins_with(record):
            number = self.base.count
        if number is None:
            number = record.amends
        return record.number - 1 if number is None else number

    def _begins_with(self, resolution: SchemaRecord) -> bool:
        """Whether this checkpoint has a table unresolved, with the resolution's statement as the last one."""
        tables, count = self.versions.tables, self.base.count
        held = (tables.at(self.versions.name(name), count) for name in resolution.tables)
        return any(
            version is not None
            and isinstance(version[1], Unresolved)
            and version[1].last.identity == resolution.position.identity
            for version in held
        )

    def number_of(self, position: HistoryPosition) -> int | None:
        """The number of the statement at exactly this position."""
        numbers = self._statements.get(position.server_uuid, [])
        at = bisect_left(numbers, position.start.order, key=self._order)
        if at == len(numbers) or self.position_at(numbers[at]).identity != position.identity:
            return None
        return numbers[at]

    def _order(self, number: int) -> tuple[int, int]:
        return self.position_at(number).start.order

    def has_passed(self, position: HistoryPosition) -> bool:
        """Whether a statement at this position has certainly been read already."""
        numbers = self._statements.get(position.server_uuid)
        if numbers is None:
            if reached(position, self.base.position):
                return True
        elif position.start.order <= self._order(numbers[-1]):
            return True
        return position.gtid is not None and position.gtid in self._gtids_elsewhere(
            position.server_uuid
        )

    def _gtids_elsewhere(self, server_uuid: str) -> frozenset[str]:
        """GTIDs of statements read from another server before the source was changed."""
        others = {key: numbers for key, numbers in self._statements.items() if key != server_uuid}
        count = sum(map(len, others.values()))
        if self._elsewhere[:2] != (server_uuid, count):
            positions = (
                self.position_at(number) for numbers in others.values() for number in numbers
            )
            gtids = frozenset(position.gtid for position in positions if position.gtid)
            self._elsewhere = server_uuid, count, gtids
        return self._elsewhere[2]

    def position_at(self, number: int) -> HistoryPosition:
        """The position of a step; for a step that the checkpoint includes, the checkpoint's position."""
        at = number - self.base.count
        return self.records[at - 1].position if at > 0 else self.base.position

    def number_at(self, query: PositionQuery) -> int:
        """The last step that had happened as of a position; raise HistoryTooShort or PositionUnknown."""
        unknown = False
        for number, position in self._marks_from_the_end():
            verdict = reached(position, query)
            if verdict:
                if unknown and not _by_coordinates(query):
                    break
                return number
            unknown = verdict is None or (unknown and verdict is not False)
        if unknown:
            raise PositionUnknown(
                f"asked for {_query_text(query)}", destination=self.base.destination
            )
        raise HistoryTooShort(
            f"asked for {_query_text(query)}, it begins at {_position_text(self.base.position)}",
            destination=self.base.destination,
        )

    def _marks_from_the_end(self) -> Iterator[tuple[int, HistoryPosition]]:
        """Statements and checkpoints, the last one first."""
        heads = list(self.heads)
        records = self.records
        for index in range(len(records) - 1, -1, -1):
            number = self.base.count + index + 1
            while heads and heads[-1].count >= number:
                yield heads[-1].count, heads.pop().position
            if records[index].kind != "resolution":
                yield number, records[index].position
        for head in reversed(heads):
            yield head.count, head.position

    def view(self, number: int, query: PositionQuery | None = None) -> SchemaView:
        """All schemas as of a step."""
        return SchemaView(self.versions, number, query=query, positions=self.position_at)

    def until(self, number: int, query: PositionQuery) -> tuple[Steps, list[SchemaRecord]]:
        """The steps up to a position, and the resolutions that were made later but are valid there."""
        new = Steps(SchemaCheckpoint(head=self.base, tables={}, databases={}))
        new.versions.tables = self.versions.tables.until(number)
        new.versions.databases = self.versions.databases.until(number)
        new.versions.views = self.versions.views.until(number)
        kept = self.records[: number - self.base.count]
        later = self.records[number - self.base.count :]
        new.heads = [head for head in self.heads if not _is_after(head, number, query)]
        new._note(kept)
        return new, [
            replace(record, amends=amends, current=not _touched(record, amends, kept))
            for record, amends in ((record, self._amended_by(record)) for record in later)
            if record.kind == "resolution" and _holds(record, amends, number, query)
        ]

    def rewound(
        self, number: int, query: PositionQuery, records: Iterable[SchemaRecord]
    ) -> RewoundHistory:
        """The removal of the steps after a position, which these records replace."""
        later = self.records[number - self.base.count :]
        return RewoundHistory(
            count=number,
            records=tuple(records),
            forgotten=tuple(record for record in later if record.kind != "resolution"),
            heads=tuple(head for head in self.heads if _is_after(head, number, query)),
        )

    def since(self, head: CheckpointHead) -> Steps:
        """The steps from a later checkpoint on."""
        new = Steps(self.checkpoint(head))
        new.heads = [one for one in self.heads if one.number >= head.number]
        for record in self.records[head.count - self.base.count :]:
            new.add(record)
        return new

    def checkpoint(
        self, head: CheckpointHead, query: PositionQuery | None = None
    ) -> SchemaCheckpoint:
        """The result of all steps up to a checkpoint's."""
        view = self.view(head.count, query)
        return SchemaCheckpoint(
            head=head,
            tables=view.tables(),
            databases=view.databases(),
            unresolved=view.unresolved(),
            dropped=view.dropped(),
            views=view.views(),
        )

    def _note(self, records: list[SchemaRecord]) -> None:
        """Add records whose versions are present already."""
        versions, self.versions = self.versions, Versions(server=self.base.server)
        for record in records:
            self.add(record)
        versions.amendments = self.versions.amendments
        self.versions = versions


def _by_coordinates(query: PositionQuery) -> bool:
    """Whether a query is comparable only with positions of its own server.

    Later positions of another server are after it.
    """
    match query:
        case SourceOffset(gtid_set=None) | HistoryPosition(gtid=None, gtid_set=None):
            return True
    return False


def _holds(resolution: SchemaRecord, amends: int, number: int, query: PositionQuery) -> bool:
    """Whether a definition was given for a position at or before the query's."""
    if amends != number:
        return amends < number
    return reached(resolution.position, query) is not False


def _is_after(head: CheckpointHead, number: int, query: PositionQuery) -> bool:
    """Whether a checkpoint is after a position, even if no step is in between."""
    return head.count > number or reached(head.position, query) is False


def _touched(resolution: SchemaRecord, amends: int, records: Iterable[SchemaRecord]) -> bool:
    """Whether a statement after a resolution's position changed its table."""
    following = (record for record in records if record.number > amends)
    names = set(resolution.tables)
    return any(
        record.kind != "resolution" and names.intersection(record.tables) for record in following
    )


def _versions_of(base: SchemaCheckpoint) -> Versions:
    found = Versions(server=base.head.server)
    count = base.head.count
    everything: list[tuple[TableName, Version]] = [
        *base.tables.items(),
        *base.unresolved.items(),
        *((name, Dropped(since=position)) for name, position in base.dropped.items()),
    ]
    for name, version in everything:
        found.tables.put(found.name(name), count, version)
    for database, value in base.databases.items():
        found.databases.put(found.database_name(database), count, value)
    for view in base.views:
        found.views.put(found.name(view), count, True)
    return found


def _query_text(query: PositionQuery) -> str:
    return f"time {query.ts_ms} ms" if isinstance(query, AtTime) else str(query)


def _position_text(position: HistoryPosition) -> str:
    return f"{position.gtid_set or position.start} (time {position.ts_ms} ms)"
