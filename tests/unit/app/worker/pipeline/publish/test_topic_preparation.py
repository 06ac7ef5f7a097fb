"""Topics that are made before a row needs them: which, when, and that it never stops a destination."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from app.worker.destination.background import beside
from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.piece import Piece, TableChanges
from app.worker.pipeline.publish.publisher import TopicPreparation
from connectors.errors import AqueductError, KafkaLost, TopicUnfit
from connectors.kafka.record_batches import FinishedBatch
from connectors.mysql.charsets import Charsets
from connectors.mysql.position import Coordinates
from tables.rules.routes.routes import Routes
from tests.unit.tables.made import applied, begun, table

SERVER: Any = None


class Made:
    """A publisher that notes which topics it was to prepare."""

    def __init__(self, *errors: AqueductError) -> None:
        self.cursor = SimpleNamespace(destination="shop")
        self.topics: list[str] = []
        self.partitions: dict[str, int] = {}
        self.errors = list(errors)
        self.asked = asyncio.Condition()

    async def prepare(self, topics: Mapping[str, int]) -> None:
        async with self.asked:
            self.asked.notify_all()
            if self.errors:
                raise self.errors.pop()
            self.topics += topics
            self.partitions |= topics

    async def reached(self, *topics: str) -> None:
        async with asyncio.timeout(20), self.asked:
            await self.asked.wait_for(lambda: {*topics} <= {*self.topics})

    async def without_errors(self) -> None:
        async with asyncio.timeout(20), self.asked:
            await self.asked.wait_for(lambda: not self.errors)


def ahead(made: Made, *known: tuple[str, str]) -> TopicPreparation:
    tables = CapturedTables(
        Routes(prefix="aq", include=r"shop\..*", black=r"shop\.black", partitions=3),
        Charsets({}, {}),
        server=SERVER,
        known=dict.fromkeys(known, table("id")),
    )
    return TopicPreparation(cast(Any, made), tables)


def piece(**more: Any) -> Piece:
    return Piece(coordinates=Coordinates("b.000001", 4), seq=0, version_count=0, **more)


async def test_captured_tables_that_are_known_at_the_start_have_their_topics_made() -> None:
    made = Made()
    names = [("shop", "orders"), ("other", "orders"), ("shop", "black"), ("shop", "_orders_gho")]
    one = ahead(made, *names)
    one.begin(names)
    async with beside(one.make_all()):
        await made.reached("aq.shop.orders")
    assert made.partitions == {"aq.shop.orders": 3}


async def test_a_table_that_is_created_has_its_topic_made_before_its_first_row() -> None:
    made = Made()
    one = ahead(made)
    async with beside(one.make_all()):
        history = begun("orders")
        one.seen(
            piece(
                tables=TableChanges(
                    history=[applied(history, 200, "CREATE TABLE items (id INT PRIMARY KEY)")]
                )
            )
        )
        await made.reached("aq.shop.items")


TWO_STEPS = (
    "CREATE TABLE orders (id INT PRIMARY KEY)",
    "CREATE TABLE _orders_ghc (id INT PRIMARY KEY)",
    "CREATE TABLE _orders_gho LIKE orders",
    "ALTER TABLE orders RENAME TO _orders_del",
    "ALTER TABLE _orders_gho ADD COLUMN late INT",
    "ALTER TABLE _orders_gho RENAME TO orders",
)


async def test_a_tool_s_tables_have_no_topics_made_while_the_table_itself_is_away() -> None:
    made = Made()
    one = ahead(made)
    history = begun("others")
    async with beside(one.make_all()):
        for at, sql in enumerate((*TWO_STEPS, "CREATE TABLE items (id INT PRIMARY KEY)")):
            one.seen(piece(tables=TableChanges(history=[applied(history, 200 * (at + 1), sql)])))
        await made.reached("aq.shop.items")
    assert sorted(made.topics) == ["aq.shop.items", "aq.shop.orders"]


async def test_a_run_that_begins_while_the_table_is_away_makes_no_topic_of_a_tool_s() -> None:
    made = Made()
    names = [("shop", "_orders_gho"), ("shop", "_orders_del"), ("shop", "items")]
    one = ahead(made, *names)
    one.begin(names)
    async with beside(one.make_all()):
        await made.reached("aq.shop.items")
    assert made.topics == ["aq.shop.items"]


async def test_rows_of_a_table_that_only_looks_like_a_tool_s_have_its_topic_made() -> None:
    made = Made()
    one = ahead(made, ("shop", "_mine_old"))
    async with beside(one.make_all()):
        one.seen(piece(batches=[FinishedBatch("aq.shop._mine_old", 0, b"", 1)]))
        await made.reached("aq.shop._mine_old")


async def test_rows_that_wait_to_be_published_have_their_topic_made_meanwhile() -> None:
    made = Made()
    one = ahead(made)
    async with beside(one.make_all()):
        one.seen(piece(batches=[FinishedBatch("aq.shop.orders", 0, b"", 1)]))
        await made.reached("aq.shop.orders")


async def test_what_cannot_be_made_ends_nothing_and_what_may_pass_is_tried_again() -> None:
    made = Made(TopicUnfit("partitions"), KafkaLost("gone"))
    one = ahead(made)
    one.begin([("shop", "a")])
    async with beside(one.make_all()) as task:
        await made.without_errors()
        one.seen(piece(batches=[FinishedBatch("aq.shop.b", 0, b"", 1)]))
        await made.reached("aq.shop.b")
        assert not task.done()
