"""The result of the validation of one table.

Invariant: each difference is counted, the first ones are listed with their keys, and what was not judged is
named: a table is equal only if nothing differs, and everything was judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from connectors.errors import SnapshotUnsupported
from connectors.mysql.ddl.definition import Table, TableName
from connectors.mysql.select.record_keys import RecordKeys
from tables.rules.routes.routes import Route
from tables.rules.routes.rule_faults import place_columns
from wire.records import KEY_SHARD
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


# Extra rows of a table: the keys by which a worker can look for them at the source, and remove
# them.
#
# Invariant: a key is removable only if SQL would find the source's row with this key, and only if
# no row of another table could have it. If a key is not removable, the reason is stated.

_SHARED = (
    "its keys do not name the real table (shard_in_key: never), so another one may have the row"
)
_MASKED = "its key is masked, so the source's row cannot be looked for"
_PLACED = "partition_by has columns that are not in its key"


class ExtraRow(NamedTuple):
    """A row that only the topic has."""

    key: str
    """The key of its record, as JSON."""
    literals: tuple[str, ...]
    """The source's key as SQL."""


def removable_rows(
    keys: Iterable[bytes], route: Route, table: Table, own_keys: RecordKeys
) -> tuple[list[ExtraRow], set[str]]:
    """Return the extra rows of a table that can be removed, and the reasons why others cannot.

    ``keys`` are those of the rows' records; ``own_keys`` makes SQL of the values of the source's key.
    """
    actions = route.mapped.rules.column_actions if route.mapped is not None else ()
    renamed = {one.argument: one.column for one in actions if one.action == "rename"}
    columns = {name.lower(): name for name in table.primary_key}
    found, obstacles = list[ExtraRow](), set[str]()
    for key in keys:
        values: dict[str, Any] = orjson.loads(key)
        if route.shard is not None:
            values.pop(KEY_SHARD, None)
        own = {renamed.get(name, name).lower(): value for name, value in values.items()}
        if (obstacle := _obstacle(route, values, own.keys(), columns.keys())) is not None:
            obstacles.add(obstacle)
            continue
        try:
            literals = own_keys.literals({columns[name]: value for name, value in own.items()})
            found.append(ExtraRow(key.decode(), literals))
        except SnapshotUnsupported as error:
            obstacles.add(error.detail)
    return found, obstacles


def _obstacle(
    route: Route, values: dict[str, Any], own: Set[str], primary_key: Set[str]
) -> str | None:
    """Why a row cannot be removed; ``own``: the source's names of the columns of its key, in lower case."""
    if not primary_key.isdisjoint(route.column_rules):
        return _MASKED
    if route.mapped is not None and route.mapped.rules.shard_in_key == "never":
        return _SHARED
    if place_columns(route, values) is None:
        return _PLACED
    return None if own == primary_key else "its key had other columns"
