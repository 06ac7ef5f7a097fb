"""Warnings on filter expressions that match no existing table, until one matches.

Invariant: this only warns, as a table may be created later; the filter alone decides what is
captured.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from app.worker.pipeline.piece import Piece
from app.worker.pipeline.rules import PublishingRules
from app.worker.status import DestinationStatus
from connectors.mysql.ddl.definition import TableChange, TableName
from connectors.mysql.server.database_filters import SYSTEM
from tables.journal_format import Entry
from tables.rules.routes.routes import Routes
from tables.rules.table_filter import expressions, literal_prefix
from tables.state.cursor import Cursor

log = logging.getLogger(__name__)

_CLOSE = 0.5
_NEAREST = 3
_WARNINGS = "filter"


class FilterCheck:
    """The check of one run of a destination."""

    def __init__(
        self, rules: PublishingRules, names: Iterable[TableName], status: DestinationStatus
    ) -> None:
        self._rules = rules
        self._names = set(names)
        self._status = status
        self._show()

    def before(self, _piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """Return no records."""
        return ()

    def committed(self, piece: Piece, _cursor: Cursor) -> None:
        """Record tables that statements created or dropped."""
        changes = [
            one
            for record in piece.tables.history
            for one in record.changes
            if isinstance(one, TableChange)
        ]
        for change in changes:
            (self._names.discard if change.new is None else self._names.add)(change.name)
        if changes and self._status.warnings.get(_WARNINGS):
            self._show()

    def _show(self) -> None:
        """Log new warnings, and show all on the status page."""
        shown = self._status.warnings.get(_WARNINGS, [])
        found = list(warnings(self._rules.routes, self._names))
        for warning in found:
            if warning not in shown:
                log.warning("%s: %s", self._status.name, warning)
        self._status.warnings[_WARNINGS] = found


def warnings(routes: Routes, names: set[TableName]) -> Iterator[str]:
    """The warnings on a filter at a server with these tables."""
    if not names:
        yield "the server has no table that the account can see, so nothing is captured now"
        return
    if not any(map(routes.of, names)) and not _of_system(routes.include):
        yield f"the filter captures none of the {len(names)} tables that the account can see"
    for setting, text in (("include", routes.include), ("black", routes.black)):
        for expression in expressions(text):
            pattern = expression.pattern
            if _of_system(pattern) or any(expression.fullmatch(".".join(one)) for one in names):
                continue
            yield f"filter.{setting}: {pattern} matches no table{_hint(pattern, names)}"


def _of_system(text: str) -> bool:
    """Whether any expression names a system database; the names of tables include none of these."""
    return any(literal_prefix(one.pattern).startswith(SYSTEM) for one in expressions(text))


def _hint(pattern: str, names: set[TableName]) -> str:
    """The nearest names of tables, or of databases if the expression covers a whole database."""
    database, _, table = re.sub(r"\\(.)|[\^$*+?()\[\]{}|]", r"\1", pattern).lower().partition(".")
    known = {one.lower(): one for one in (database for database, _ in names)}
    if table.strip("."):
        known = {".".join(one).lower(): ".".join(one) for one in names}
    wanted = f"{database}.{table}" if table.strip(".") else database
    close = get_close_matches(wanted, sorted(known), n=_NEAREST, cutoff=_CLOSE)
    return f"; near it are {', '.join(known[one] for one in close)}" if close else ""
