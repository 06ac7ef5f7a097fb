"""Errors of all formats for a table that does not descend from the commit at which the sink left it."""

from __future__ import annotations

from spark_sink.errors import TableReplaced
from spark_sink.text.quoting import argument
from spark_sink.warehouse.milestones import Commit
from spark_sink.warehouse.protocol import Name


def replaced(name: Name, reason: str) -> TableReplaced:
    """The error for a table that is not the one that the sink left."""
    return TableReplaced(f"{'.'.join(name)}: {reason}", advice=again(name))


def again(name: Name) -> str:
    """The advice for a table whose rows cannot be relied on."""
    own = argument(name)
    return (
        f"Run: python -m spark_sink reload {own} --from-beginning; or load it (docs/sink/bulk-load.md), if "
        f"Kafka no longer has all its changes. If you put back what was there, reload {own} is enough"
    )


def refuse_older(name: Name, last: Commit, left: Commit) -> None:
    """Raise TableReplaced if a table is older than the ledger has it."""
    if last.version < left.version:
        reason = (
            f"it is at version {last.version}, and the ledger has {left.version}: an older copy"
        )
        raise replaced(name, reason)
