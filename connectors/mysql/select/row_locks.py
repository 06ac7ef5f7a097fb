"""Locks of other sessions: on rows, where a SELECT locks its own as a proof of what it sees, or on a table.

Invariant: a row's lock is never waited for, and a table's for some seconds; then the SELECT is given up, and
tried again with fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from connectors.mysql.select.read_clock import ReadClock
from connectors.mysql.select.read_views import ROW_LOCKED, ReadViews


class RowLocked(Exception):
    """A row of a SELECT that has to lock its rows is being changed, or the table is locked."""


class TooManyLocked(RowLocked):
    """A SELECT has locked more rows than it may; the server is sending them."""


@contextmanager
def locked_rows(views: ReadViews, clock: ReadClock) -> Iterator[None]:
    """Raise RowLocked for the server's error."""
    try:
        yield
    except pymysql.MySQLError as error:
        if error.args and error.args[0] in ROW_LOCKED:
            views.was_locked()
            clock.drop()
            code, *text = error.args
            raise RowLocked(f"{''.join(map(str, text))} (error {code})") from None
        raise
