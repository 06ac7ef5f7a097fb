"""Records compared with a witness that could not read all of a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.audit.change_store import Store
from app.audit.routes_in_force import RoutesInForce
from app.audit.topics.record_check import RecordCheck, Subject
from app.audit.topics.topics import Copies, Shares
from app.audit.topics.totals import _is_expired, values_of
from app.audit.truth.changes import Truth
from app.audit.truth.window import End
from app.audit.verdict import FaultKind, Verdict
from connectors.kafka.reading import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.audit.truth.test_changes import SOURCE, rows, transaction, truth
from tests.unit.app.audit.truth.test_printed_events import gtid, query

TOPIC = "aq.shop.t"


def examined(found: Truth, *, mapping: str | None = None) -> RecordCheck:
    end = End(
        server_uuid="u",
        coordinates=Coordinates("binlog.000001", 5000),
        gtids=GtidSet.parse(f"{SOURCE}:1-9"),
        partial=None,
    )
    routes = Routes(prefix="aq", mapping=from_yaml(mapping) if mapping else None)
    subject = Subject(
        routes=RoutesInForce.always(routes), destination="shop", ddl_topic="aq.__ddl.shop",
        seq=9, end=end, shares=Shares(prefix="aq", destination="shop"),
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


def foreign(offset: int, change: str, seq: int, *, epoch: int = 1) -> StoredRecord:
    more = (
        ("format", b"canal"), ("destination", b"shop"), ("seq", b"%d" % seq), ("epoch", b"%d" % epoch),
        ("ts_ms", b"1"),
    )  # fmt: skip
    plain = record(offset, change, {"data": [{"id": "no such value"}], "gtid": f"{SOURCE}:1"})
    return replace(plain, headers=(*plain.headers, *more))


def test_of_a_record_in_another_format_all_but_its_values_is_judged() -> None:
    with Store() as store:
        one = examined(truth(store, transaction(1, rows("t", 5, 6, 7))))
        one.take(TOPIC, 0, foreign(0, "1#0", 1))
        one.take(TOPIC, 0, foreign(1, "1#1", 2))
        one.take(TOPIC, 0, replace(foreign(2, "1#1", 2), value=b""))
        label = "values, keys and partitions of records in the format canal"
        assert (one.verdict.unjudged, one.verdict.counts) == ({label: 2}, {})
        assert one.has_number(2)
        one.take(TOPIC, 0, foreign(3, "1#1", 3))
        one.take(TOPIC, 0, foreign(4, "1#0", 3))
        one.take("aq.shop.u", 0, foreign(0, "1#2", 4))
        one.take(TOPIC, 0, foreign(5, "1#7", 5))
        one.take(TOPIC, 0, foreign(6, "1#2", 6, epoch=0))
        assert one.verdict.faults == {
            "repeated": 3, "seq_gaps": 1, "different": 1, "foreign": 1, "epochs_back": 1,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "found", "fault"),
    [
        ("canal", "canal", None),
        ("maxwell", "canal", "its format is canal, and that of the mapping in force for its seq is maxwell"),
        ("debezium", "canal", "its format is canal, and that of the mapping in force for its seq is debezium"),
        ("canal", "debezium", "its format is debezium, and that of the mapping in force for its seq is canal"),
    ],
)  # fmt: skip
def test_a_record_has_the_format_of_its_mapping(stated: str, found: str, fault: str | None) -> None:
    with Store() as store:
        table = f"tables: {{shop.t: {{from: [shop.t], format: {stated}}}}}"
        one = examined(truth(store, transaction(1, rows("t", 5))), mapping=table)
        plain = record(0, "1#0", {**delete(1), "op": "c"})
        one.take(TOPIC, 0, foreign(0, "1#0", 1) if found == "canal" else plain)
        shown = [finding.what for finding in one.verdict.shown.get(FaultKind.DIFFERENT, [])]
        assert shown == ([] if fault is None else [fault])


def test_a_record_in_another_format_without_its_numbers_is_foreign() -> None:
    with Store() as store:
        one = examined(truth(store, transaction(1, rows("t", 5))))
        plain = record(0, "1#0", {"data": []})
        one.take(TOPIC, 0, replace(plain, headers=(*plain.headers, ("format", b"canal"))))
        assert one.verdict.faults == {"foreign": 1}


def test_a_row_that_was_read_has_its_place_among_the_numbers_and_no_change_of_the_source() -> None:
    def read(offset: int, seq: int, *headers: tuple[str, bytes]) -> StoredRecord:
        value = {**created(seq), "op": "r"}
        own = (("change_id", b"snapshot:one:shop.t:1#0"), *headers)
        return StoredRecord(b'{"id":7}', orjson.dumps(value), offset, own)

    with Store() as store:
        one = examined(truth(store, transaction(1, rows("t", 5))))
        one.take(TOPIC, 0, read(0, 2))
        assert (one.verdict.counts, one.has_number(2)) == ({}, True)
        one.take(TOPIC, 0, read(1, 1))
        assert one.verdict.faults == {"out_of_order": 1}
        more = (("format", b"canal"), ("destination", b"shop"), ("seq", b"3"), ("epoch", b"1"))
        one.take(TOPIC, 0, read(2, 3, *more))
        assert one.verdict.unjudged == {"existing rows in the format canal": 1}
        assert one.verdict.faults == {"out_of_order": 1}


def test_the_order_of_changes_is_that_of_each_source_table() -> None:
    mapping = "tables: {shop.t: {from: [shop.t_0, shop.t_1]}}"

    def inserted(offset: int, change: str, table: str) -> StoredRecord:
        value = {**created(offset + 1), "source": {**created(offset + 1)["source"], "table": table}}
        return record(offset, change, value)

    history = (
        transaction(1, rows("t_1", 7)),
        transaction(2, rows("t_0", 7), at=300),
        transaction(3, rows("t_1", 8), at=500),
    )
    with Store() as store:
        # The first rows of t_1 were quarantined, and are released after those of t_0.
        one = examined(truth(store, *history), mapping=mapping)
        one.take(TOPIC, 0, inserted(0, "2#0", "t_0"))
        one.take(TOPIC, 0, inserted(1, "1#0", "t_1"))
        one.take(TOPIC, 0, inserted(2, "3#0", "t_1"))
        assert "out_of_order" not in one.verdict.faults
    with Store() as store:
        one = examined(truth(store, *history), mapping=mapping)
        one.take(TOPIC, 0, inserted(0, "3#0", "t_1"))
        one.take(TOPIC, 0, inserted(1, "1#0", "t_1"))
        assert one.verdict.faults["out_of_order"] == 1
        one.take(TOPIC, 0, inserted(0, "2#0", "t_0"))
        assert one.verdict.faults["out_of_order"] == 2, "its seq is smaller"


SHARE = "aq.__shard.shop.shop.t"


def created(seq: int) -> dict[str, Any]:
    return {**delete(seq), "op": "c", "before": None, "after": {"id": 7}}


def keyed(offset: int, change: str, value: dict[str, Any] | None) -> StoredRecord:
    return replace(record(offset, change, value), key=b'{"id":7}')


def shared(found: Truth) -> RecordCheck:
    """A check that has read the share, with the records 2 and 3, the last one a delete."""
    one = examined(found, mapping=WHOLE)
    merged = Routes(prefix="aq", destination="shop", merged=True, mapping=from_yaml(WHOLE))
    counts = {TOPIC: 1, SHARE: 1, "aq.shop.other": 1}
    one.subject = replace(one.subject, routes=RoutesInForce.always(merged), partitions=counts)
    one.take(SHARE, 0, keyed(0, "2#0", created(2)))
    one.take(SHARE, 0, keyed(1, "3#0", delete(3)))
    one.take(SHARE, 0, keyed(2, "3#0", None))
    one.copies = Copies(frozenset({TOPIC}), bytes(one.numbers))
    return one


WHOLE = "tables: {shop.t: {from: [shop.t]}}"
HISTORY = (
    transaction(1, rows("t", 7)),
    transaction(2, rows("t", 7), at=300),
    transaction(3, rows("t", 7).replace("Write", "Delete").replace("INSERT INTO", "DELETE FROM").replace(
        "### SET", "### WHERE"), at=500),
)  # fmt: skip


def test_copies_in_the_merged_topic_are_not_repeated_and_keep_their_order() -> None:
    with Store() as store:
        one = shared(truth(store, *HISTORY))
        assert one.verdict.records == 2
        assert one.verdict.counts == {}
        # A record from before the merge is judged like any other.
        one.take(TOPIC, 0, keyed(0, "1#0", created(1)))
        assert one.verdict.records == 3
        one.take(TOPIC, 0, keyed(1, "2#0", created(2)))
        one.take(TOPIC, 0, keyed(2, "3#0", delete(3)))
        one.take(TOPIC, 0, keyed(3, "3#0", None))
        assert one.verdict.records == 3
        assert one.verdict.counts == {}
        assert (
            one.verdict.unjudged["copies in merged topics, of which only the order is checked"] == 2
        )
        one.take(TOPIC, 0, keyed(4, "2#0", created(2)))
        assert one.verdict.counts == {FaultKind.OUT_OF_ORDER: 1}
        # In a topic that the share is not merged into, it is a second record.
        one.take("aq.shop.other", 0, keyed(0, "2#0", created(2)))
        assert one.verdict.counts[FaultKind.REPEATED] == 1


@pytest.mark.parametrize(
    ("cut", "number", "expired"),
    [
        ({}, 1, False),
        # The topic from before the merge has lost what was in it, the share has not.
        ({(TOPIC, 0): 5}, 1, True),
        ({(TOPIC, 0): 5}, 3, False),
        ({(SHARE, 0): 5}, 1, True),
    ],
)
def test_a_change_from_before_the_merge_may_be_gone_from_the_merged_topic(
    cut: dict[tuple[str, int], int], number: int, *, expired: bool
) -> None:
    with Store() as store:
        one = shared(truth(store, *HISTORY))
        one.subject = replace(one.subject, beginnings=cut)
        positions = [position for position, _, _ in store.positions()]
        assert _is_expired(one, SHARE, positions[number - 1]) == expired


def test_the_records_of_a_drop_are_counted_in_their_transaction_by_topic() -> None:
    """The binlog does not show what existed, so no change of the source has these records."""
    with Store() as store:
        dropped = gtid(f"{SOURCE}:2", at=300) + query("DROP TABLE shop.t")
        one = examined(truth(store, transaction(1, rows("t", 7)), dropped))
        for at, name in enumerate(("2#0", "2#1")):
            one.take(TOPIC, 0, record(at, name, {**delete(at + 1), "op": "t", "before": None}))
        found = store.transaction(f"{SOURCE}:2")
        assert found is not None
        assert (one.verdict.faults, values_of(one, found.rank)) == ({}, {TOPIC: 2})
        of_rows = store.transaction(f"{SOURCE}:1")
        assert of_rows is not None
        assert values_of(one, of_rows.rank) == {}
