"""The report of a validation, the same for the topics and for the warehouse.

Invariant: each difference is counted, and what was not judged is named: a table is equal only if nothing
differs, and everything was judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """How a row differs from the source's."""

    MISSING = "missing"
    """The source has the row; the validated data does not."""
    EXTRA = "extra"
    """The validated data has the row; the source does not."""
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A row that differs."""

    kind: Kind
    key: str
    """The row's key, or its record's key, as JSON."""
    columns: tuple[str, ...] = ()
    """The columns that differ; empty if the row's record could not be read again."""

    def line(self) -> str:
        """Return the finding as text."""
        more = f": {', '.join(self.columns)}" if self.columns else ""
        return f"{self.kind.value}: {self.key}{more}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return {"kind": self.kind.value, "key": self.key, "columns": list(self.columns)}


def table_lines(
    name: str,
    rows: int,
    counts: Counter[Kind],
    *,
    listed: Sequence[Finding],
    unjudged: Mapping[str, int],
    not_compared: str | None,
) -> list[str]:
    """Return the result of one table as text; ``not_compared``: why the table was not compared to its end."""
    differences = counts.total()
    text = f"rows={rows} " + " ".join(f"{kind.value}={counts[kind]}" for kind in Kind)
    if not_compared is None:
        found = [f"{name}: {text}"]
    else:
        found = [f"{name}: not compared: {not_compared}"]
        if not differences:
            return found
        found.append(f"  until then: {text}")
    found += [f"  {one.line()}" for one in listed]
    if differences > len(listed):
        found.append(f"  … and {differences - len(listed)} more")
    return found + [f"  not judged: {what}: {n}" for what, n in sorted(unjudged.items())]
