"""Why a destination cannot begin or go on at a place of its source's binlog.

The law: what is gone is named for what became of it, and what to do follows from that; nobody goes on
"from now" but who was told to.
"""

from __future__ import annotations

from connectors.errors_base import AqueductError


class PreparedRowsGone(AqueductError):
    """The rows of a prepared XA transaction cannot be read any more."""

    remedy = (
        "It was committed, and its rows stand before the start, or in a binlog file that was purged. "
        "Choose a new start behind its XA COMMIT, and reload the tables that it changed."
    )


class PositionGone(AqueductError):
    """The server no longer has the binlog at the cursor."""

    remedy = (
        "Changes between the cursor and the server's oldest binlog cannot be read any more. "
        "Restore the binlog files, or set the destination to a new start and reload its tables."
    )


class EndPositionUnknown(AqueductError):
    """The server does not tell the end of its binlog."""

    remedy = "Turn on log_bin, and grant REPLICATION CLIENT to the account."


class SourceDiverged(AqueductError):
    """The server lacks transactions that were already published."""

    remedy = (
        "It was reset, restored from a backup, or is another server. "
        "Point the destination to the right server, or choose a new start and reload its tables."
    )


class ResumeMismatch(AqueductError):
    """The binlog does not go on with the transaction the cursor stands in."""

    remedy = (
        "The source is not the one the cursor was written for; restore it, or choose a new start."
    )
