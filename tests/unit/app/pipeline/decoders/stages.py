"""A stage whose chunks say what is to happen to them, for the tests of who runs it."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from connectors.errors import AqueductError, CorruptEvent, UnsupportedEvent
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk


class Killer:
    """Ends the process that pickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        os.kill(os.getpid(), signal.SIGKILL)
        return (Killer, ())


@dataclass(slots=True, kw_only=True)
class Made:
    """A finished piece: which rows, and what was known of tables when they were numbered."""

    first: int
    last: int
    tables: tuple[str, ...]
    body: bytes = b""
    pid: int = 0
    part: int = 0
    """Its place among several of one chunk, of which the last has none."""
    error: AqueductError | None = None
    extra: Any = None

    def told(self) -> tuple[Any, ...]:
        """What is the same whoever made it."""
        return self.first, self.last, self.tables, self.body, str(self.error)


@dataclass(frozen=True, slots=True)
class Counting:
    """Numbers rows from the state on; announces each chunk's tables."""

    start_fault: str = ""

    def make(self) -> CountingStage:
        _act(self.start_fault)
        return CountingStage()


@dataclass(slots=True)
class CountingStage:
    """One in each decoder."""

    tables: list[str] = field(default_factory=list)

    def decode(self, chunk: Chunk) -> CountingDecoded:
        """Wait or fail as the chunk says."""
        order = json.loads(chunk.context[0])
        time.sleep(order.get("decode", 0))
        _act(order.get("decode_fault", ""))
        if "mark" in order:
            Path(order["mark"]).touch()
        return CountingDecoded(self, order, chunk.data)


@dataclass(slots=True)
class CountingDecoded:
    """What a chunk asks for."""

    stage: CountingStage
    order: dict[str, Any]
    data: bytes
    piece: Made | None = None

    def number(self, state: int, news: list[str]) -> tuple[int, list[str]]:
        """Count the rows."""
        _act(self.order.get("number_fault", ""))
        own = self.order.get("tables", [])
        self.stage.tables += news + own
        after = state + self.order["rows"]
        self.piece = Made(first=state + 1, last=after, tables=tuple(self.stage.tables))
        return after, own

    def encode(self) -> list[Made]:
        """Wait or fail as the chunk says; a piece of as many bytes as it wants."""
        time.sleep(self.order.get("encode", 0))
        _act(self.order.get("encode_fault", ""))
        assert self.piece is not None
        self.piece.body = self.data * self.order.get("times", 1)
        self.piece.pid = os.getpid()
        if self.order.get("error"):
            self.piece.error = UnsupportedEvent("as ordered", coordinates="b.000001:4")
        if self.order.get("send_fault"):
            self.piece.extra = Killer()
        if self.order.get("unsendable"):
            self.piece.extra = time.sleep, lambda: None
        parts = range(1, self.order.get("parts", 1))
        # An error is the last one's.
        return [*(replace(self.piece, part=part, error=None) for part in parts), self.piece]


def ordered(number: int, rows: int = 1, *, size: int = 0, **order: Any) -> Chunk:
    """A chunk that asks for something."""
    return Chunk(
        start=Coordinates("b.000001", number),
        data=bytes(size),
        checksum=False,
        context=(json.dumps(order | {"rows": rows}).encode(),),
    )


def _act(fault: str) -> None:
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "exit":
        os._exit(3)
    elif fault == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fault == "memory":
        raise MemoryError
    elif fault == "raise":
        raise ValueError("as ordered")
    elif fault == "named":
        raise CorruptEvent(
            "as ordered", remedy="Order less.", coordinates=Coordinates("b.000001", 4)
        )
    elif fault == "odd":
        raise CorruptEvent("as ordered", lock=lambda: None)
    elif fault == "say":
        os.write(2, b"something unheard of\n")
    elif fault == "hang":
        while True:
            time.sleep(0.01)
    elif fault == "spin":
        while True:
            sum(range(1000))
    elif fault:
        raise AssertionError(fault)
