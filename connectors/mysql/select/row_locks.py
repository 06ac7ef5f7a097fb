"""Locks of other sessions: on a table, or on rows that a SELECT locks as a proof of what it sees.

Invariant: a SELECT never waits for a row's lock, and waits some seconds for a table's lock. Then the SELECT
fails and is repeated with fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from connectors.mysql.select.read_clock import ReadClock
from connectors.mysql.select.read_views import ROW_LOCKED, ReadViews


class RowLocked(Exception):
    """Another session locks the table, or changes a row of a SELECT that has to lock its rows."""


class TooManyLocked(RowLocked):
    """A SELECT has locked more rows than it may; the server is still sending them."""


@contextmanager
def locked_rows(views: ReadViews, clock: ReadClock) -> Iterator[None]:
    """Raise RowLocked for the server's errors of ROW_LOCKED."""
    try:
        yield
    except pymysql.MySQLError as error:
        if error.args and error.args[0] in ROW_LOCKED:
            views.was_locked()
            clock.drop()
            code, *text = error.args
            raise RowLocked(f"{''.join(map(str, text))} (error {code})") from None
        raise
