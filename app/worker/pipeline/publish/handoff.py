"""The handoff of pieces from the decoding thread to the event loop that publishes them, with two limits.

Invariant: memory is bounded by bytes and by pieces; the sender waits, and so does the source. Only whole
pieces are taken. An error comes out in its place, after everything whole before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque

from app.worker.pipeline.piece import Piece
from connectors.errors import AqueductError

MAX_BYTES = 32 * 1024 * 1024
MAX_PIECES = 20_000


class Handoff:
    """A bounded queue of pieces between one thread and one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        max_bytes: int = MAX_BYTES,
        enough: int = MAX_BYTES // 4,
    ) -> None:
        self._loop = loop
        self._max_bytes = max_bytes
        self._enough = enough
        """Bytes from which a Kafka transaction begins before its interval is over."""
        self._ready = asyncio.Event()
        self._plenty = asyncio.Event()
        self._room = threading.Condition()
        self._pieces: deque[Piece] = deque()
        self._bytes = 0
        self._error: AqueductError | None = None
        self._closed = False

    def put(self, piece: Piece) -> bool:
        """From the thread: hand over a piece, waiting for room; False once closed."""
        with self._room:
            while not self._closed and self._is_full():
                self._room.wait()
            if self._closed:
                return False
            last = self._pieces[-1] if self._pieces else None
            self._bytes += piece.size
            if last is not None and (not last.whole or _only_moves(last, piece)):
                last.absorb(piece)
            else:
                self._pieces.append(piece)
            is_ready = self._pieces[0].whole
            is_plenty = self._bytes >= self._enough
        if is_ready:
            self._wake(self._ready)
        if is_plenty:
            self._wake(self._plenty)
        return True

    def fail(self, error: AqueductError) -> None:
        """From the thread: end the stream with an error."""
        with self._room:
            self._error = error
        self._wake(self._ready)
        self._wake(self._plenty)

    def close(self) -> None:
        """From the loop: take no more; a waiting thread returns at once."""
        with self._room:
            self._closed = True
            self._pieces.clear()
            self._room.notify_all()

    async def take(self, *, max_bytes: int, timeout: float) -> Piece | None:  # noqa: ASYNC109
        """Return the waiting pieces as one, of about ``max_bytes``; None after ``timeout`` seconds without any.

        Raise the reader's error once everything before it was taken.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._ready.wait()
        except TimeoutError:
            return None
        with self._room:
            taken = self._taken(max_bytes)
            if self._error is None and not (self._pieces and self._pieces[0].whole):
                self._ready.clear()
            if self._error is None and self._bytes < self._enough:
                self._plenty.clear()
            self._room.notify_all()
            if taken is None and self._error is not None:
                raise self._error
        return taken

    async def gather(self, seconds: float) -> None:
        """Wait for pieces for that time, or until there are enough."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._plenty.wait()

    def _taken(self, max_bytes: int) -> Piece | None:
        if not self._pieces or not self._pieces[0].whole:
            return None
        taken = self._pieces.popleft()
        self._bytes -= taken.size
        while self._pieces and self._pieces[0].whole and taken.size < max_bytes:
            later = self._pieces.popleft()
            self._bytes -= later.size
            taken.absorb(later)
        return taken

    def _is_full(self) -> bool:
        # A piece that is not whole can be taken only after later pieces complete it.
        waits = bool(self._pieces) and self._pieces[0].whole
        return waits and (self._bytes >= self._max_bytes or len(self._pieces) >= MAX_PIECES)

    def _wake(self, event: asyncio.Event) -> None:
        if not event.is_set():
            self._loop.call_soon_threadsafe(event.set)


def _only_moves(last: Piece, piece: Piece) -> bool:
    """Whether a piece only moves the position after a whole one."""
    return piece.only_moves and piece.whole and last.resume is None
