"""Decoders under test, and what came out of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.worker.pipeline.decoders.pool import Limits, Pool, start
from app.worker.pipeline.decoders.protocols import Decoders, StageSpec
from app.worker.pipeline.portions import Portion
from connectors.errors import AqueductError, SourceLost
from tests.harness.wait import until
from tests.unit.app.worker.pipeline.decoders.stages import Counting, Made

DEADLINE = 60.0
"""A distant deadline: a test that reaches it hangs."""


class Outlet:
    """Takes pieces, and may be shut for a while."""

    def __init__(self) -> None:
        self.pieces: list[Made] = []
        self.errors: list[AqueductError] = []
        self.wanted = True
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()
        self.ended = threading.Event()

    def deliver(self, piece: Made) -> bool:
        self.waiting.set()
        assert self.open.wait(DEADLINE)
        self.pieces.append(piece)
        return self.wanted

    def fail(self, error: AqueductError) -> None:
        self.errors.append(error)
        self.ended.set()

    @property
    def error(self) -> AqueductError:
        assert self.ended.wait(DEADLINE)
        (error,) = self.errors
        return error


@contextmanager
def decoders(
    count: int,
    outlet: Outlet,
    *,
    spec: StageSpec | None = None,
    state: Any = 0,
    limits: Limits | None = None,
) -> Iterator[Decoders]:
    """The given number of decoders, which are closed in any case."""
    running = start(
        spec or Counting(),
        count=count,
        state=state,
        deliver=outlet.deliver,
        fail=outlet.fail,
        name="shop",
        limits=limits,
    )
    try:
        yield running
    finally:
        outlet.open.set()
        running.close()


def run(count: int, chunks: Iterable[Portion], **more: Any) -> Outlet:
    """Puts all chunks, then the reader's end."""
    outlet = Outlet()
    with decoders(count, outlet, **more) as running:
        for chunk in chunks:
            if not running.put(chunk):
                break
        running.finish(SourceLost("the end"))
        assert outlet.ended.wait(DEADLINE)
    return outlet


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for a state that may be over soon."""
    until(holds, seconds=DEADLINE, glance=0.005)


def all_ready(pool: Pool) -> None:
    """Until each decoder takes chunks: as long as one alone does, it gets all."""
    wait_until(lambda: all(decoder.ready for decoder in pool._decoders))


def is_alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
