"""Why an audit cannot be made; docs/auditing.md lists them."""

from __future__ import annotations

from connectors.errors import AqueductError


class ProgramMissing(AqueductError):
    """The program that prints binlogs is not there."""

    remedy = "Install MySQL's client programs, or name mysqlbinlog with --mysqlbinlog."


class TruthUnreadable(AqueductError):
    """The source's binlog could not be read to its end."""

    remedy = "Check the account (REPLICATION SLAVE, REPLICATION CLIENT) and that the files are not purged."


class NotAuditable(AqueductError):
    """There is nothing to audit by."""


class WarehouseUnreadable(AqueductError):
    """The sink could not tell what the warehouse holds."""

    remedy = (
        "Why is said above. Run `python -m spark_sink --config sink.yaml dump FILE` where this prefix's sink "
        "runs, and give FILE to --warehouse."
    )
