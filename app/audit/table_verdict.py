"""The result of an audit for one table of the warehouse.

Invariant: as of the whole audit: each fault is counted, the first few are reported, and what was
not judged is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN = 5
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
    """Whether it is known of each record if the sink has applied it."""
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
        """For programs."""
        counts = {one: getattr(self, one) for one in COUNTS}
        return {"table": self.name, **counts, "findings": self.shown, "not_judged": self.unjudged}


def lines(tables: Sequence[TableVerdict]) -> list[str]:
    """The result as text: each table, its faults, and all of them in one line."""
    report = []
    for table in tables:
        report.append(table.line())
        report += [f"  {finding}" for finding in table.shown]
        if table.faults > len(table.shown):
            report.append(f"  … and {table.faults - len(table.shown)} more")
        report += [f"  not judged: {what}: {n}" for what, n in sorted(table.unjudged.items())]
    sums = " ".join(f"{one}={sum(getattr(t, one) for t in tables)}" for one in COUNTS)
    return [*report, f"warehouse: tables={len(tables)} {sums}"]
