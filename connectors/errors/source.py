"""The source server: its connection, its setup, and events of its binlog that cannot be published."""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class PreflightError(AqueductError):
    """The source server is not set up for change data capture."""

    remedy = "Run the statements named above on the server, then restart this destination."


class SourceLost(AqueductError):
    """The connection to MySQL was lost or could not be made."""

    retry = Retry.TIMED
    remedy = "Aqueduct reconnects and resumes from its cursor by itself; check the server and the network."


class SourceRefused(AqueductError):
    """MySQL refused the connection or a statement."""

    retry = Retry.TIMED
    remedy = "Check the account, its password and its grants; Aqueduct retries by itself."


class TableUnreadable(AqueductError):
    """MySQL does not return the rows of a table now."""

    retry = Retry.TIMED
    remedy = "Check the table's locks and the account's SELECT on it; its rows are read again by themselves."


class ServerIdConflict(AqueductError):
    """Another replica uses this destination's server_id."""

    remedy = "Give the destination a server_id that no other replica of this server has."


class CorruptEvent(AqueductError):
    """A binlog event is damaged."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct reads it again from its cursor; if this persists, check the server's disk with "
        "mysqlbinlog. To continue without its transaction: `python -m app cursor skip DEST --gtid GTID --why "
        "REASON` (without GTIDs --file and --pos); if its end cannot be found either, resume from the end of "
        "the binlog: `python -m app cursor set DEST --latest --why REASON`. Then reload the tables concerned."
    )


class MalformedEvent(AqueductError):
    """A binlog event does not have the format of its type."""

    # Lengths and types are read before any checksum, so it may have been damaged on its way.
    retry = Retry.TIMED
    remedy = (
        "Nothing was skipped: Aqueduct reads it again; if this persists, report it with these coordinates. To "
        "continue without its transaction: `python -m app cursor skip DEST --gtid GTID --why REASON` (without "
        "GTIDs --file and --pos); if its end cannot be found either, resume from the end of the binlog: "
        "`python -m app cursor set DEST --latest --why REASON`. Then reload the tables concerned."
    )


class UnsupportedEvent(AqueductError):
    """The binlog holds an event that this version cannot publish without loss."""

    remedy = (
        "Nothing was skipped: the cursor is before this event. If it is of one table, leave the table out with "
        "a filter. Otherwise continue without its transaction: `python -m app cursor skip DEST --gtid GTID "
        "--why REASON` (without GTIDs --file and --pos); and reload the tables that it changed."
    )


class StatementBasedChange(AqueductError):
    """A change was written as a statement, not as rows."""

    remedy = (
        "Set binlog_format=ROW for every session (SET PERSIST binlog_format = 'ROW'). The change named above "
        "cannot be published, and nothing after it was. To continue without it: `python -m app cursor skip "
        "DEST --gtid GTID --why REASON` (without GTIDs --file and --pos); and reload the tables that it "
        "changed."
    )


class IncidentInBinlog(AqueductError):
    """The server reports that its binlog may lack changes."""

    remedy = (
        "Nothing after it was published. Find out what the server lost (see its error log). To continue: "
        "`python -m app cursor skip DEST --gtid GTID --why REASON` (without GTIDs --file and --pos). If the "
        "message has ends_at, as of MariaDB, which gives it no GTID: `python -m app cursor set DEST --file "
        "FILE --pos POS --why REASON` with that position. Then reload the tables concerned."
    )
