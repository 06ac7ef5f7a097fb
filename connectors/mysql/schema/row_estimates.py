"""Estimated row counts of captured tables, from ``information_schema``.

Invariant: an estimate is labelled as such wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from connectors.mysql.server.facts import SourceAddress, connected
from connectors.mysql.server.system_databases import SYSTEM

_MOST_NAMED = 10
_QUERY = (
    "SELECT table_schema, table_name, COALESCE(table_rows, 0), COALESCE(UNIX_TIMESTAMP(create_time), 0)"
    " FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A table that has rows."""

    table: str
    rows: int
    created: int
    """Seconds since 1970, from the server's dictionary; a rebuilt table counts as new."""


def estimates(captures: Callable[[str, str], bool], address: SourceAddress) -> list[Estimate]:
    """All captured tables with rows that the account may see, the largest first."""
    with connected(address) as cursor:
        cursor.execute(_QUERY)
        rows = cursor.fetchall()
    found = [
        Estimate(f"{database}.{table}", int(count), int(created))
        for database, table, count, created in rows
        if int(count) and database not in SYSTEM and captures(database, table)
    ]
    return sorted(found, key=lambda one: (-one.rows, one.table))


def listed(found: list[Estimate]) -> str:
    """Format estimates for a log line or an error."""
    if not found:
        return "no rows (by the estimates of information_schema)"
    named = ", ".join(f"{one.table} {one.rows}" for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    total = sum(one.rows for one in found)
    return f"about {total} row(s) of {len(found)} table(s) (estimates of information_schema: {named}{more})"
