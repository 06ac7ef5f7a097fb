"""The impact of a change as text.

Invariant: the worst comes first; nothing is omitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tables.history.impact.finding import Severity
from tables.history.impact.impact import Impact, severest
from wire.text import printed
from wire.warehouse import warehouse_path

NOTHING = "harmless: nothing changes for subscribers"


def as_text(impacts: Sequence[Impact]) -> str:
    """A summary, then each consequence in some lines; ends with a line's end."""
    if not impacts:
        return f"{NOTHING}\n"
    ordered = sorted(impacts, key=lambda one: -one.severity.rank)
    counts = ", ".join(
        f"{count} {severity.value}"
        for severity in reversed(Severity)
        if (count := sum(one.severity is severity for one in impacts))
    )
    lines = [f"{severest(impacts).value}: {counts}"]
    for one in ordered:
        lines += ["", *_lines(one)]
    return "\n".join(map(printed, lines)) + "\n"


def _lines(one: Impact) -> Iterator[str]:
    found = one.finding
    column = ".".join(part for part in (*one.route.table, found.column) if part)
    change = " -> ".join(part for part in (found.old, found.new) if part)
    yield f"{found.severity.value}: {found.kind}: {column}{f': {change}' if change else ''}"
    if found.consumers:
        yield f"  topic {one.route.topic}: {found.consumers}"
    if found.warehouse:
        columns = f" ({', '.join(found.warehouse_columns)})" if found.warehouse_columns else ""
        yield f"  warehouse {warehouse_path(*one.route.logical)}{columns}: {found.warehouse}"
