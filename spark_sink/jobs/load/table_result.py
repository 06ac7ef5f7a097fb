"""The results of the validation of one table of the warehouse, and of all, in the form of the worker's command.

Invariant: each difference is counted, the first differences of each kind are listed by their keys, and what was
not judged is named: a table is equal only if nothing differs, and everything was judged.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spark_sink.warehouse.protocol import Name
from wire.validation import Finding, Kind, table_lines

_IN_FLIGHT: Final = "rows that were still written when they were read the last time"


@dataclass(slots=True, kw_only=True)
class TableResult:
    """The result of one table; filled while it is compared."""

    name: Name
    most_listed: int = 20
    """The most rows of each kind that are listed."""
    rows: int = 0
    """Rows of the source that were compared."""
    counts: Counter[Kind] = field(default_factory=Counter)
    in_flight: int = 0
    """Rows that were still written when they were read the last time, and so are not judged."""
    not_compared: str | None = None
    """Why it could not be compared at all, or to its end."""
    _listed: dict[Kind, list[Finding]] = field(default_factory=dict)

    @property
    def differences(self) -> int:
        """The number of rows that differ."""
        return self.counts.total()

    @property
    def is_complete(self) -> bool:
        """Whether all was judged."""
        return self.not_compared is None and not self.in_flight

    @property
    def listed(self) -> list[Finding]:
        """The rows that are listed: those with the first keys, of each kind."""
        return [one for kind in Kind for one in self._listed.get(kind, ())]

    def add(self, found: Finding) -> None:
        """Count a difference, and list it while its key is one of the first."""
        self.counts[found.kind] += 1
        held = self._listed.setdefault(found.kind, [])
        insort(held, found, key=lambda one: one.key)
        del held[self.most_listed :]

    def lines(self) -> list[str]:
        """Return the result as text."""
        return table_lines(
            ".".join(self.name),
            self.rows,
            self.counts,
            listed=self.listed,
            unjudged=self._unjudged(),
            not_compared=self.not_compared,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "table": ".".join(self.name),
            "rows": self.rows,
            **{one.value: self.counts[one] for one in Kind},
            "findings": [one.to_json() for one in self.listed],
            "not_judged": self._unjudged(),
            "not_compared": self.not_compared,
        }

    def _unjudged(self) -> dict[str, int]:
        return {_IN_FLIGHT: self.in_flight} if self.in_flight else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The results of all tables."""

    destinations: Sequence[str]
    tables: Sequence[TableResult]

    @property
    def differences(self) -> int:
        """The number of rows that differ."""
        return sum(one.differences for one in self.tables)

    @property
    def is_complete(self) -> bool:
        """Whether all was judged."""
        return all(one.is_complete for one in self.tables)

    @property
    def not_compared(self) -> int:
        """The number of tables that could not be compared, or not to their end."""
        return sum(one.not_compared is not None for one in self.tables)

    @property
    def in_flight(self) -> int:
        """The number of rows that are not judged."""
        return sum(one.in_flight for one in self.tables)

    def line(self) -> str:
        """Return the results in one line."""
        rows = sum(one.rows for one in self.tables)
        return (
            f"validation of {', '.join(self.destinations)}: tables={len(self.tables)} "
            f"not_compared={self.not_compared} rows={rows} differences={self.differences}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the results for programs."""
        return {
            "destinations": list(self.destinations),
            "equal": not self.differences and self.is_complete,
            "differences": self.differences,
            "complete": self.is_complete,
            "tables": [one.to_json() for one in self.tables],
        }
