"""The thread that reads a topic for the deletes of a TRUNCATE: what it keeps waiting, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.destination import emptied_tables
from app.worker.destination.emptied_tables import EmptiedTables
from app.worker.destination.live_rows import LiveRows
from app.worker.pipeline.capture.reader_thread import ReaderClosed
from app.worker.pipeline.portions import RemovedRows
from app.worker.status import DestinationStatus
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.baseline import server_of
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.connectors.mysql.facts import facts
from tests.unit.tables.made import ORDERS, applied, begun

_SECONDS = 150
Work = Callable[[], object]


@pytest.fixture
def emptied() -> EmptiedTables:
    mapping = from_yaml("tables: {shop.orders: {truncates: deletes}}")
    routes = Routes(prefix="aq", destination="shop", mapping=mapping)
    rules = SimpleNamespace(routes=routes, destination="shop", compacted=True, prefix="aq")
    server = server_of(facts())
    spec: Any = SimpleNamespace(rules=rules, known={}, charsets=facts().charsets, server=server)
    history = begun()
    applied(history, 200, "CREATE TABLE orders (id int PRIMARY KEY)")
    return EmptiedTables(
        spec=spec, history=history, kafka_options={}, status=DestinationStatus("shop")
    )


def read_by(work: Work, monkeypatch: pytest.MonkeyPatch, *, expired: int = 0) -> None:
    """Let ``work`` be done where records of the topic are taken, of which ``expired`` are gone."""

    class Topic:
        async def partitions(self, _: object) -> dict[str, int]:
            return {}

        async def beginnings(self, _: object) -> dict[object, int]:
            return {"a partition": expired}

        async def follow(self, _: object) -> None:
            pass

    @contextlib.asynccontextmanager
    async def opened(_: object) -> AsyncIterator[Topic]:
        yield Topic()

    async def read(*_: object) -> None:
        work()
        await asyncio.sleep(0)

    async def versions(*_: object, **__: object) -> int:
        return 0

    monkeypatch.setattr(emptied_tables, "read_each", versions)
    monkeypatch.setattr(emptied_tables, "Follower", SimpleNamespace(opened=opened))
    monkeypatch.setattr(emptied_tables, "read_to_ends", read)


async def made(emptied: EmptiedTables) -> list[RemovedRows]:
    """The deletes of a TRUNCATE, in a thread as the reader's, once what precedes them is committed."""
    transaction: Any = SimpleNamespace(id="gtid", committed_ms=1, server_id=7)
    effect: Any = SimpleNamespace(is_noise=False, type="TRUNCATE TABLE", emptied=[ORDERS])
    deletes = emptied.deletes(Coordinates("b.000001", 4), transaction, effect)
    piece: Any = SimpleNamespace(entered=[await asyncio.to_thread(next, deletes)])
    cursor: Any = None
    emptied.committed(piece, cursor)
    return await asyncio.to_thread(list, deletes)


async def test_other_destinations_continue_while_a_topic_is_read(
    emptied: EmptiedTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, other = asyncio.get_running_loop(), threading.Event()

    def work() -> None:
        loop.call_soon_threadsafe(other.set)
        assert other.wait(_SECONDS)

    read_by(work, monkeypatch)
    assert await made(emptied) == []


async def test_the_end_of_the_run_ends_the_reading(
    emptied: EmptiedTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_by(emptied.close, monkeypatch)
    monkeypatch.setattr(emptied_tables, "read_to_ends", lambda *_: _closed(emptied))
    with pytest.raises(ReaderClosed):
        await made(emptied)


async def _closed(emptied: EmptiedTables) -> None:
    emptied.close()
    await asyncio.Event().wait()


async def test_only_the_last_deletes_of_a_table_have_a_warning(
    emptied: EmptiedTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: Any = emptied.spec.rules
    rules.compacted = False
    for expired in (3, 7, 0):
        read_by(lambda: None, monkeypatch, expired=expired)
        await made(emptied)
        shown = emptied.status.warnings["truncates"]
        assert [text.partition(" have expired")[0] for text in shown] == (
            [f"the first {expired} offset(s) of aq.shop.orders"] if expired else []
        )


async def test_a_full_disk_is_a_fault_of_the_machine(
    emptied: EmptiedTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: LiveRows) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    read_by(lambda: None, monkeypatch)
    monkeypatch.setattr(LiveRows, "_flush", full)
    with pytest.raises(OSError, match=r"rows of shop\.orders are .* disk is full"):
        await made(emptied)
