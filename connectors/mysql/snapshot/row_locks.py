"""Rows that others have locked, where a SELECT has to lock its own as a proof of what it sees.

Invariant: a lock is never waited for; the SELECT is given up, and tried again with fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from connectors.mysql.snapshot.read_clock import ReadClock
from connectors.mysql.snapshot.read_views import ROW_LOCKED, ReadViews


class RowLocked(Exception):
    """A row of a SELECT that has to lock its rows is being changed."""


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
            raise RowLocked from None
        raise
