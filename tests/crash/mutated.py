"""``python -m tests.crash.mutated NAME``: a worker with one of its guards broken.

Invariant: the guard is broken here, in a process of the tests; the product has no switch for it. Each mutant is
a change that could be made by mistake.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import types
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.failpoints import point
from devstack.programs import ARGUMENTS
from tests.crash import mutated_records
from tests.crash.done import say_done

Patch = Callable[[], None]

# Modules of the product, to be changed: what they are said to hold does not count here.
_of: Callable[[str], Any] = importlib.import_module
reading = _of("connectors.kafka.reading")
packets, transactions = (
    _of("connectors.mysql.stream.packet_buffer"),
    _of("connectors.mysql.transaction_reader"),
)
leading, publishing = (
    _of("app.worker.destination.takeover.takeover"),
    _of("app.worker.pipeline.publish.publisher"),
)
answers = _of("app.worker.destination.takeover.source_answers")
Publisher: Any = publishing.Publisher
Numbers: Any = _of("app.worker.pipeline.number").Numbers
_EARLY = 6
"""Pieces after which a mutant that does wrong once does it."""


async def _alone(self: Any, cursor: Any) -> None:
    async with self._producer.transaction() as kafka:
        await (await self._send_cursor(kafka, cursor))


async def _rows(self: Any, piece: Any) -> None:
    if not (piece.batches or piece.tables.versions or piece.tables.history or piece.notes):
        return
    async with self._producer.transaction() as kafka:
        await asyncio.gather(*[future async for future in self._sent(kafka, piece)])


async def _topics(self: Any, piece: Any) -> Any:
    await self.prepare(piece.topics)
    await self._producer.learn(set(piece.topics))
    return publishing._after(self.cursor, piece)


def cursor_before_rows() -> None:
    """The cursor is committed in its own transaction, before the rows."""

    async def publish(self: Any, piece: Any) -> None:
        cursor = await _topics(self, piece)
        await _alone(self, cursor)
        point("produce.rows")
        await _rows(self, piece)
        self.cursor = cursor

    Publisher.publish = publish


def cursor_after_rows() -> None:
    """The cursor is committed in its own transaction, after the rows."""

    async def publish(self: Any, piece: Any) -> None:
        cursor = await _topics(self, piece)
        await _rows(self, piece)
        point("commit.after")
        await _alone(self, cursor)
        self.cursor = cursor

    Publisher.publish = publish
    _published_unasked()


def _published_unasked() -> None:
    """Disables the journal check against the topics, which would stop the broken worker with its own error."""
    _of("app.worker.destination.takeover.published_check").Published.check = _nothing


def read_uncommitted() -> None:
    """The journal is read with isolation level read_uncommitted."""
    real = reading.open_consumer
    reading.open_consumer = lambda options, _isolation, **more: real(
        options, "read_uncommitted", **more
    )


def fencing_off() -> None:
    """Each worker has its own transactional id and ignores the epochs of others."""
    real = leading.TransactionalProducer

    def producer(name: str, **more: Any) -> Any:
        return real(f"{name}.{uuid.uuid4()}", **more)

    leading.TransactionalProducer = producer
    answers.uuid = types.SimpleNamespace(UUID=uuid.UUID, uuid5=lambda *_: uuid.uuid4())
    _of("app.worker.destination.plan").Signals.check = lambda _self: None
    _of("app.worker.destination.destination").Destination.observe = lambda _self, _cursor: None
    _of("app.worker.unit.takeover").OtherWorkers.check = _leads_all_the_same
    # The other's rows may be in the topics before its cursor is read.
    _published_unasked()


async def _leads_all_the_same(_self: Any, _last: Any, *, had_led: bool) -> None:
    """Ignores all other workers."""


def epoch_back() -> None:
    """A new leader's epoch is smaller than the old one's."""
    leading.next_epoch = lambda last, *, now, **_: last - 1 if last else int(now)


def epoch_kept() -> None:
    """A new leader keeps the old one's epoch."""
    leading.next_epoch = lambda last, *, now, **_: last or int(now)


def lease_off() -> None:
    """The expiry of the lease is ignored, and each worker has its own transactional id."""
    fencing_off()
    lease = _of("app.worker.coordination.zookeeper_lease").ZNodeLease
    lease.check = lambda _self: None
    lease.end = lambda _self, _why: None
    lease.believe = lambda _self, _node: None
    lease.hold = _nothing
    lease.confirm = _nothing

    async def ended(_tasks: Any) -> None:
        """Leave all that is led as it is."""

    _of("app.worker.coordination.zookeeper_leadership").ended = ended


