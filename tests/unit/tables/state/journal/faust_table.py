"""A Faust table in memory, whose changelog may refuse what is sent, and a checkpoint in it."""

from __future__ import annotations

import asyncio
from collections import UserDict
from typing import Any

from connectors.kafka.reading import StoredRecord
from tables.state.journal.faust_checkpoint import FaustCheckpoint


class Table(UserDict[str, Any]):
    """A Faust table and its changelog, which may refuse what is sent."""

    changelog_topic_name = "changelog"

    def __init__(self) -> None:
        super().__init__()
        self.changelog: list[tuple[str, Any]] = []
        self.refused: set[str] = set()

    def send_changelog(self, partition: int, key: str, value: Any) -> asyncio.Future[None]:
        del partition
        sent: asyncio.Future[None] = _loop().create_future()
        if key in self.refused:
            sent.set_exception(OSError("no broker"))
        else:
            self.changelog.append((key, value))
            sent.set_result(None)
        return sent

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self.send_changelog(0, key, value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.send_changelog(0, key, None)

    def recovered(self, compacted: int, upto: int) -> Table:
        """Another worker's, which has read so much of the changelog, of which so much was compacted."""
        last = {key: at for at, (key, _) in enumerate(self.changelog)}
        table = Table()
        for at, (key, value) in enumerate(self.changelog[:upto]):
            if at < compacted and last[key] != at:
                continue
            if value is None:
                table.data.pop(key, None)
            else:
                table.data[key] = value
        return table


class App:
    """The parts of a Faust app that a checkpoint uses."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def GlobalTable(self, *_: Any, **__: Any) -> Table:  # noqa: N802 - Faust's own
        return self._table


LOOPS: list[asyncio.AbstractEventLoop] = []
"""Loops made for futures outside a running one; a test module closes them at its end."""


def _loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        if not LOOPS:
            LOOPS.append(asyncio.new_event_loop())
        return LOOPS[0]


def checkpoint_of(table: Table) -> FaustCheckpoint:
    return FaustCheckpoint(App(table), partitions=1)


def kept(table: Table, records: list[StoredRecord]) -> FaustCheckpoint:
    checkpoint = checkpoint_of(table)
    checkpoint.begin(0)
    for record in records:
        checkpoint.fold(record, 0)
    return checkpoint
