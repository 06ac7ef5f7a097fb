"""The result of the validation of one table.

Invariant: each difference is counted, the first ones are listed with their keys, and what was not judged is
named: a table is equal only if nothing differs, and everything was judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.operator.validation.extra_rows import ExtraRow
from connectors.mysql.ddl.definition import TableName
from wire.validation import Finding, Kind, table_lines

MOST_REPAIRED = 10_000
"""The most rows of a table whose keys are kept for a repair; extra rows have the same limit of their own."""


@dataclass(slots=True, kw_only=True)
class TableResult:
    """The result of one table; filled while it is compared."""

    name: TableName
    most_listed: int = 20
    topic: str = ""
    rows: int = 0
    """Rows of the source that were compared."""
    counts: Counter[Kind] = field(default_factory=Counter)
    listed: list[Finding] = field(default_factory=list)
    unjudged: Counter[str] = field(default_factory=Counter)
    later: int = 0
    """Rows of the topic that were written while the table was compared, and not selected: no difference."""
    not_compared: str | None = None
    """Why the table could not be compared at all, or to its end."""
    notes: list[str] = field(default_factory=list)
    """What may explain differences, and what was not looked for."""
    key: tuple[str, ...] = ()
    """The columns of the source's primary key."""
    repairable: list[tuple[str, ...]] = field(default_factory=list)
    """The key of each missing or different row, as SQL; at most ``MOST_REPAIRED``."""
    extra: list[bytes] = field(default_factory=list)
    """The key of the record of each extra row; at most ``MOST_REPAIRED``."""
    removable: list[ExtraRow] = field(default_factory=list)
    """The extra rows that a repair can remove."""

    @property
    def differences(self) -> int:
        """The number of rows that differ."""
        return self.counts.total()

    @property
    def is_complete(self) -> bool:
        """Whether everything was judged."""
        return self.not_compared is None and not self.unjudged

    def add(
        self,
        kind: Kind,
        key: bytes,
        *,
        columns: Sequence[str] = (),
        literals: tuple[str, ...] | None = None,
    ) -> None:
        """Count a difference, list it if it is among the first, and keep its key for a repair."""
        self.counts[kind] += 1
        if self.lists_more:
            text = key.decode("utf-8", "replace")
            self.listed.append(Finding(kind=kind, key=text, columns=tuple(columns)))
        if literals is not None and len(self.repairable) < MOST_REPAIRED:
            self.repairable.append(literals)
        if kind is Kind.EXTRA and len(self.extra) < MOST_REPAIRED:
            self.extra.append(key)

    @property
    def lists_more(self) -> bool:
        """Whether the next difference is listed."""
        return len(self.listed) < self.most_listed

    def lines(self) -> list[str]:
        """The result as text."""
        found = table_lines(
            ".".join(self.name),
            self.rows,
            self.counts,
            listed=self.listed,
            unjudged=self.unjudged,
            not_compared=self.not_compared,
        )
        if self.not_compared is not None and not self.differences:
            return found
        if self.later:
            found.append(f"  written while it was compared: {self.later}")
        return found + [f"  note: {one}" for one in self.notes]

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "table": ".".join(self.name),
            "topic": self.topic,
            "rows": self.rows,
            **{kind.value: self.counts[kind] for kind in Kind},
            "findings": [one.to_json() for one in self.listed],
            "not_judged": self.unjudged,
            "later": self.later,
            "not_compared": self.not_compared,
            "notes": self.notes,
        }
