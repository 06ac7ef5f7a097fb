"""Why a table, or a whole destination, cannot be validated; docs/validation.md lists them."""

from __future__ import annotations

from connectors.errors import AqueductError
from connectors.mysql.ddl.definition import TableName


class NotComparable(AqueductError):
    """The rows of a table cannot be compared with its topic."""

    remedy = (
        "Remove the cause named above, and validate again; or compare its changes with the binlog: "
        "`python -m app audit DEST`."
    )


class TableChanged(AqueductError):
    """The definition of a table, or its rules, changed while it was compared."""

    # No remedy: it is never shown; the table is compared again, or its reason says that it changed each time.

    def __init__(self, detail: str, changed: TableName) -> None:
        super().__init__(detail, table=".".join(changed))
        self.changed = changed


class NotRepaired(AqueductError):
    """The rows of a table were not published again."""

    remedy = (
        "See `python -m app snapshot status DEST`, and remove the cause that it shows; once the snapshot has "
        "ended, repeat `python -m app validate DEST --repair`, which requests what still differs."
    )


class PublishingStalled(AqueductError):
    """The destination does not reach a position of its source, so rows cannot be compared there."""

    remedy = (
        "Validation needs a running worker, and merge: see `python -m app destination list` and /status, and "
        "begin again once they run."
    )


class SourceMoved(AqueductError):
    """The destination reads another server than the one that is compared."""

    remedy = "Begin again: the rows of the server that is read now are compared then."
