"""Rows that were read, as topics have them: by number over all partitions, with their form and their chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from app.audit.routes_in_force import RoutesInForce
from app.audit.topics.existing_rows import ExistingRows, incomplete_tables
from app.audit.topics.record_check import Subject
from app.audit.truth.window import End
from app.audit.verdict import Verdict
from connectors.kafka.reading import StoredRecord, partition_of
from connectors.mysql.position import Coordinates
from tables.history.present_columns import Described
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot

TOPIC, NAME = "aq.shop.t", ("shop", "t")
VERSION = Described(
    columns=("id", "v"),
    types=("int", "int"),
    charsets=(None, None),
    primary_key=("id",),
    topic=TOPIC,
    partitions=2,
)
READ = TableSnapshot(
    destination="shop", database="shop", table="t", id="one", state=SnapshotState.DONE, chunks=2
)
COMPARED = ("compared with the change before", "compared with the change after")
UNPROVEN = "existing rows that no change of their key proves"


class Topics:
    """Records as they are written, and their verdict."""

    def __init__(self, mapping: str | None = None) -> None:
        routes = Routes(prefix="aq", mapping=from_yaml(mapping) if mapping else None)
        at = Coordinates("binlog.000001", 5000)
        subject = Subject(
            routes=RoutesInForce.always(routes), destination="shop", ddl_topic="aq.__ddl.shop", seq=99,
            end=End(server_uuid="u", coordinates=at, gtids=None), server_uuid="u",
            versions={(*NAME, 1): VERSION}, partitions={TOPIC: 2}, beginnings={},
        )  # fmt: skip
        self.verdict = Verdict(destination="shop")
        self.rows = ExistingRows(subject, self.verdict, [NAME])
        self.seq = 0

    def put(
        self, op: str, row: int, v: int | None, *, before: int | None = None, id_: str = "",
        partition: int | None = None, key: bytes | None = None, seq: int = 0, **more: Any,
    ) -> None:  # fmt: skip
        """Add a record, with the next number or another; ``id_``: its id if it was read."""
        self.seq = seq or self.seq + 1
        key = b'{"id":%d}' % row if key is None else key
        source = {"name": "shop", "db": "shop", "table": "t", "schema": 1, "seq": self.seq}
        value = {
            "op": op, "source": {**source, "file": "binlog.000001", "pos": self.seq},
            "before": None if before is None else {"id": row, "v": before},
            "after": None if v is None else {"id": row, "v": v}, **more,
            **({"before": more["before_image"]} if "before_image" in more else {}),
        }  # fmt: skip
        headers = (("change_id", (id_ or f"u:{self.seq}#0").encode()),)
        record = StoredRecord(key, orjson.dumps(value), self.seq, headers)
        place = partition_of(key, 2) if partition is None else partition
        self.rows.take(TOPIC, place, record, value)

    def read(self, row: int, v: int, *, chunk: int = 1, ordinal: int = 0, **more: Any) -> None:
        """Add a row that was read."""
        self.put("r", row, v, id_=f"snapshot:one:shop.t:{chunk}#{ordinal}", **more)

    def statement(self, change: str | None, sql: str = "…", *, was: str = "", **more: Any) -> None:
        """Add a record of the DDL topic; with a ``change`` it lists the table, which ``was`` another before."""
        self.seq += 1
        table = {
            "database": "shop", "table": "t", "change": change, "renamed_to": None,
            "renamed_from": {"database": "shop", "table": was} if was else None,
        }  # fmt: skip
        tables = [] if change is None else [table]
        value = {"ddl": sql, "source": {"name": "shop", "seq": self.seq}, "tables": tables, **more}
        headers = (("change_id", b"u:of the statement#ddl"),)
        self.rows.take("aq.__ddl.shop", 0, StoredRecord(b"", b"x", self.seq, headers), value)

    def judged(self, **incomplete: str) -> Verdict:
        """The verdict on all of them."""
        reasons = {("shop", table): why for table, why in incomplete.items()}
        self.rows.judge(incomplete=reasons, knows_statements=True)
        self.rows.chunks({NAME: READ})
        return self.verdict


@pytest.fixture
def topics() -> Iterator[Topics]:
    made = Topics()
    with made.rows:
        yield made


def shown(verdict: Verdict) -> list[str]:
    return [str(one) for some in verdict.shown.values() for one in some]


def test_a_truncate_without_a_record_empties_the_table_by_its_statement(topics: Topics) -> None:
    topics.read(1, 10)
    effect = {"kind": "truncate omitted", "database": "shop", "table": "t"}
    topics.statement(None, "TRUNCATE t", effects=[effect])
    topics.put("c", 1, 11)
    verdict = topics.judged()
    assert verdict.faults == {}
    assert verdict.unjudged == {UNPROVEN: 1}


def test_each_row_is_counted_by_what_proves_it(topics: Topics) -> None:
    topics.put("c", 1, 10)
    topics.read(1, 10)
    topics.read(2, 20, ordinal=1)
    topics.read(3, 30, ordinal=2)
    topics.put("u", 2, 21, before=20)
    verdict = topics.judged()
    assert verdict.faults == {}
    assert verdict.existing == dict.fromkeys(COMPARED, 1)
    assert verdict.unjudged == {UNPROVEN: 1}
    assert f"existing rows: {COMPARED[0]}: 1" in verdict.lines()
    assert verdict.to_json()["existing_rows"] == dict.fromkeys(COMPARED, 1)


def test_an_older_image_after_a_newer_one_is_named_with_its_place(topics: Topics) -> None:
    topics.put("u", 1, 11, before=10)
    topics.read(1, 10)
    verdict = topics.judged()
    assert verdict.faults == {"untrue": 1}
    partition = partition_of(b'{"id":1}', 2)
    place = f"snapshot:one:shop.t:1#0 binlog.000001:2 {TOPIC}[{partition}]@2"
    assert shown(verdict) == [f"{place}: v has another value than in the record before it, seq 1"]
    assert "untrue=1" in verdict.last_line()


def test_a_truncate_in_another_partition_is_placed_by_its_number(topics: Topics) -> None:
    topics.put("c", 1, 10)
    topics.put("t", 0, None, partition=0, key=b"")
    topics.read(1, 10)
    topics.put("c", 2, 20)
    topics.read(2, 20, ordinal=1)
    verdict = topics.judged()
    assert verdict.faults == {"untrue": 1}
    assert "did not exist after its table was emptied" in shown(verdict)[0]


def test_records_are_placed_by_number_in_whatever_order_partitions_are_read(topics: Topics) -> None:
    topics.read(1, 11, seq=3)
    topics.put("u", 1, 11, before=10, seq=2)
    topics.put("t", 0, None, partition=0, key=b"", seq=9)
    topics.put("t", 0, None, partition=0, key=b"", seq=1)
    topics.put("c", 2, 20, seq=4)
    topics.read(2, 20, ordinal=1, seq=5)
    topics.read(3, 30, ordinal=2, seq=6)
    verdict = topics.judged()
    assert (verdict.faults, verdict.existing) == ({"untrue": 1}, {COMPARED[0]: 3})
    assert "did not exist after its table was emptied" in shown(verdict)[0]


def test_a_key_that_a_reading_returned_twice_is_repeated_unless_a_statement_is_between(
    topics: Topics,
) -> None:
    topics.read(1, 10, chunk=1)
    topics.read(1, 10, chunk=2)
    assert topics.judged().faults == {"repeated": 1}
    restarted = Topics()
    restarted.read(1, 10, chunk=1)
    restarted.statement("altered")
    restarted.read(1, 10, chunk=2)
    assert restarted.judged().faults == {}


@pytest.mark.parametrize(
    ("change", "sql", "more", "faults"),
    [
        ("altered", "ALTER TABLE t ADD x int", {}, {"untrue": 1}),
        (None, "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE s", {}, {}),
        (None, "ALTER TABLE t SOMETHING NEW", {"outcome": "unresolved"}, {}),
        ("dropped", "DROP TABLE t", {}, {}),
        ("renamed", "RENAME TABLE t TO s", {}, {}),
        ("created", "CREATE TABLE t (id int)", {}, {}),
    ],
)
def test_after_a_statement_that_moves_rows_a_key_that_was_deleted_may_exist(
    topics: Topics, change: str | None, sql: str, more: dict[str, Any], faults: dict[str, int]
) -> None:
    topics.put("d", 1, None, before=10)
    topics.statement(change, sql, **more)
    topics.read(1, 10)
    assert topics.judged().faults == faults


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(("was", "faults"), [("s", {}), ("", {"untrue": 1})])
def test_a_name_that_a_mapped_table_leaves_has_the_rows_of_the_table_that_takes_it(
    topics: Topics, was: str, faults: dict[str, int], *, is_first: bool
) -> None:
    """The record that its own rows are gone follows the statement, and topics are read in any order."""

    def states() -> None:
        topics.statement("renamed", "RENAME TABLE t TO old, s TO t", was=was)

    topics.put("c", 1, 10)
    if is_first:
        states()
    topics.put("t", 0, None, partition=0, key=b"", id_="u:of the statement#0", seq=3)
    if not is_first:
        topics.seq = 1
        states()
    topics.read(1, 11, seq=4)
    assert topics.judged().faults == faults


@pytest.mark.parametrize(("change", "faults"), [("renamed", {}), (None, {"untrue": 1})])
def test_rows_that_a_statement_left_say_nothing_of_a_table_that_was_renamed(
    topics: Topics, change: str | None, faults: dict[str, int]
) -> None:
    topics.put("c", 1, 10)
    effect = {"kind": "truncate omitted", "database": "shop", "table": "t"}
    topics.statement(change, "RENAME TABLE t TO old, s TO t", was="s", effects=[effect])
    topics.read(1, 11)
    assert topics.judged().faults == faults


def test_the_tables_of_an_online_change_are_moved(topics: Topics) -> None:
    topics.put("d", 1, None, before=10)
    topics.statement("altered", online=[{"database": "shop", "table": "t"}])
    topics.read(1, 10)
    assert topics.judged().faults == {}


def test_rows_of_a_chunk_that_the_journal_lacks_are_found(topics: Topics) -> None:
    topics.read(1, 10, chunk=2)
    topics.read(2, 10, chunk=3)
    verdict = topics.judged()
    assert verdict.faults == {"cursor": 1}
    assert "it is of chunk 3, and the journal has 2 of its table's" in shown(verdict)[0]
    unknown = Topics()
    unknown.read(1, 10)
    unknown.rows.chunks({})
    assert "the journal has no reading of its table" in shown(unknown.verdict)[0]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"op": "c"}, "it is c, and its row was read"),
        ({"before": 10}, "an image is missing, or there is one too many"),
        ({"after": {"v": 10, "id": 1}}, "its columns are not the table's"),
        ({"key": b'{"id":2}', "partition": 0}, "its key is not its row's"),
        ({"partition": 1 - partition_of(b'{"id":1}', 2)}, "its key belongs to another partition"),
    ],
)
def test_another_form_is_different(topics: Topics, wrong: dict[str, Any], what: str) -> None:
    op = wrong.pop("op", "r")
    topics.put(op, 1, 10, id_="snapshot:one:shop.t:1#0", **wrong)
    verdict = topics.judged()
    assert verdict.faults["different"] == 1
    assert shown(verdict)[0].endswith(what)


def test_rows_whose_changes_are_elsewhere_are_counted_with_the_reason(topics: Topics) -> None:
    topics.put("u", 1, 11, before=10)
    topics.read(1, 10)
    topics.read(2, 10, ordinal=1)
    verdict = topics.judged(t="its changes are quarantined")
    assert (verdict.faults, verdict.existing) == ({}, {})
    assert verdict.unjudged == {"existing rows of shop.t: its changes are quarantined": 2}
    assert incomplete_tables({NAME: True, ("shop", "u"): False}, {("shop", "d")}) == {
        NAME: "its changes are quarantined", ("shop", "d"): "some of its changes are dead letters",
    }  # fmt: skip


NO_KEY = "existing rows of tables without a key, or whose mapping has another or leaves out changes"


def test_rows_without_a_key_are_counted_and_found_where_one_comes_twice(topics: Topics) -> None:
    topics.put("t", 0, None, partition=0, key=b"")
    topics.read(1, 10, ordinal=0, key=b"", partition=0)
    topics.read(1, 10, ordinal=1, key=b"", partition=0)
    # In a compacted topic a record has its id as key.
    topics.read(1, 10, ordinal=2, key=b'{"change_id":"snapshot:one:shop.t:1#2"}', partition=0)
    topics.read(1, 10, ordinal=1, key=b"", partition=0)
    verdict = topics.judged()
    assert verdict.unjudged == {NO_KEY: 4}
    assert verdict.counts.total() == verdict.faults["repeated"] + verdict.faults.get("different", 0)
    assert verdict.faults["repeated"] == 1


@pytest.mark.parametrize("rule", ["key: [v]", "operations: [insert]"])
def test_where_a_mapping_hides_what_happened_to_a_row_it_is_not_judged(rule: str) -> None:
    topics = Topics(f"tables: {{shop.t: {{from: [shop.t], {rule}}}}}")
    topics.put("u", 1, 11, before=10)
    topics.read(1, 10)
    verdict = topics.judged()
    assert "untrue" not in verdict.faults
    assert verdict.unjudged == {NO_KEY: 1}


def test_replaced_rows_are_judged_by_what_the_source_had_before_too(topics: Topics) -> None:
    topics.put("c", 1, 10)
    topics.put("t", 0, None, id_="snapshot:one:shop.t:0#0")
    topics.read(1, 10)
    assert shown(topics.judged()) == []


def test_rows_after_a_truncate_of_the_source_are_no_longer_its_rows(topics: Topics) -> None:
    topics.put("c", 1, 10)
    topics.put("t", 0, None)
    topics.read(1, 10)
    assert len(shown(topics.judged())) == 1


def remove(topics: Topics, row: int, **more: Any) -> None:
    """Add the delete of a row that a reading did not find."""
    form: dict[str, Any] = {"absent": ["v"], "before_image": {"id": row}, **more}
    image = form.pop("before_image")
    topics.put("d", row, None, id_=f"snapshot:one:shop.t:1#{row}", before_image=image, **form)


def test_a_delete_of_a_row_that_only_subscribers_had_is_no_fault(topics: Topics) -> None:
    topics.put("c", 1, 10)
    topics.put("c", 2, 10)
    remove(topics, 1)
    remove(topics, 2)
    topics.put("c", 2, 20)
    verdict = topics.judged()
    assert shown(verdict) == []
    assert [verdict.existing[one] for one in COMPARED] == [0, 1]
    assert verdict.unjudged[UNPROVEN] == 1


def test_a_delete_of_a_row_that_the_source_has_is_untrue(topics: Topics) -> None:
    topics.put("c", 1, 10)
    remove(topics, 1)
    topics.put("u", 1, 20, before=10)
    (one,) = shown(topics.judged())
    assert "it was not read, and existed when it was changed by seq 3" in one


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"absent": []}, "does not name the columns"),
        ({"before_image": {"id": 1, "v": 2}}, "its columns are not the table's"),
        ({"before_image": None}, "an image is missing"),
        ({"after": {"id": 1, "v": 2}}, "one too many"),
        ({"key": b'{"id":9}'}, "its key is not its row's"),
    ],
)
def test_another_form_of_such_a_delete_is_different(
    topics: Topics, wrong: dict[str, Any], what: str
) -> None:
    remove(topics, 1, **wrong)
    assert [what in one for one in shown(topics.judged())] == [True]
