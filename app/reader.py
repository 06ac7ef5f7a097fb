"""The thread that reads one source and hands over pieces.

The law: it owns the connection; it ends by closing the handoff's reader side with the reason; and it never
outlives the run that started it.
"""

from __future__ import annotations

import logging
import threading

from app.handoff import Handoff
from app.pipeline.assemble import Assembler
from connectors.errors import AqueductError, MalformedEvent
from connectors.mysql.stream import BinlogStream
from connectors.mysql.transactions import TransactionReader

log = logging.getLogger(__name__)


class Reader(threading.Thread):
    """Reads from an open stream until it breaks or nobody wants more."""

    def __init__(
        self,
        stream: BinlogStream,
        *,
        transactions: TransactionReader,
        assembler: Assembler,
        handoff: Handoff,
    ) -> None:
        super().__init__(name="binlog-reader", daemon=True)
        self._stream = stream
        self._assembler = assembler
        self._transactions = transactions
        self._handoff = handoff

    def run(self) -> None:
        """Read; whatever ends it is told to the handoff."""
        try:
            for piece in self._assembler.pieces(self._transactions.steps(self._stream.events())):
                if not self._handoff.put(piece):
                    return
        except AqueductError as error:
            self._handoff.fail(error)
        except Exception as error:
            log.debug("the reader failed", exc_info=True)
            self._handoff.fail(MalformedEvent(f"{type(error).__name__}: {error}"))

    def stop(self) -> None:
        """End the thread: no more reading, no more waiting for room."""
        self._handoff.close()
        self._stream.close()
        if self.is_alive():
            self.join(timeout=5)
