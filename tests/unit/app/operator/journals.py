"""A destination's journal in memory, as operations read and write it, with workers that answer at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from app.operator.journal_access import Journal
from app.worker.destination.plan import Source
from connectors.kafka.reading import StoredRecord
from connectors.mysql.lookup.start import Earliest
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from tables.journal_format import Entry as Note
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState

T = TypeVar("T")


def address(host: str) -> SourceAddress:
    return SourceAddress(host=host, port=3306, user="u", password="", server_id=5, replica_uuid="")


def cursor(gtids: Gtids | None = None, *, pos: int = 4, server: str = "uuid-a") -> Cursor:
    offset = SourceOffset(
        server_uuid=server, coordinates=Coordinates("binlog.000002", pos), gtid_set=gtids
    )
    return Cursor(destination="shop", installation="i", epoch=1, seq=1, versions=0, offset=offset)


@dataclass(slots=True)
class MemoryJournal:
    """The journal of destination ``shop``, whose sources are on the hosts ``a`` and ``b``."""

    folded: DestinationState
    written: list[Note] = field(default_factory=list)
    answer: Callable[[Note], list[Note]] = lambda _: []
    """The records that workers write after a request."""

    @property
    def journal(self) -> Journal:
        """The journal as an argument of operations."""
        listed = tuple(Source(address=address(host), start=Earliest()) for host in "ab")
        plan = SimpleNamespace(name="shop", address=listed[0].address, sources=listed)
        settings = SimpleNamespace(prefix="aq")
        made = SimpleNamespace(
            plan=plan, name=plan.name, settings=settings, options={}, topic="aq.__journal", partition=0,
            state=self._state, latest_state=self._state, initialized_state=self._state, write=self._write,
            wait=self._wait, write_all=self._write_all,
        )  # fmt: skip
        made.unit = made
        return cast(Journal, made)

    async def _state(self, **_: Any) -> DestinationState:
        return self.folded

    async def _write(self, note: Note) -> int:
        offset = len(self.written)
        for key, value in [note, *self.answer(note)]:
            self.folded.apply(StoredRecord(key, value, len(self.written)))
            self.written.append((key, value))
        return offset

    async def _write_all(self, notes: Iterable[Note]) -> int:
        offset = len(self.written)
        for note in notes:
            await self._write(note)
        return offset

    async def _wait(
        self, read: Callable[[DestinationState], T | None], *, after: int, **_: float
    ) -> T | None:
        later = DestinationState("shop")
        for offset, (key, value) in list(enumerate(self.written))[after + 1 :]:
            later.apply(StoredRecord(key, value, offset))
        return read(later)


def journal() -> MemoryJournal:
    """A journal with a cursor."""
    state = DestinationState("shop")
    state.cursor = cursor()
    return MemoryJournal(state)
