"""The members of ``source``: those of a row's text, which is inlined, and those of other records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import orjson

from app.worker.merge.shares import committed_ms
from app.worker.pipeline.formats.envelope import Debezium
from app.worker.pipeline.formats.protocol import Emitted
from app.worker.pipeline.gather.items import Ddl, Rows
from connectors.kafka.record_batches import Headers
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.formats.envelopes import version_of
from tests.unit.app.worker.pipeline.runs import RULES
from wire.records import SOURCE

MAPPING = from_yaml("tables: {trade.orders: {from: [shop_1.orders_3], tags: {'': all}}}")
ROUTES = Routes(prefix="aq", destination="shop", mapping=MAPPING)
TRAP = 'SELECT \'"ts_ms":7,"snapshot":"false"\''
INSERT = 30
KINDS = {"text": str, "texts": list, "int": int, "long": int}


class Written:
    """Keeps the values of records."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def append(self, _key: bytes | None, value: bytes | None, _headers: Headers) -> None:
        if value is not None:
            self.values.append(value)


def transaction() -> Transaction:
    found = Transaction("b.000001", 4, "u", 7, "u:7", 1795234567123, 1)
    found.thread = 12
    return found


def records() -> tuple[Any, Written]:
    rules = replace(RULES, routes=ROUTES)
    return Debezium(rules, connector="mysql", epoch=3).records(Emitted(0), 8), Written()


def test_a_row_has_all_members_in_their_order_and_the_time_of_its_commit_before_snapshot() -> None:
    found, into = records()
    image = orjson.dumps({"id": 1, "snapshot": TRAP}).decode()
    row = (None, image, None, '{"id":1}', None)
    item = Rows(transaction(), cast(Any, None), [row], INSERT, 9, 0, TRAP)
    found.rows(version_of(("id", "int")), into)(item, 0, 0)
    (value,) = into.values
    source = orjson.loads(value)["source"]
    assert list(source) == list(SOURCE)
    assert all(isinstance(source[name], KINDS[one.kind]) for name, one in SOURCE.items())
    assert committed_ms(value, []) == source["ts_ms"] == 1795234567123
    assert list(SOURCE).index("snapshot") == list(SOURCE).index("ts_ms") + 1


def test_a_record_that_is_of_no_row_has_the_members_that_none_lacks() -> None:
    found, into = records()
    query = Query(
        thread=12, database="shop_1", sql="TRUNCATE orders_3", sql_mode=0, error_code=0, status=b""
    )
    route = ROUTES.of(("shop_1", "orders_3"))
    assert route is not None
    item = Ddl(transaction(), Kind.TRUNCATE, query, 9, 0, (route,), None, (), is_published=True)
    found.ddl(item, into)
    found.truncate(item, route, into, schema=2, ordinal=0, order=1)
    needed = {name for name, one in SOURCE.items() if not one.optional}
    for value in into.values:
        source = orjson.loads(value)["source"]
        assert needed <= source.keys() <= SOURCE.keys()
        assert committed_ms(value, []) == 1795234567123
    # Whatever is null in the record of a statement, that of a TRUNCATE has all that a row has, but a query.
    assert source.keys() == SOURCE.keys() - {"query"}
