"""The captured tables that a statement drops, where subscribers are to see their rows go.

Invariant: a table that is renamed, replaced or a tool's shadow is not dropped; the order is that of the drops.
"""

from __future__ import annotations

from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.statement_effect import Applied
from connectors.mysql.ddl.definition import TableChange
from tables.rules.routes.routes import Route


def dropped_routes(applied: Applied | None, tables: CapturedTables) -> tuple[Route, ...]:
    """Return the routes of these tables; none without a schema history, which alone knows what existed."""
    if applied is None or applied.is_noise or applied.record is None:
        return ()
    names = [
        one.name
        for one in applied.record.changes
        if isinstance(one, TableChange) and one.new is None and one.renamed_to is None
    ]
    routes = [tables.route(name) for name in names if not tables.is_given_up(name)]
    return tuple(one for one in routes if one is not None and one.deletes_on_drop)
