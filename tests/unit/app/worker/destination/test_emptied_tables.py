"""The thread that reads a topic for the deletes of a TRUNCATE: what it keeps waiting, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from app.worker.destination import emptied_tables
from app.worker.destination.emptied_tables import EmptiedTables, LiveRows, RowImages
from app.worker.pipeline.capture.reader_thread import ReaderClosed
from app.worker.pipeline.formats.canal import CANAL
from app.worker.pipeline.formats.registry import form_named
from app.worker.pipeline.formats.shaped import version_of as version_of_table
from app.worker.pipeline.gather.delete_records import RemovedRow
from app.worker.pipeline.portions import RemovedRows
from app.worker.status import DestinationStatus
from connectors.kafka.reading import StoredRecord
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.baseline import server_of
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Route, Routes
from tables.rules.table_version import TableVersion
from tests.unit.app.operator.validation.records import column, definition
from tests.unit.app.worker.pipeline.formats.envelopes import envelope_of, version_of
from tests.unit.app.worker.pipeline.runs import RULES
from tests.unit.connectors.mysql.facts import facts
from tests.unit.tables.made import ORDERS, applied, begun
from wire.table_version import Definition

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


TABLE = ("shop", "t")
SHARDS = "tables: {all.t: {from: ['shop.t[0-9]*'], topic: t}}"
NEVER = "tables: {all.t: {from: ['shop.t[0-9]*'], topic: t, shard_in_key: never}}"
PLAIN = definition(column("id"), column("a"), column("b", "varchar(9)"))


Stated = dict[str, Any]


def published(
    versions: tuple[Definition, ...], stated: tuple[Stated | None, ...] = ()
) -> list[TableVersion]:
    return [
        replace(
            version_of_table(TABLE, one),
            version=number,
            stated=stated[number - 1] if number <= len(stated) else {},
        )
        for number, one in enumerate(versions, 1)
    ]


class Topic:
    """Records as they are written, and the rows that it has."""

    def __init__(
        self,
        mapping: str | None = None,
        versions: tuple[Definition, ...] = (PLAIN,),
        *,
        now: Definition | None = None,
        stated: tuple[Stated | None, ...] = (),
    ) -> None:
        routes = Routes(
            prefix="aq", destination="shop", mapping=from_yaml(mapping) if mapping else None
        )
        route = routes.of(TABLE)
        assert isinstance(route, Route)
        self.rows = LiveRows(
            "shop",
            route,
            "truncate:gtid:0",
            form=lambda name: form_named(name, RULES),
            images=RowImages(route, published(versions, stated), now or versions[-1]),
        )
        self.seq = self.at = 0

    def put(
        self, op: str, key: str = '{"id":1}', image: Any = None, *, part: int = 0, seq: int = 0,
        table: str = "t", name: str = "shop", change_id: str = "gtid#0", schema: int = 1, **more: Any,
    ) -> None:  # fmt: skip
        """Add a record, with the next number or another."""
        self.seq, self.at = seq or self.seq + 1, self.at + 1
        source = {
            "name": name,
            "db": "shop",
            "table": table,
            "seq": self.seq,
            "epoch": 1,
            "schema": schema,
        }
        value = orjson.dumps({"op": op, "after": image, "source": source, **more})
        headers = (("change_id", change_id.encode()),)
        self.rows.take(part, StoredRecord(key.encode(), value, self.at, headers))

    def tombstone(self, key: str = '{"id":1}', *, part: int = 0) -> None:
        """Add a record without a value."""
        self.at += 1
        self.rows.take(part, StoredRecord(key.encode(), b"", self.at, ()))

    def live(self) -> list[tuple[str, Any]]:
        """Keys and images."""
        return [
            (key, None if image is None else orjson.loads(image)) for key, image in self.rows.rows()
        ]


@pytest.fixture
def topic() -> Iterator[Topic]:
    made = Topic()
    with closing(made.rows):
        yield made


def test_the_record_with_the_greatest_number_counts_whatever_partition_it_is_in(
    topic: Topic,
) -> None:
    topic.put("d", seq=9, part=1)
    topic.put("c", image={"id": 1}, seq=3)
    topic.put("c", '{"id":2}', {"id": 2}, seq=4)
    topic.put("t", "", seq=2)
    assert topic.live() == [('{"id":2}', {"id": 2})]


def test_a_truncate_removes_what_is_older_in_each_partition(topic: Topic) -> None:
    topic.put("t", "", seq=5)
    topic.put("c", image={"id": 1}, seq=3, part=1)
    topic.put("r", '{"id":2}', {"id": 2}, seq=6, part=1)
    assert [key for key, _ in topic.live()] == ['{"id":2}']


def test_a_tombstone_whose_delete_was_compacted_away_removes_what_precedes_it(
    topic: Topic,
) -> None:
    topic.put("c", image={"id": 1})
    topic.tombstone()
    topic.put("c", '{"id":2}', {"id": 2})
    topic.tombstone('{"id":2}', part=1)
    assert [key for key, _ in topic.live()] == ['{"id":2}']


def test_a_partial_image_adds_to_what_is_known_and_is_none_without(topic: Topic) -> None:
    topic.put("c", image={"id": 1, "a": 1, "b": "2"})
    topic.put("u", image={"id": 1, "b": "3"}, absent=["a"])
    topic.put("u", '{"id":2}', {"id": 2, "b": "3"}, absent=["a"])
    topic.put("c", '{"id":3}', None, claim_check={})
    assert topic.live() == [
        ('{"id":1}', {"id": 1, "a": 1, "b": "3"}), ('{"id":2}', None), ('{"id":3}', None)
    ]  # fmt: skip


def test_a_key_that_another_table_or_destination_wrote_last_is_not_the_tables() -> None:
    topic = Topic(NEVER)
    with closing(topic.rows):
        for key in ('{"id":1}', '{"id":2}', '{"id":3}'):
            topic.put("c", key, {"id": 1})
        topic.put("u", '{"id":1}', {"id": 1}, table="t2")
        topic.put("u", '{"id":2}', {"id": 1}, name="other")
        topic.put("t", "", table="t2")
        assert [key for key, _ in topic.live()] == ['{"id":3}']


def test_the_keys_of_other_shards_are_passed_by() -> None:
    topic = Topic(SHARDS)
    with closing(topic.rows):
        own, other = (f'{{"__shard":["shop","shop","{name}"],"id":1}}' for name in ("t", "t2"))
        topic.put("c", own, {"id": 1})
        topic.put("c", other, {"id": 1}, table="t2")
        assert [key for key, _ in topic.live()] == [own]


def test_what_the_transaction_has_deleted_before_is_counted_by_its_ordinals(topic: Topic) -> None:
    topic.put("c", '{"id":7}', {"id": 7})
    for n in range(3):
        topic.put("d", f'{{"id":{n}}}', change_id=f"truncate:gtid:0#{n}")
    topic.put("d", '{"id":9}', change_id="truncate:gtid:1#8")
    assert topic.rows.deleted == 3
    assert list(topic.rows.rows()) == [RemovedRow('{"id":7}', '{"id":7}')]


def test_an_image_has_the_columns_that_there_still_are_with_values_that_no_statement_changed() -> (
    None
):
    versions = (
        definition(
            column("id"),
            column("kept", "varchar(9)", id="k"),
            column("old", "int", id="o"),
            column("gone", "int", id="g"),
            column("cut", "decimal(10,2)", id="c"),
            column("back", "int", id="b"),
        ),
        definition(
            column("id"),
            column("kept", "varchar(9)", id="k"),
            column("old", "int", id="o"),
            column("gone", "int", id="g"),
            column("cut", "decimal(10,2)", id="c"),
            column("back", "varchar(9)", id="b"),
        ),
        definition(
            column("id"),
            column("kept", "varchar(20)", id="k"),
            column("new", "bigint", id="o"),
            column("gone", "int", id="g2", initial={"value": 5}),
            column("cut", "int", id="c"),
            column("back", "int", id="b"),
        ),
    )
    topic = Topic(versions=versions)
    with closing(topic.rows):
        whole = {"id": 1, "kept": "x", "old": 7, "gone": 1, "cut": "10.75", "back": 3}
        topic.put("c", image=whole, schema=1)
        topic.put("u", image={**whole, "back": "4"}, schema=2)
        topic.put("c", '{"id":2}', {**whole, "id": 2}, schema=1)
        now = {"id": 3, "kept": "x", "new": 7, "gone": 1, "cut": 11, "back": 3}
        topic.put("c", '{"id":3}', now, schema=3)
        topic.put("c", '{"id":4}', now, schema=4)
        old = {"kept": "x", "new": 7}
        assert topic.live() == [
            ('{"id":1}', {"id": 1, **old}),
            ('{"id":2}', {"id": 2, **old}),
            ('{"id":3}', now),
            # Of a version that is not on the schemas topic.
            ('{"id":4}', None),
        ]


@pytest.mark.parametrize("stated", [({},), (None,), ({}, {"masked": {"mail": {"redact": "-"}}})])
def test_what_was_published_before_a_column_was_masked_is_not_published_again(
    stated: tuple[Stated | None, ...],
) -> None:
    mapping = "tables: {shop.t: {truncates: deletes, column_actions: {mail: {redact: '-'}}}}"
    clear, masked = (
        definition(column("id"), column("mail", kind)) for kind in ("varchar(9)", "varchar(90)")
    )
    hidden = replace(
        masked,
        columns=(
            column("id"), column("mail", "varchar(90)", id="mail@masked:2", initial={"unknown": ""})
        ),
    )  # fmt: skip
    topic = Topic(mapping, (clear, hidden)[: len(stated)], now=masked, stated=stated)
    with closing(topic.rows):
        topic.put("c", image={"id": 1, "mail": "a@b.c"}, schema=1)
        expected: list[tuple[str, Any]] = [('{"id":1}', {"id": 1})]
        if len(stated) > 1:
            topic.put("c", '{"id":2}', {"id": 2, "mail": "-"}, schema=2)
            expected.append(('{"id":2}', {"id": 2, "mail": "-"}))
        assert topic.live() == expected


def test_an_image_in_another_format_is_what_its_record_has() -> None:
    kinds = definition(column("id"), column("kind", "enum('a','b')"), column("raw", "blob"))
    topic = Topic("tables: {shop.t: {format: canal}}", versions=(kinds,))
    with closing(topic.rows):
        rows = CANAL.rows(version_of(("id", "int"), ("kind", "enum('a','b')"), ("raw", "blob")))

        def put(number: int, after: Any, before: Any = None, *, form: str = "canal") -> None:
            topic.at += 1
            envelope = envelope_of(before, after, logical_db="shop", logical_table="t")
            headers = {
                "format": form,
                "destination": "shop",
                "epoch": "1",
                "schema": "1",
                "seq": f"{topic.at}",
            }
            topic.rows.take(
                0,
                StoredRecord(
                    b'{"id":%d}' % number,
                    orjson.dumps(rows(envelope)),
                    topic.at,
                    tuple((name, text.encode()) for name, text in headers.items()),
                ),
            )

        whole = {"kind": "b", "raw": "AP8="}
        put(1, {"id": 1, **whole})
        put(2, {"id": 2, **whole})
        put(2, {"id": 2, "kind": "a"}, {"id": 2})
        put(3, {"id": 3, "kind": "a"}, {"id": 3})
        put(4, {"id": 4, **whole}, form="maxwell")
        put(5, {"id": 5, **whole})
        put(5, None, {"id": 5, **whole})
        assert topic.live() == [
            ('{"id":1}', {"id": 1, **whole}),
            ('{"id":2}', {"id": 2, "kind": "a", "raw": "AP8="}),
            # Partial without one before it, and in a format that the table had before.
            ('{"id":3}', None),
            ('{"id":4}', None),
        ]
