"""Two servers that have the same transactions, at places of their own."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.mysql.position import Coordinates
from tests.unit.app.worker.pipeline.actions import Action
from tests.unit.app.worker.pipeline.history import Source


class Standby(Source):
    """A replica: what it read from its master stands elsewhere in its own binlog."""

    def __init__(self, history: list[list[Action]]) -> None:
        super().__init__(history, gtids=True)
        for event in self._events:
            event.start, event.end = _moved(event.start), _moved(event.end)
        self.starts = [_moved(position) for position in self.starts]
        self.ends = [_moved(position) for position in self.ends]


def _moved(position: Coordinates) -> Coordinates:
    return Coordinates(position.file.replace("binlog", "standby"), position.pos + 1000)


def both(history: Sequence[list[Action]]) -> tuple[Source, Source]:
    """Master and standby."""
    return Source([*history], gtids=True), Standby([*history])
