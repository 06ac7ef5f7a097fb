"""The counts and samples of a trial, by real table.

Invariant: its size depends on the tables, not on the rows: each respect of a table has a count and a few
samples, and all samples together have a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson

from app.operator.trial.published import (
    MISSING,
    STATEMENTS,
    FieldDifference,
    Identity,
    Published,
    PublishedRecord,
    Refusal,
    Respect,
    respects,
)
from connectors.errors import AqueductError, MappingError, RowUnreadable, WitnessesDiffer
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.rules import RENAME
from tables.rules.routes.routes import Route, Routes
from wire.records import KEY_SHARD

_MOST_SAMPLES = 1000
"""The most samples of all tables together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """Where a record is, or would be, published."""

    topic: str
    partition: int
    key: str | None
    """JSON; None if it has no key."""
    op: str
    """``c``, ``u``, ``d``, ``t``, ``tombstone`` or ``statement``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One change that differs."""

    change_id: str
    old: ShownRecord | None = None
    new: ShownRecord | None = None
    fields: tuple[ShownField, ...] = ()
    reason: str = ""
    """Why the row is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of records; the counts of differences overlap, since a record may differ in several respects."""

    old: int = 0
    """Records by the mapping in force."""
    new: int = 0
    equal: int = 0
    by_respect: Mapping[Respect, int] = field(default_factory=dict)
    """Records that differ, by respect; for refusals, rows of the source."""
    refused_by_both: int = 0
    """Rows for which neither mapping makes a record."""

    @property
    def differ(self) -> bool:
        """Whether anything is different."""
        return any(self.by_respect.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifferences:
    """What is different for one real table."""

    table: TableName
    """``STATEMENTS`` for the records of the DDL topic."""
    counts: Counts
    samples: Mapping[Respect, tuple[Sample, ...]]


class Tally:
    """Compares the output of both sides, chunk by chunk."""

    def __init__(self, shown: ShownValues, *, samples: int) -> None:
        """``samples`` is the number that is kept for each respect of a table."""
        self._shown, self._most = shown, samples
        self._counts: dict[TableName, Counter[str]] = {}
        self._samples: dict[TableName, dict[Respect, list[Sample]]] = {}
        self._kept = 0

    def add(self, old: Published, new: Published) -> None:
        """Compare the records that the same events make."""
        for identity, record in old.records.items():
            counts = self._of(record.table)
            counts["old"] += 1
            other = new.records.get(identity)
            if other is not None:
                found, fields = respects(record, other)
                if not found:
                    counts["equal"] += 1
                for respect in found:
                    self._note(respect, identity, record, other, fields)
            elif identity.row not in new.refused:
                self._note(Respect.VANISHES, identity, record, None)
        for identity, record in new.records.items():
            self._of(record.table)["new"] += 1
            if identity not in old.records:
                self._note(Respect.APPEARS, identity, None, record)
        self._add_refused(old, new)

    def _add_refused(self, old: Published, new: Published) -> None:
        for row, refusal in new.refused.items():
            counts = self._of(refusal.table)
            if row in old.refused:
                counts["refused_by_both"] += 1
                continue
            counts[Respect.REFUSED] += 1
            if self._may_keep(refusal.table, Respect.REFUSED):
                self._keep(refusal.table, Respect.REFUSED, self._refused(row, refusal))

    def _refused(self, row: str, refusal: Refusal) -> Sample:
        reason = self._shown.reason(refusal.table, refusal.reason)
        return Sample(change_id=row, reason=": ".join(filter(None, (refusal.kind, reason))))

    def _note(
        self,
        respect: Respect,
        identity: Identity,
        old: PublishedRecord | None,
        new: PublishedRecord | None,
        fields: Iterable[FieldDifference] = (),
    ) -> None:
        one = old or new
        assert one is not None
        table = one.table
        self._of(table)[respect] += 1
        if not self._may_keep(table, respect):
            return
        sample = Sample(
            change_id=identity.change_id,
            old=self._record(old, is_new=False),
            new=self._record(new, is_new=True),
            fields=self._shown.fields(table, list(fields)),
        )
        self._keep(table, respect, sample)

    def _record(self, one: PublishedRecord | None, *, is_new: bool) -> ShownRecord | None:
        if one is None:
            return None
        op = "tombstone" if one.value is None else str(one.value.get("op", "statement"))
        key = self._shown.key(one.table, one.key, is_new=is_new)
        return ShownRecord(topic=one.topic, partition=one.partition, key=key, op=op)

    def _may_keep(self, table: TableName, respect: Respect) -> bool:
        kept = self._samples.get(table, {}).get(respect, ())
        return self._kept < _MOST_SAMPLES and len(kept) < self._most

    def _keep(self, table: TableName, respect: Respect, sample: Sample) -> None:
        self._samples.setdefault(table, {}).setdefault(respect, []).append(sample)
        self._kept += 1

    def _of(self, table: TableName) -> Counter[str]:
        counts = self._counts.get(table)
        if counts is None:
            counts = self._counts[table] = Counter()
        return counts

    def tables(self) -> tuple[TableDifferences, ...]:
        """Return all tables of which any row was read, by name."""
        return tuple(
            TableDifferences(
                table=table,
                counts=_counts(counts),
                samples={
                    respect: tuple(found) for respect, found in self._samples.get(table, {}).items()
                },
            )
            for table, counts in sorted(self._counts.items())
        )

    def totals(self) -> Counts:
        """Return the counts of all tables together."""
        return _counts(sum(self._counts.values(), Counter[str]()))


def _counts(counts: Counter[str]) -> Counts:
    return Counts(
        old=counts["old"],
        new=counts["new"],
        equal=counts["equal"],
        by_respect={respect: counts[respect] for respect in Respect},
        refused_by_both=counts["refused_by_both"],
    )


# What a report of a trial may show of a record.
#
# Invariant: a value is shown only if its column is masked in neither mapping. A key is shown as
# published, except for columns that only the other mapping masks. Statements, and errors that may
# quote a row, are hidden.

MASKED = "(masked)"
HIDDEN = "(hidden)"
_LONGEST = 60
"""The most characters of a value that are shown."""
_PLAIN_FIELDS = frozenset(
    {
        "op",
        "absent",
        "format",
        "replaced",
        "source.tags",
        "tags",
        "source.logical_db",
        "source.logical_table",
    }
)
"""Fields, other than columns, that contain no value of a row."""
_REST_HIDDEN = "the detail is hidden, since there are masked columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownField:
    """A field that differs; a value that may not be shown is replaced by the reason."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class _Masks:
    """The masked columns of one table, by their published names in lower case."""

    either: frozenset[str]
    """The columns that either mapping masks, by all their names in both mappings."""
    old: frozenset[str]
    new: frozenset[str]


_NO_MASKS = _Masks(frozenset(), frozenset(), frozenset())


class ShownValues:
    """What may be shown, by the routes of both mappings."""

    def __init__(self, old: Routes, new: Routes) -> None:
        self._old, self._new = old, new
        self._masks: dict[TableName, _Masks] = {STATEMENTS: _NO_MASKS}
        self._masks_any = old.masks_any or new.masks_any

    def fields(self, table: TableName, found: list[FieldDifference]) -> tuple[ShownField, ...]:
        """Return the names of differing fields, with those values that may be shown."""
        return tuple(self._field(table, one) for one in found)

    def _field(self, table: TableName, one: FieldDifference) -> ShownField:
        if one.is_column:
            instead = MASKED if one.name.lower() in self._of(table).either else ""
        else:
            instead = "" if one.name in _PLAIN_FIELDS and table != STATEMENTS else HIDDEN
        return ShownField(
            name=one.name, old=instead or _text(one.old), new=instead or _text(one.new)
        )

    def key(self, table: TableName, key: bytes | None, *, is_new: bool) -> str | None:
        """Return a record's key as it may be shown; ``is_new`` is whether the record is the new mapping's."""
        if key is None:
            return None
        masks = self._of(table)
        replaced = masks.new if is_new else masks.old
        members = orjson.loads(key)
        shown = {
            name: MASKED
            if name != KEY_SHARD and name.lower() in masks.either - replaced
            else content
            for name, content in members.items()
        }
        return orjson.dumps(shown).decode()

    def reason(self, table: TableName, reason: str) -> str:
        """Return why a row is refused, unless the reason may quote a masked value."""
        return _REST_HIDDEN if reason and self._of(table).either else reason

    def table_reason(self, error: WitnessesDiffer) -> str:
        """Return why a table is quarantined; only the reason of an unreadable row quotes the row."""
        if isinstance(error, RowUnreadable):
            return self.reason(error.name_of_table, error.detail)
        return error.detail

    def error(self, error: AqueductError) -> AqueductError:
        """Return an error of a pipeline, without a detail that may quote a masked value."""
        if not self._masks_any or isinstance(error, MappingError):
            return error
        # The tables that the text may name: names of databases and tables may contain
        # dots too.
        text = str(error.context.get("table", ""))
        dots = [at for at, char in enumerate(text) if char == "."]
        names = [(text[:at], text[at + 1 :]) for at in dots]
        if names and not any(self._of(name).either for name in names):
            return error
        shown = type(error)(_REST_HIDDEN, remedy=error.advice)
        shown.context = error.context
        return shown

    def _of(self, table: TableName) -> _Masks:
        found = self._masks.get(table)
        if found is None:
            found = self._masks[table] = _masks(self._old.of(table), self._new.of(table))
        return found


def _masks(old: Route | None, new: Route | None) -> _Masks:
    """Return the masked columns; a column may be renamed by one mapping and masked by the other."""
    sides = [_actions(old), _actions(new)]
    masked = {name for side in sides for name, (hides, _) in side.items() if hides}
    names = {side[name][1] for side in sides for name in masked if name in side}
    replaced = [frozenset(name for name, (hides, _) in side.items() if hides) for side in sides]
    return _Masks(frozenset(masked | names), *replaced)


def _actions(route: Route | None) -> dict[str, tuple[bool, str]]:
    """Return by column whether its action hides values, and its published name; names in lower case."""
    if route is None or route.mapped is None:
        return {}
    return {
        one.column.lower(): (
            one.kind.hides,
            (one.argument if one.action == RENAME else one.column).lower(),
        )
        for one in route.mapped.rules.column_actions
    }


def _text(value: object) -> str:
    text = "(none)" if value is MISSING else orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
