"""A cut as the command `cut` prints it: the transactions that it ends with, and its tables.

Invariant: read-only. It needs only the warehouse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_sink.errors import UnknownTable
from spark_sink.views.cuts.reading import ConsistentCut
from spark_sink.warehouse.protocol import Name
from wire.text import utc


def cut_lines(cut: ConsistentCut, names: Sequence[Name] = ()) -> Iterator[str]:
    """The lines: one for each destination, then one for each table, or for those named. Raise UnknownTable."""
    known = cut.known()
    for name in names:
        if name not in known:
            raise UnknownTable(".".join(name))
    for destination, one in sorted(cut.positions.items()):
        if one.seq == 0:
            yield f"destination {destination}: no transaction"
            continue
        transaction = one.transaction or "not known by name"
        at = f"epoch {one.epoch}, seq {one.seq}"
        if one.ts_ms:
            at += f", committed {utc(one.ts_ms)}"
        yield f"destination {destination}: transaction {transaction}, {at}"
    added, later = cut.recent_changes(), cut.later_changes()
    for table in tuple(names) or known:
        if reason := cut.missing(table):
            yield f"{'.'.join(table)}: not in the cut: {reason}"
            continue
        version = cut.versions.get(table)
        merged = f"version {version}" if version is not None else "not merged yet"
        changes = (
            f"{added[table]} recent changes added, {later[table]} visible changes after the cut"
        )
        yield f"{'.'.join(table)}: {merged}, {changes}"
