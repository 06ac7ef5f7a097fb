"""Positions: why a destination cannot start or resume at a position of its source's binlog.

Invariant: a missing binlog is named by its cause, which determines the remedy; no destination skips to "now"
unless an operator requests it.
"""

from __future__ import annotations

from connectors.errors.base import AqueductError


class PreparedRowsGone(AqueductError):
    """The rows of a prepared XA transaction can no longer be read."""

    remedy = (
        "It was committed, and its rows are before the start, or in a binlog file that was purged. To continue "
        "without them: `python -m app cursor skip DEST --gtid GTID --why REASON`, with the GTID of its XA "
        "COMMIT (without GTIDs --file and --pos); and reload the tables that it changed."
    )


class PositionGone(AqueductError):
    """The server no longer has the binlog at the cursor."""

    is_gap = True
    """Whether changes are missing, so that publishing all rows again would help."""
    remedy = (
        "Put the binlog files back; or publish all rows again, and resume from the end: `python -m app cursor "
        "set DEST --latest --with-snapshot --why REASON`; or accept the gap, and resume from the oldest change "
        "available: --earliest."
    )


class PositionPurged(PositionGone):
    """The server has purged the binlog that comes next."""

    remedy = (
        "Put the binlog files back; or publish all rows again, and resume from the end: `python -m app cursor "
        "set DEST --latest --with-snapshot --why REASON`; or accept the gap, and resume from the oldest change "
        "available: --earliest. Then keep binlogs longer (binlog_expire_logs_seconds)."
    )


class BinlogFileMissing(PositionGone):
    """The server has no binlog file of that name."""

    remedy = (
        "If it was moved, put it back with its line in the index file; else publish all rows again: "
        "`python -m app cursor set DEST --latest --with-snapshot --why REASON`, or accept the gap: --earliest. "
        "A start in the settings may be misspelt."
    )


class PositionWithin(PositionGone):
    """The position is within a transaction."""

    is_gap = False
    remedy = "Use one of the two positions named above; nothing was read."


class AlreadyPast(AqueductError):
    """The cursor is already past this transaction."""

    remedy = (
        "It was published or skipped, so there is nothing to skip. See `python -m app cursor show`."
    )


class NotConfirmed(AqueductError):
    """Nothing was changed, since the effect was not confirmed."""

    remedy = "Type the destination's name where it asks, or add --yes-lose-changes."


class TimeInFuture(PositionGone):
    """The start is a time in the future."""

    is_gap = False
    remedy = (
        "Times are milliseconds since 1970, or ISO 8601 with a zone, as 2026-11-21T10:00:00Z. "
        "Without a start, reading begins at the end of the binlog."
    )


class StartIncomplete(AqueductError):
    """The binlog does not reach back to the server's beginning, so existing rows would be absent."""

    remedy = (
        "Load the tables into the warehouse by other means, then confirm the start: add incomplete_start to "
        "the destination's `accept` in the settings. Or begin with `start: latest`."
    )


class EndPositionUnknown(AqueductError):
    """The server does not report the end of its binlog."""

    remedy = (
        "The account lacks a privilege: GRANT REPLICATION CLIENT ON *.* TO it; or the server writes no binlog: "
        "start it with log_bin. Then repeat the command, or `python -m app destination restart DEST`."
    )


class SourceDiverged(AqueductError):
    """The server lacks transactions that were already published."""

    remedy = (
        "It was reset, restored from a backup, or is another server. "
        "Point the destination to the right server; or resume from the end of this one with "
        "`python -m app cursor set DEST --latest --why REASON`, and reload the tables."
    )


class PositionPastEnd(SourceDiverged):
    """The position is past the end of the server's binlog."""

    remedy = (
        "The server was reset or restored, or lost what it had not synced; or the position is misspelt. "
        "Resume from its first change with `python -m app cursor set DEST --earliest --why REASON`, or from "
        "its end: --latest; and reload the tables."
    )


class SourceReset(SourceDiverged):
    """The server's binlog was started again from nothing."""

    remedy = (
        "It was reset or restored, and what was published from it is no longer in its binlog. "
        "Resume from its first change with `python -m app cursor set DEST --earliest --why REASON`, or from "
        "its end: --latest; and reload the tables."
    )


class SourceUnproven(AqueductError):
    """Nothing shows that the server's binlog is the one that was read."""

    remedy = (
        "If the server was neither reset nor restored since, accept it: add unproven to the destination's "
        "`accept` in the settings, restart, and remove it again. Otherwise resume from the end with "
        "`python -m app cursor set DEST --latest --why REASON`, and reload the tables."
    )


class AnonymousTransaction(AqueductError):
    """The source has a transaction without GTID after the cursor, and sends none while gtid_mode is ON."""

    remedy = (
        "It was written while gtid_mode was not ON. To publish it: add anonymous_transactions to the "
        "destination's `accept` in the settings, SET GLOBAL gtid_mode = ON_PERMISSIVE on the source, restart "
        "the worker, and once it is past that position SET GLOBAL gtid_mode = ON. To resume without it: "
        "`python -m app cursor set DEST --latest --why REASON`, and reload the tables."
    )


class ResumeMismatch(AqueductError):
    """The binlog does not continue the transaction that the cursor is in."""

    remedy = (
        "The source is not the one the cursor was written for: restore it; or resume from the end of this one "
        "with `python -m app cursor set DEST --latest --why REASON`, and reload the tables."
    )
