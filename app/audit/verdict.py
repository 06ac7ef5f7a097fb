"""The result of an audit: each kind of fault counted, the first few of each in full, and what was
not judged.

Invariant: nothing is silently skipped. What could not be judged is named with a count beside the
faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

SHOWN = 5


class FaultKind(Enum):
    """The kinds of faults; the values are the words of the report's last line."""

    LOST = "lost"
    """A change of the source that no topic has."""
    REPEATED = "repeated"
    """A ChangeId that occurs in a topic more than once."""
    FOREIGN = "foreign"
    """A record whose change is not in the source."""
    DIFFERENT = "different"
    """A record whose values, key or form are not the change's."""
    UNTRUE = "untrue"
    """A row that a SELECT returned, with an image that its key did not have at that point of the topic."""
    OUT_OF_ORDER = "out_of_order"
    """Two records whose order contradicts the order of the source."""
    SEQ_GAPS = "seq_gaps"
    """A number of the destination that no record has, or that two records have."""
    CURSOR = "cursor"
    """The journal's cursor does not match the topics."""
    EPOCHS_BACK = "epochs_back"
    """A partition has a record of an older leader after a record of a newer leader."""
    AFTER_FENCING = "after_fencing"
    """A leader has committed after the claim of a newer leader."""
    TRANSACTIONS = "transactions"
    """The counts of the transactions topic do not match the published records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, and its location."""

    kind: FaultKind
    what: str
    change_id: str | None = None
    source: str | None = None
    """The change's position in the binlog."""
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        at = None if self.topic is None else f"{self.topic}[{self.partition}]@{self.offset}"
        position = " ".join(filter(None, (self.change_id, self.source, at)))
        return f"{position}: {self.what}" if position else self.what


@dataclass(slots=True)
class Verdict:
    """The outcome of one audit."""

    destination: str
    witness: str = ""
    """The witness whose reading was used."""
    limits: str = ""
    """What that witness cannot judge."""
    changes: int = 0
    """Row changes of captured tables in the window."""
    statements: int = 0
    """Published statements in the window."""
    records: int = 0
    """Records with a value that were compared."""
    counts: Counter[FaultKind] = field(default_factory=Counter)
    shown: dict[FaultKind, list[Finding]] = field(default_factory=dict)
    existing: Counter[str] = field(default_factory=Counter)
    """Existing rows that were judged, by what they were compared with."""
    window: str = ""
    """The beginning and end of the part of the source that was read."""
    filtered: Counter[str] = field(default_factory=Counter)
    """Changes of tables that the settings exclude, by table."""
    quarantined: Counter[str] = field(default_factory=Counter)
    """Changes in the quarantine topic, by table."""
    shadows: Counter[str] = field(default_factory=Counter)
    """Changes of shadow tables that a tool made, by table."""
    expired: Counter[str] = field(default_factory=Counter)
    """Changes older than their topic's retention, by topic."""
    unread: Counter[str] = field(default_factory=Counter)
    """Events whose rows the witness cannot read, by table and reason: the audit is incomplete."""
    unjudged: Counter[str] = field(default_factory=Counter)
    """What could not be compared, by reason."""

    tables: list[TableVerdict] | None = None
    """The warehouse's tables, if it was audited."""

    def add(self, finding: Finding, *, times: int = 1) -> None:
        """Count a fault, and keep it if it is among the first of its kind."""
        self.counts[finding.kind] += times
        kept = self.shown.setdefault(finding.kind, [])
        if len(kept) < SHOWN:
            kept.append(finding)

    @property
    def is_clean(self) -> bool:
        """Whether there are no faults."""
        return not self.faults and not any(table.faults for table in self.tables or ())

    @property
    def is_complete(self) -> bool:
        """Whether the witness has read all rows, and each row of the warehouse could be judged."""
        return not self.unread and not self._undetermined

    @property
    def _undetermined(self) -> list[str]:
        """The warehouse's tables for which it is not known how far the sink has applied them."""
        return [table.name for table in self.tables or () if not table.is_complete]

    @property
    def faults(self) -> dict[str, int]:
        """The number of each kind of fault found."""
        return {kind.value: self.counts[kind] for kind in FaultKind if self.counts[kind]}

    def last_line(self) -> str:
        """The result in one line."""
        counted = " ".join(f"{kind.value}={self.counts[kind]}" for kind in FaultKind)
        return f"audit: changes={self.changes} {counted}"

    def lines(self) -> list[str]:
        """The result as text."""
        report = [f"{self.destination}: {self.window}"]
        if self.witness:
            report.append(f"witness: {self.witness}, which cannot check {self.limits}")
        report.append(
            f"{self.changes} row changes and {self.statements} statements in the source, "
            f"{self.records} records in Kafka"
        )
        for title, by_name in self._accounts():
            report += [f"{title}: {name}: {count}" for name, count in sorted(by_name.items())]
        for kind, found in self.shown.items():
            report.append(f"{kind.value}: {self.counts[kind]}")
            report += [f"  {finding}" for finding in found]
            if self.counts[kind] > len(found):
                report.append(f"  … and {self.counts[kind] - len(found)} more")
        if self.tables is not None:
            report += table_lines(self.tables)
        if self._undetermined:
            tables = ", ".join(self._undetermined)
            report.append(
                f"incomplete: it is not known which records of {tables} the sink has applied; nothing is "
                "proven of rows that the warehouse lacks or has in an older state"
            )
        if self.unread:
            report.append(
                f"incomplete: {self.witness} cannot read all rows; nothing is proven of those rows, "
                "and of those after them in their transactions"
            )
        return [*report, self.last_line()]

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "destination": self.destination,
            "window": self.window,
            "witness": {"name": self.witness, "cannot_judge": self.limits},
            "changes": self.changes,
            "statements": self.statements,
            "records": self.records,
            "clean": self.is_clean,
            "complete": self.is_complete,
            "counts": {kind.value: self.counts[kind] for kind in FaultKind},
            "findings": [
                {**asdict(finding), "kind": kind.value}
                for kind, found in self.shown.items()
                for finding in found
            ],
            **(
                {} if self.tables is None else {"warehouse": [one.to_json() for one in self.tables]}
            ),
            **{
                _KEYS.get(title, title.replace(" ", "_")): dict(by_name)
                for title, by_name in self._accounts()
            },
        }

    def _accounts(self) -> list[tuple[str, Counter[str]]]:
        return [
            ("existing rows", self.existing),
            ("filtered", self.filtered),
            ("quarantined", self.quarantined),
            ("shadow tables", self.shadows),
            ("older than the topic", self.expired),
            ("not read", self.unread),
            ("not judged", self.unjudged),
        ]


