"""A stage whose chunks carry their own behaviour, for the tests of decoders."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.worker.pipeline.decoder_progress import report_progress
from app.worker.pipeline.portions import Effect, Portion
from connectors.errors import AqueductError, CorruptEvent, UnsupportedEvent
from connectors.mysql.position import Coordinates
from tables.history.resolved_statement import ResolvedStatement


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
    learned: tuple[str, ...] = ()
    """The decoder's knowledge of earlier portions when this one was decoded."""
    body: bytes = b""
    pid: int = 0
    part: int = 0
    """Its index among several of one chunk; None for the last."""
    error: AqueductError | None = None
    extra: Any = None

    def described(self) -> tuple[Any, ...]:
        """The parts that do not depend on the decoder."""
        return self.first, self.last, self.tables, self.learned, self.body, str(self.error)


@dataclass(frozen=True, slots=True)
class Counting:
    """Numbers rows from the state on; announces each chunk's tables."""

    start_fault: str = ""

    def make(self) -> CountingStage:
        _act(self.start_fault)
        return CountingStage()


@dataclass(slots=True)
class CountingStage:
    """The stage, one in each decoder."""

    tables: list[str] = field(default_factory=list)
    learned: list[str] = field(default_factory=list)

    def decode(self, portion: Portion, learned: Sequence[Effect]) -> CountingDecoded:
        """Waits or fails as the portion says."""
        assert isinstance(portion, Ordered)
        order = portion.order
        self.learned += [each.type for each in learned if isinstance(each, ResolvedStatement)]
        time.sleep(order.get("decode", 0))
        _act(order.get("decode_fault", ""))
        if "mark" in order:
            Path(order["mark"]).touch()
        return CountingDecoded(self, order, portion.data, learned=tuple(self.learned))


@dataclass(slots=True)
class CountingDecoded:
    """The behaviour that a chunk asks for."""

    stage: CountingStage
    order: dict[str, Any]
    data: bytes
    learned: tuple[str, ...] = ()
    piece: Made | None = None

    def number(self, state: int, news: list[str]) -> tuple[int, list[str]]:
        """Count the rows."""
        _act(self.order.get("number_fault", ""))
        own = self.order.get("tables", [])
        self.stage.tables += news + own
        after = state + self.order["rows"]
        self.piece = Made(
            first=state + 1, last=after, tables=tuple(self.stage.tables), learned=self.learned
        )
        return after, own

    def encode(self) -> list[Made]:
        """Wait or fail as the chunk says; a piece of as many bytes as it wants."""
        time.sleep(self.order.get("encode", 0))
        for _ in range(self.order.get("waits", 0)):
            time.sleep(self.order["wait"])
            if self.order["reports"]:
                report_progress()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """A portion that asks for something; of no binlog."""

    start: Coordinates
    data: bytes
    order: dict[str, Any]
    effect: ResolvedStatement | None = None

    @property
    def size(self) -> int:
        """Bytes that it holds; its order counts too."""
        return len(self.data) + len(str(self.order))


def ordered(number: int, rows: int = 1, *, size: int = 0, does: str = "", **order: Any) -> Ordered:
    """A portion that asks for something; ``does``: the type of the statement whose effect it has."""
    return Ordered(
        start=Coordinates("b.000001", number),
        data=bytes(size),
        order=order | {"rows": rows},
        effect=ResolvedStatement(type=does) if does else None,
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
