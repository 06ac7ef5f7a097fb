"""Records compared with a witness that could not read all of a transaction."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from app.auditing.change_store import Store
from app.auditing.topics.record_check import RecordCheck, Subject
from app.auditing.truth.changes import Truth
from app.auditing.verdict import Verdict
from app.auditing.window import End
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from tables.routes.routes import Routes
from tests.unit.app.auditing.truth.test_changes import (
    SOURCE,
    rows,
    transaction,
    truth,
)

TOPIC = "aq.shop.t"


def examined(found: Truth) -> RecordCheck:
    end = End(
        server_uuid="u",
        coordinates=Coordinates("binlog.000001", 5000),
        gtids=GtidSet.parse(f"{SOURCE}:1-9"),
        partial=None,
    )
    subject = Subject(
        routes=Routes(prefix="aq"), destination="shop", ddl_topic="aq.__ddl.shop", seq=9, end=end,
        server_uuid="u", versions={}, partitions={TOPIC: 1}, beginnings={},
    )  # fmt: skip
    return RecordCheck(subject, found, Verdict(destination="shop"))


def record(offset: int, change: str, value: dict[str, Any] | None) -> StoredRecord:
    headers = (("change_id", f"{SOURCE}:{change}".encode()),)
    return StoredRecord(b"k", orjson.dumps(value) if value else b"", offset, headers)


def delete(seq: int) -> dict[str, Any]:
    source = {"name": "shop", "seq": seq, "epoch": 1, "db": "shop", "table": "t", "schema": 1}
    return {"op": "d", "source": source, "before": {"id": 7}, "after": None}


def earlier(one: RecordCheck) -> None:
    """A record with a position, without which a later tombstone could belong to an earlier audit."""
    one.take(TOPIC, 0, record(0, "1#0", {**delete(1), "op": "c"}))


@pytest.mark.parametrize(("change", "foreign"), [("2#0", 1), ("2#1", 0), ("2#4/0", 0)])
def test_a_tombstone_is_not_judged_where_its_delete_is_not(change: str, foreign: int) -> None:
    lost = rows("t", 1).replace("@1=1", "@1=!! Don't know how to handle column type=255")
    with Store() as store:
        one = examined(
            truth(store, transaction(1, rows("t", 5)), transaction(2, rows("t", 5), lost))
        )
        earlier(one)
        before = sum(one.verdict.counts.values())
        one.take(TOPIC, 0, record(1, change, None))
        assert sum(one.verdict.counts.values()) - before == foreign
