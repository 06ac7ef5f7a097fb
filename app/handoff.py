"""From the thread that reads to the event loop that publishes, with two limits.

The law: memory is bounded by bytes and by pieces, both enforced; the reader waits, and so does the source. An
error of the reader comes out in its place, after everything that was read before it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from app.pipeline.assemble import Piece
from connectors.errors import AqueductError

MAX_BYTES = 32 * 1024 * 1024
MAX_PIECES = 20_000


class Handoff:
    """A bounded queue of pieces between one thread and one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = asyncio.Event()
        self._room = threading.Condition()
        self._pieces: deque[Piece] = deque()
        self._bytes = 0
        self._error: AqueductError | None = None
        self._closed = False

    def put(self, piece: Piece) -> bool:
        """From the thread: hand a piece over, waiting for room; False when nobody wants it any more."""
        with self._room:
            while not self._closed and self._is_full():
                self._room.wait()
            if self._closed:
                return False
            last = self._pieces[-1] if self._pieces else None
            if last is not None and not piece.records and _has_room(last):
                # Only the place moved: a thousand filtered transactions are one step.
                last.absorb(piece)
            else:
                self._pieces.append(piece)
            self._bytes += piece.size
        self._wake()
        return True

    def fail(self, error: AqueductError) -> None:
        """From the thread: nothing more comes, and why."""
        with self._room:
            self._error = error
        self._wake()

    def close(self) -> None:
        """From the loop: nobody takes any more; a waiting thread goes on at once."""
        with self._room:
            self._closed = True
            self._pieces.clear()
            self._room.notify_all()

    async def take(self, *, max_bytes: int, timeout: float) -> Piece | None:  # noqa: ASYNC109
        """All that is there, as one piece of about ``max_bytes``; None after ``timeout`` seconds without any.

        Raises the reader's error once everything before it was taken.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._ready.wait()
        except TimeoutError:
            return None
        with self._room:
            taken = self._taken(max_bytes)
            if not self._pieces and self._error is None:
                self._ready.clear()
            self._room.notify_all()
            if taken is None and self._error is not None:
                raise self._error
        return taken

    def _taken(self, max_bytes: int) -> Piece | None:
        if not self._pieces:
            return None
        taken = self._pieces.popleft()
        self._bytes -= taken.size
        while self._pieces and taken.size < max_bytes:
            later = self._pieces.popleft()
            self._bytes -= later.size
            taken.absorb(later)
        return taken

    def _is_full(self) -> bool:
        return self._bytes >= MAX_BYTES or len(self._pieces) >= MAX_PIECES

    def _wake(self) -> None:
        if not self._ready.is_set():
            self._loop.call_soon_threadsafe(self._ready.set)


_MOST_GTIDS = 1000


def _has_room(last: Piece) -> bool:
    """Whether a piece without records may be added to a waiting one."""
    return last.resume is None and len(last.gtids) < _MOST_GTIDS