_KEYS = {"quarantined": "set_aside"}
"""Names in the JSON output that are older than the titles."""


# The result of an audit for one table of the warehouse.
#
# Invariant: the same as for the whole audit: each fault is counted, the first few are reported, and what was
# not judged is named.


COUNTS = ("rows", "missing", "extra", "different", "behind")


@dataclass(slots=True)
class TableVerdict:
    """The result for one table."""

    name: str
    rows: int = 0
    """Required rows that were judged: compared, or found missing."""
    missing: int = 0
    extra: int = 0
    different: int = 0
    behind: int = 0
    """Records that the sink has not applied yet: no fault."""
    is_complete: bool = True
    """Whether it is known for each record whether the sink has applied it."""
    unjudged: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """The number of rows that are not as required."""
        return self.missing + self.extra + self.different

    def add(self, kind: str, what: str, *, times: int = 1) -> None:
        """Count a fault, and keep it if it is among the first."""
        setattr(self, kind, getattr(self, kind) + times)
        if len(self.shown) < SHOWN:
            self.shown.append(f"{kind}: {what}")

    def line(self) -> str:
        """The result in one line."""
        return f"{self.name}: " + " ".join(f"{one}={getattr(self, one)}" for one in COUNTS)

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        counts = {one: getattr(self, one) for one in COUNTS}
        return {"table": self.name, **counts, "findings": self.shown, "not_judged": self.unjudged}


def table_lines(tables: Sequence[TableVerdict]) -> list[str]:
    """The result as text: each table, its faults, and the sums in one line."""
    report = []
    for table in tables:
        report.append(table.line())
        report += [f"  {finding}" for finding in table.shown]
        if table.faults > len(table.shown):
            report.append(f"  … and {table.faults - len(table.shown)} more")
        report += [f"  not judged: {what}: {n}" for what, n in sorted(table.unjudged.items())]
    sums = " ".join(f"{one}={sum(getattr(t, one) for t in tables)}" for one in COUNTS)
    return [*report, f"warehouse: tables={len(tables)} {sums}"]
