"""Recovery of the schema history at the start of a run, where ``snapshot.mode`` is ``recovery``.

A history that is wrong, incomplete or unreadable begins again at the cursor, with the tables whose
definition is certain there.

Invariant: the history begins again once each time that the mode is set, and otherwise only if it cannot
be used. Cursor, numbers, table versions and quarantine stay as they are, and everything else in the
journal is checked as usual.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from app.worker.destination.takeover.initial_state import InitialState
from connectors.errors import (
    AqueductError,
    HistoryTooShort,
    JournalDamaged,
    PositionUnknown,
    StateUnknown,
)
from connectors.mysql.lookup.start import Latest, Start
from tables.journal_format import Entry as Note
from tables.journal_format import tombstone
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import RECOVERY_PART, HistoryRecovery, recovery_note
from wire.text import printed

log = logging.getLogger(__name__)

_REQUESTED = "snapshot.mode is recovery"


class ReadState(Protocol):
    """Reads the verified state of a destination from its journal."""

    async def __call__(
        self, *, whole_history: bool = False, without_history: bool = False
    ) -> DestinationState: ...


@dataclass(slots=True, kw_only=True)
class HistoryReading:
    """The state that a run begins with: with its schema history, or with one that begins again."""

    destination: str
    recovers: bool
    read: ReadState
    why: str | None = None
    """The reason for which the history begins again; None if it does not."""

    async def state(self) -> DestinationState:
        """Return the state; without its history if the history is to begin again."""
        try:
            state = await self.read()
        except JournalDamaged as error:
            return await self._without_history(error)
        last = state.parts[RECOVERY_PART].last
        is_done = last is not None and last.is_requested
        if not self.recovers or is_done or state.cursor is None:
            return state
        return await self._begun_again(_REQUESTED)

    def check(self, state: DestinationState, start: Start) -> None:
        """Raise StateUnknown if there is no position to continue at, and the start names none."""
        if self.recovers and state.cursor is None and isinstance(start, Latest):
            raise StateUnknown(
                "snapshot.mode is recovery, which continues at the cursor, and there is none",
                destination=self.destination,
                remedy="Check the prefix and the destination's name in the settings; or set start to the "
                "position to begin at; or, to begin at the end of the binlog, set snapshot.mode to no_data.",
            )

    async def opened(
        self, state: DestinationState, open_: Callable[[DestinationState], InitialState]
    ) -> tuple[DestinationState, InitialState]:
        """Return the initial state, after the state from which it was made; raise the errors of ``open_``."""
        try:
            try:
                return state, await asyncio.to_thread(open_, state)
            except HistoryTooShort:
                # The cursor was set back to before the newest checkpoint; the journal holds older ones.
                state = await self.read(whole_history=True)
                return state, await asyncio.to_thread(open_, state)
        except (HistoryTooShort, PositionUnknown, JournalDamaged) as error:
            state = await self._without_history(error)
            return state, await asyncio.to_thread(open_, state)

    async def _without_history(self, error: AqueductError) -> DestinationState:
        """Read the state without a history that cannot be used.

        Raise ``error`` if the history is not to begin again, or the error of any other unreadable record.
        """
        if not self.recovers:
            raise error
        where = {name: error.context[name] for name in ("key", "offset") if name in error.context}
        parts = [error.detail, *(f"{name} {printed(value)}" for name, value in where.items())]
        return await self._begun_again(f"{error.name}: {', '.join(parts)}")

    async def _begun_again(self, why: str) -> DestinationState:
        self.why = why
        return await self.read(without_history=True)

    def notes(self, state: DestinationState, opened: InitialState) -> list[Note]:
        """Return the journal's records of a recovery, or of the end of its request.

        They must precede the records of the new history.
        """
        last = state.parts[RECOVERY_PART].last
        if not self.recovers:
            has_ended = last is not None and last.is_requested
            return [recovery_note(replace(last, is_requested=False))] if last and has_ended else []
        if self.why is None and state.cursor is not None:
            return []
        recovery = HistoryRecovery(
            destination=self.destination,
            at=str(opened.cursor.offset),
            why=self.why or "first start",
            ts_ms=time.time_ns() // 1_000_000,
        )
        return [*map(tombstone, state.removed), recovery_note(recovery)]

    def warnings(self, state: DestinationState, opened: InitialState) -> list[str]:
        """Return what is to be shown while the mode is ``recovery``, and log it."""
        if not self.recovers:
            return []
        last, at = state.parts[RECOVERY_PART].last, str(opened.cursor.offset)
        if self.why is None and last is not None:
            text = f"{_REQUESTED} still: the schema history began again at {last.at}, which is done once"
        else:
            count = len(opened.history.now().tables()) if opened.history is not None else 0
            why = "" if self.why in (None, _REQUESTED) else f", as it could not be used: {self.why}"
            text = f"{_REQUESTED}: the schema history begins at {at} with {count} table(s){why}"
        shown = f"{text}; set the mode back to what it was"
        log.warning("%s: %s", self.destination, shown)
        return [shown]
