"""The row filter and the rules on operations: which rows of an event are published, and as which kind of event.

Invariant: an excluded row keeps its ordinal, so each change has the same ChangeId with any rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import orjson

from app.worker.pipeline.gather.masked_columns import raw_images
from connectors.errors import RuleImpossible, WitnessesDiffer
from connectors.mysql.binlog.events import EventType
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.rows.compiled import SPLIT, Row
from tables.rules.mapping.row_filter import Predicate, predicate
from tables.rules.mapping.rules import Rules
from wire.table_version import Definition

_INSERT, _DELETE = int(EventType.WRITE_ROWS), int(EventType.DELETE_ROWS)
_LEFT_OUT = 0


class RowRun(NamedTuple):
    """Consecutive rows of an event that are published as one kind of event, or excluded."""

    rows: list[Row]
    """Empty if they are excluded."""
    event_type: int
    size: int
    """Count of source rows."""


class RowSelection:
    """The selection of one table version's rows by the mapping's rules.

    For subscribers, an update that moves a row into the filter is an insert, and an update that moves it out is
    a delete. The rules on operations apply to the result.
    """

    def __init__(self, table: TableName, rules: Rules, definition: Definition) -> None:
        """``definition`` has all columns. Raise ValueError if the filter does not fit it."""
        self._table = table
        self._operations = frozenset(rules.operations or ("insert", "update", "delete"))
        types = {column.name: column.type for column in definition.columns}
        self._passes: Predicate | None = None
        if rules.row_filter:
            self._passes = predicate(rules.row_filter, types)

    @classmethod
    def of(cls, table: TableName, rules: Rules, definition: Definition) -> RowSelection | None:
        """Return the selection; None if the rules publish all rows."""
        if not rules.row_filter and not rules.operations:
            return None
        return cls(table, rules, definition)

    def runs(self, rows: list[Row], event_type: int) -> Iterator[RowRun]:
        """Yield all rows of an event in order, consecutive rows of one outcome together."""
        judged = [self._judged(row, event_type) for row in rows]
        for kind, run in groupby(judged, key=lambda one: one[0]):
            found = [row for _, row in run]
            yield RowRun([] if kind == _LEFT_OUT else found, kind, len(found))

    def _judged(self, row: Row, event_type: int) -> tuple[int, Row]:
        """Return a row as it is published, with the type of its event."""
        if self._passes is not None:
            found = self._filtered(self._passes, row)
            if found is None:
                return _LEFT_OUT, row
            if found is not row:
                row, event_type = found, _INSERT if found[0] is None else _DELETE
        return (event_type if _operation(row) in self._operations else _LEFT_OUT), row

    def _filtered(self, passes: Predicate, row: Row) -> Row | None:
        """Return a row as far as its images pass the filter; None if no image does."""
        before, after, old_key, new_key, marks = row
        old, new = raw_images(row)
        was = old is not None and self._passed(passes, old)
        is_ = new is not None and self._passed(passes, new)
        if before is None or after is None or (was and is_):
            return row if was or is_ else None
        first, split, second = (marks or "").partition(SPLIT)
        if was:
            return before, None, old_key, None, first or None
        if not is_:
            return None
        marks = (second if split else first) or None
        if marks is not None and '"absent":' in marks:
            raise self._impossible("a row enters the row filter, and its image lacks columns")
        return None, after, None, new_key, marks

    def _passed(self, passes: Predicate, image: str) -> bool:
        try:
            return passes(orjson.loads(image))
        except KeyError as error:
            raise self._impossible(
                f"a row image lacks column {error.args[0]!r}, which the row filter reads"
            ) from None

    def _impossible(self, what: str) -> WitnessesDiffer:
        return RuleImpossible.of(
            self._table, f"{what}; the server needs binlog_row_image = FULL, for all sessions"
        )


def _operation(row: Row) -> str:
    if row[0] is None:
        return "insert"
    return "delete" if row[1] is None else "update"