async def _nothing(*_given: Any) -> None:
    """Replaces a guard that waits."""


def standby_leads() -> None:
    """A standby leads without holding the node."""
    shared = _of("app.worker.coordination.zookeeper_leadership").ZooKeeperLeadership
    real = shared._act

    async def act(self: Any, session: Any) -> None:
        await real(self, session)
        for name in self._may_lead() - set(self._led):
            self._led.add(name, _Endless())

    shared._act = act


class _Endless:
    """A lease that was never granted."""

    term, shared, why = 0, True, ""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.hold = self.confirm = self.announce = self.hand_over = self.release = _nothing

    def check(self) -> None:
        """It always holds."""

    def believe(self, _node: Any) -> None:
        """Ignores the node's contents."""

    def end(self, _why: str) -> None:
        """Never."""


def seq_repeated() -> None:
    """A new run begins counting past the end of the previous one."""
    real = Numbers.of.__func__

    def of(cls: Any, cursor: Any) -> Any:
        return real(cls, replace(cursor, seq=max(0, cursor.seq - 3)))

    Numbers.of = classmethod(of)


def dedup_off() -> None:
    """A new run ignores how much of a transaction is published already."""
    real = Numbers.of.__func__

    def of(cls: Any, cursor: Any) -> Any:
        return real(cls, replace(cursor, resume=None))

    Numbers.of = classmethod(of)


def _cursors(change: Callable[[Any], Any]) -> None:
    real = publishing._after
    publishing._after = lambda cursor, piece: change(real(cursor, piece))


def mid_transaction() -> None:
    """Parts of a transaction are committed without being recorded in the cursor."""
    _cursors(lambda cursor: replace(cursor, resume=None))


def hole_in_cursor() -> None:
    """One transaction is missing in the cursor's GTID set."""
    real, calls = publishing._after, [0]

    def after(cursor: Any, piece: Any) -> Any:
        calls[0] += bool(piece.trace.gtids)
        if calls[0] == _EARLY and piece.trace.gtids:
            piece.trace.gtids = piece.trace.gtids[:-1]
            say_done()
        return real(cursor, piece)

    publishing._after = after


def refused_batch() -> None:
    """Kafka's answers to what was sent are ignored."""

    async def gather(*awaited: Any) -> Any:
        return await asyncio.gather(*awaited, return_exceptions=True)

    publishing.asyncio = types.SimpleNamespace(**{**vars(asyncio), "gather": gather})


def from_memory() -> None:
    """A new run begins at the first run's position instead of the journal's."""
    real, kept = leading.recover, []

    async def recover(*given: Any, **more: Any) -> Any:
        state = await real(*given, **more)
        if state.cursor is not None:
            kept.append(state.cursor)
            state.cursor = replace(kept[0], epoch=state.cursor.epoch)
        return state

    leading.recover = recover


def checksum_off() -> None:
    """The checksums of binlog events are not verified."""
    transactions.crc32 = lambda *_: transactions._CRC_OF_ALL
    view = types.SimpleNamespace(crc32=lambda *_: _Any())
    packets.zlib = view


class _Any(int):
    """Equal to every number."""

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False

    __hash__ = int.__hash__


PATCHES: dict[str, Patch] = {
    **mutated_records.PATCHES,
    "cursor-before-rows": cursor_before_rows,
    "cursor-after-rows": cursor_after_rows,
    "read-uncommitted": read_uncommitted,
    "fencing-off": fencing_off,
    "epoch-back": epoch_back,
    "epoch-kept": epoch_kept,
    "lease-off": lease_off,
    "standby-leads": standby_leads,
    "seq-repeated": seq_repeated,
    "dedup-off": dedup_off,
    "mid-transaction": mid_transaction,
    "hole-in-cursor": hole_in_cursor,
    "refused-batch": refused_batch,
    "from-memory": from_memory,
    "checksum-off": checksum_off,
}


if __name__ == "__main__":
    from faust.cli.faust import cli

    PATCHES[sys.argv[1]]()
    sys.argv = ["faust", *ARGUMENTS]
    cli()
