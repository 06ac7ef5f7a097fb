"""Why an audit cannot be made; docs/auditing.md lists them."""

from __future__ import annotations

from connectors.errors import AqueductError


class ProgramMissing(AqueductError):
    """The program that prints binlogs is not installed."""

    remedy = "Install MySQL's client programs, or name mysqlbinlog with --mysqlbinlog."


class TruthUnreadable(AqueductError):
    """The source's binlog could not be read to its end."""

    remedy = "Check the account (REPLICATION SLAVE, REPLICATION CLIENT) and that the files are not purged."


_WITHOUT_GTIDS = (
    "With gtid_mode = ON the server does not send transactions without GTIDs. "
    "SET GLOBAL gtid_mode = ON_PERMISSIVE until the audit has ended, or audit copies of the binlog files with "
    "--binlogs, or begin after those transactions with --from."
)


def remedy_of(refusal: str, usual: str = TruthUnreadable.remedy) -> str:
    """Return the remedy for a binlog that cannot be read, chosen by the server's or the program's message."""
    return _WITHOUT_GTIDS if "anonymous transaction" in refusal.lower() else usual


class NotAuditable(AqueductError):
    """The audit lacks something to compare with."""

    remedy = (
        "Check the prefix and the destination's name in the settings: only what a worker has led can be "
        "audited."
    )


class WarehouseUnreadable(AqueductError):
    """The sink could not list the contents of the warehouse."""

    remedy = (
        "The cause is given above. Run `python -m spark_sink --config sink.yaml dump FILE` where this prefix's "
        "sink runs, and give FILE to --warehouse."
    )
