"""The main loop of a decoder process, at one end of a socket.

The other end is in ``app.worker.pipeline.decoders.pool``.

Invariant: the process ends when its parent does, busy or not: a separate thread sees the end of the socket.
That thread receives at all times, so neither side blocks while both send; the parent sends no more than a few
portions.
The portion next in order is finished before a later one is decoded.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import queue
import socket
import sys
import threading
import traceback
from collections import deque
from typing import Any, Final

from app.worker.pipeline.decoder_progress import on_progress
from app.worker.pipeline.decoders.messages import (
    Begin,
    Connection,
    Failed,
    Finished,
    Given,
    Numbered,
    PickledState,
    Ready,
    Working,
)
from app.worker.pipeline.decoders.protocols import Decoded, Stage, named
from app.worker.pipeline.portions import Portion
from connectors.errors import AqueductError, DecoderLost

_GARBAGE_THRESHOLD = 100_000
"""New objects between garbage collections: a portion's rows are many, alive, and in no cycle."""

_SWITCH_SECONDS = 0.001
"""Interpreter switch interval, so that the receiving thread runs while the main thread works."""


class Decoder:
    """Decodes the received portions, in the main thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._portions: deque[Given] = deque()
        self._decoded: deque[tuple[Given, Decoded]] = deque()
        self._turns: dict[int, PickledState] = {}

    def run(self) -> None:
        """Decode until the parent is gone."""
        threading.Thread(target=self._receive, name="receiver", daemon=True).start()
        stage = self._begin()
        while True:
            if self._decoded and self._decoded[0][0].number in self._turns:
                self._finish(*self._decoded.popleft())
            elif self._portions and self._inbox.empty():
                self._decode(stage, self._portions.popleft())
            else:
                self._take(self._inbox.get())

    def _send(self, message: Any) -> None:
        try:
            self._connection.send(message)
        except OSError:
            os._exit(0)

    def _receive(self) -> None:
        try:
            while True:
                self._inbox.put(self._connection.receive())
        except EOFError:
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(os.EX_SOFTWARE)

    def _begin(self) -> Stage:
        begin: Begin = self._inbox.get()
        on_progress(lambda: self._send(Working()))
        try:
            stage: Stage = pickle.loads(begin.spec).make()  # noqa: S301 - from our parent
        except Exception as error:
            if not isinstance(error, AqueductError):
                error = DecoderLost(f"it could not start: {type(error).__name__}: {error}")
            self._send(Failed(None, error, traceback.format_exc()))
            sys.exit(os.EX_SOFTWARE)
        # Modules and the stage are permanent, so the collector need not visit them again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE_THRESHOLD)
        self._send(Ready())
        return stage

    def _take(self, message: Any) -> None:
        if isinstance(message, Given):
            self._portions.append(message)
        else:
            self._turns[message.number] = message

    def _decode(self, stage: Stage, given: Given) -> None:
        try:
            decoded = stage.decode(given.portion, given.learned)
        except Exception as error:
            self._fail(given.number, given.portion, error)
        else:
            self._decoded.append((given, decoded))

    def _finish(self, given: Given, decoded: Decoded) -> None:
        turn = self._turns.pop(given.number)
        try:
            # Trusted: our parent only relays what another decoder wrote.
            state = pickle.loads(turn.state)  # noqa: S301
            news = [item for some in turn.news for item in pickle.loads(some)]  # noqa: S301
            state, announced = decoded.number(state, news)
            self._send(
                Numbered(
                    given.number,
                    pickle.dumps(state, protocol=5),
                    pickle.dumps(announced, protocol=5) if announced else None,
                )
            )
            self._send(Finished(given.number, decoded.encode()))
        except Exception as error:
            self._fail(given.number, given.portion, error)

    def _fail(self, number: int, portion: Portion, error: Exception) -> None:
        trace = "".join(traceback.format_exception(error))
        located = named(error, portion)
        try:
            self._send(Failed(number, located, trace))
        except Exception:
            # Its details may be of any type; their text is enough.
            details = {name: str(value) for name, value in located.context.items()}
            plain = type(located)(located.detail, remedy=located.advice, **details)
            self._send(Failed(number, plain, trace))


def serve(descriptor: int) -> None:
    """Run a decoder in the main thread for the parent at the other end of the socket."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    keep_memory()
    end = socket.socket(fileno=descriptor)
    end.set_inheritable(False)
    Decoder(Connection(end)).run()


_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 64 * 1024 * 1024
"""Free memory that is kept; what exceeds it is returned to the system."""
_PAD_BYTES: Final = 4 * 1024 * 1024
_MMAP_BYTES: Final = 32 * 1024 * 1024
"""Blocks of this size and larger are returned to the system when they are freed. glibc accepts no more."""


def keep_memory() -> bool:
    """Keep freed memory for the next portion; False where the C library has no such settings.

    By default glibc returns memory to the system whenever a large block is freed, and takes it back page by
    page for the next portion: a tenth of a decoder's CPU time, measured on rows of 900 bytes. Source:
    mallopt(3).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    chosen = (
        (_M_TRIM_THRESHOLD, KEPT_BYTES),
        (_M_TOP_PAD, _PAD_BYTES),
        (_M_MMAP_THRESHOLD, _MMAP_BYTES),
    )
    return all(mallopt(name, size) == 1 for name, size in chosen)
