"""The counts and samples of a trial, by real table.

Invariant: its size depends on the tables, not on the rows: each respect of a table has a count and a few
samples, and all samples together have a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.operator.trial.published import (
    FieldDifference,
    Identity,
    Published,
    PublishedRecord,
    Refusal,
    Respect,
    respects,
)
from app.operator.trial.shown_values import ShownField, ShownValues
from connectors.mysql.ddl.definition import TableName

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
