"""The verdict over made-up topics with one fault in each, and over topics without any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from demo.checks import Record
from demo.truth import Truth
from tables.rules.routes.routes import Routes
from tests.crash.fencing import fencing_faults
from tests.crash.gtids import GtidRanges
from tests.crash.report import summary
from tests.crash.scenario import Outcome
from tests.crash.verdict import Read, Source, Topics, compare, different, note

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
LAST = 10


def source() -> Source:
    truth = Truth()
    for n in range(1, LAST + 1):
        truth.add("goods", f"{UUID}:{n}#0", moved=False)
    return Source(
        truth, {"goods": {n: {"id": n, "n": n} for n in range(1, LAST + 1)}}, f"{UUID}:1-10"
    )


def read(n: int) -> Read:
    record = Record(
        topic="p.shop.goods",
        partition=0,
        offset=n,
        change_id=f"{UUID}:{n}#0",
        seq=n,
        epoch=1 if n < 6 else 2,
        committed_ms=0,
    )
    return Read(
        record=record,
        table="goods",
        key=b"%d" % n,
        op="c",
        after={"id": n, "n": n},
        before=None,
    )


def topics() -> Topics:
    cursors = [
        {"epoch": epoch, "seq": seq, "gtid_set": f"{UUID}:1-{seq}"}
        for epoch, seq in ((1, 5), (2, 10))
    ]
    return Topics(rows=[read(n) for n in range(1, LAST + 1)], cursors=cursors)


def record(found: Topics, at: int, **changes: Any) -> None:
    one = found.rows[at]
    found.rows[at] = replace(one, record=replace(one.record, **changes))


def lost(found: Topics) -> None:
    del found.rows[4]


def repeated(found: Topics) -> None:
    found.rows.append(found.rows[3])


def invented(found: Topics) -> None:
    record(found, 3, change_id=f"{UUID}:99#0")


def seq(found: Topics) -> None:
    record(found, 9, seq=12)


def disordered(found: Topics) -> None:
    record(found, 2, offset=4)
    record(found, 3, offset=3)


def epochs(found: Topics) -> None:
    record(found, 9, epoch=1)


def scattered(found: Topics) -> None:
    found.rows[9] = replace(
        found.rows[9], key=b"1", record=replace(found.rows[9].record, partition=1)
    )


def values(found: Topics) -> None:
    found.rows[2] = replace(found.rows[2], after={"id": 3, "n": 4})


def cursor(found: Topics) -> None:
    found.cursors[-1]["gtid_set"] = f"{UUID}:1-8:10"


def misplaced(found: Topics) -> None:
    found.misplaced.append("shop.goods in p.shop.orders@4")


def message(topic: str, table: str) -> Any:
    source = {"db": "shop", "table": table, "seq": 1, "epoch": 1, "ts_ms": 0}
    value = orjson.dumps({"source": source, "op": "c", "before": None, "after": {"id": 1}})
    headers = (("change_id", b"u:1#0"),)
    return SimpleNamespace(
        topic=topic, partition=0, offset=4, key=b"1", value=value, headers=headers
    )


def test_a_row_belongs_where_the_route_of_the_table_that_it_names_says() -> None:
    found = Topics()
    routes = Routes(prefix="p", include=r"shop\..*")
    note(found, message("p.shop.goods", "goods"), routes, "shop")
    assert (found.misplaced, found.rows[0].table) == ([], "goods")
    note(found, message("p.shop.goods", "orders"), routes, "shop")
    assert (found.misplaced, found.rows[1].table) == (["shop.orders in p.shop.goods@4"], "orders")


def test_topics_without_a_fault_are_found_good() -> None:
    assert compare(source(), topics()) == {}


@pytest.mark.parametrize(
    "plant",
    [lost, repeated, invented, seq, disordered, epochs, scattered, misplaced, values, cursor],
)
def test_each_kind_of_fault_is_seen(plant: Callable[[Topics], None]) -> None:
    found = topics()
    plant(found)
    assert plant.__name__ in compare(source(), found)


@pytest.mark.parametrize(("seq_of_last", "epoch"), [(9, 2), (10, 0)])
def test_a_cursor_that_is_not_what_was_delivered_is_seen(seq_of_last: int, epoch: int) -> None:
    found = topics()
    found.cursors[-1] |= {"seq": seq_of_last, "epoch": epoch}
    assert compare(source(), found).keys() & {"cursor", "epochs"}


def test_what_stopped_answers_only_for_what_its_cursor_holds() -> None:
    found = topics()
    del found.rows[8:]
    found.cursors[-1] |= {"seq": 8, "gtid_set": f"{UUID}:1-8"}
    assert compare(source(), found, whole=False) == {}
    del found.rows[7]
    assert "lost" in compare(source(), found, whole=False)


def test_a_cursor_that_stopped_and_lacks_what_was_published_is_seen() -> None:
    found = topics()
    found.cursors[-1] |= {"gtid_set": f"{UUID}:1-3:5-10"}
    assert compare(source(), found, whole=False)["cursor"] == [
        f"it lacks {UUID}:4, which was published"
    ]


def test_a_set_of_gtids_knows_what_it_holds() -> None:
    held = GtidRanges(f"{UUID.upper()}:1-5:8,\n{UUID[:-1]}3:7")
    assert [n for n in range(1, 10) if f"{UUID}:{n}" in held] == [1, 2, 3, 4, 5, 8]
    assert f"{UUID[:-1]}3:7" in held
    assert f"{UUID[:-1]}4:7" not in held


def test_the_last_line_counts_what_was_done_and_found() -> None:
    done = Outcome(name="a", what="", seed=1, how="", survived=True)
    bad = replace(done, name="b", survived=False, findings={"lost": ["x", "y"]})
    skipped = replace(done, name="c", skipped=True)
    assert summary([done, bad, skipped], {"m": "lost 1", "n": None}) == (
        "crash: faults=2 survived=1 lost=2 repeated=0 mutants=2 caught=1"
    )


def test_a_commit_after_a_later_producer_is_one_after_a_fence() -> None:
    found = topics()
    found.cursors = [{**found.cursors[0], "epoch": epoch} for epoch in (1, 2, 3)]
    found.offsets = [5, 9, 12]
    found.producers = {5: (1, 0), 9: (1, 1), 12: (1, 0)}
    assert fencing_faults(found.cursors, found.offsets, found.producers) == [
        "producer (1, 0) commits at 12 after (1, 1)"
    ]


def test_a_cursor_of_nobody_is_seen() -> None:
    found = topics()
    found.offsets, found.producers = [5, 9], {5: (1, 0)}
    assert fencing_faults(found.cursors, found.offsets, found.producers) == [
        "the broker's files do not show whose the cursor at 9 is"
    ]
    found.cursors[1]["by"] = "an operator"
    assert fencing_faults(found.cursors, found.offsets, found.producers) == []


def test_an_epoch_is_of_one_producer_alone() -> None:
    found = topics()
    found.offsets = [5, 9]
    found.producers = {5: (1, 0), 9: (1, 1)}
    assert fencing_faults(found.cursors, found.offsets, found.producers) == []
    found.cursors = [{**cursor, "epoch": 1} for cursor in found.cursors]
    assert fencing_faults(found.cursors, found.offsets, found.producers) == [
        "epoch 1 is of (1, 0) and of (1, 1)"
    ]


def test_epochs_that_nobody_had_cause_to_claim_are_seen() -> None:
    found = topics()
    found.most_claims = 2
    assert "claims" not in compare(source(), found)
    found.most_claims = 1
    assert compare(source(), found)["claims"] == ["2 epochs were claimed, where 1 had cause"]


def test_records_without_names_are_counted_key_by_key() -> None:
    nameless = replace(source(), gtids="", counts={("goods", n): 1 for n in range(1, LAST + 1)})
    assert compare(nameless, topics()) == {}
    found = topics()
    # One is lost and one is there twice: the table's sum is right.
    found.rows[4] = replace(found.rows[3], record=found.rows[4].record)
    wrong = compare(nameless, found)
    assert wrong["lost"] == ["1 of goods 5"]
    assert "1 of goods 4" in wrong["repeated"]


def test_tables_that_are_not_the_same_are_seen_row_by_row() -> None:
    due = {"goods": {1: {"id": 1, "n": 1}, 2: {"id": 2, "n": 2}}}
    assert different(due, {"goods": dict(due["goods"])}) == []
    assert different(due, {}) == ["goods 1 is missing", "goods 2 is missing"]
    held = {2: {"id": 2, "n": 3}, 3: {"id": 3, "n": 3}}
    assert different(due, {"goods": held}) == [
        "goods 1 is missing",
        "goods 3 is still there",
        "goods 2 is {'id': 2, 'n': 3}, not {'id': 2, 'n': 2}",
    ]
