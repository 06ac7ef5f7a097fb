"""The schema history that a command reads: the journal's, or with ``--store`` the central store's."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from functools import partial

from app.operator.operations.schema.destination_history import DestinationHistory, ReadHistory
from app.settings.model import load
from connectors.errors import UsageError

ReadByName = Callable[[str], Awaitable[DestinationHistory]]
"""Returns the history of a destination by its name."""


def history_reader(options: argparse.Namespace, read_by_name: ReadByName) -> ReadHistory:
    """Return the reader of a command's history: ``read_by_name``, or the central store."""
    return partial(from_store if options.from_store else read_by_name, options.destination)


async def from_store(destination: str) -> DestinationHistory:
    """Read the settings, then the central store."""
    from app.operator.operations.schema.reading import read_store_history
    from app.worker.wiring import central_store

    store = central_store(load())
    if store is None:
        raise UsageError(
            "--from-store needs schema_history.store: mysql, and mysql.host and mysql.user"
        )
    return await read_store_history(store, destination)


async def from_journal(destination: str) -> DestinationHistory:
    """Read the settings, then the journal."""
    settings = load()
    # Only here is Kafka's client needed, and it is slow to import.
    from app.operator.operations.schema.reading import read_journal_history

    return await read_journal_history(settings, destination)
