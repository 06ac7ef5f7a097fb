"""Each kind of fault is found, in the records of a real worker with one such fault in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.audit.audit import audit
from app.audit.errors import NotAuditable
from app.audit.truth.mysqlbinlog import BinlogFiles
from app.audit.truth.witness import WitnessName
from app.audit.verdict import Verdict
from connectors.kafka.reading import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from tests.integration.auditing.conftest import Case, Remembered
from tests.integration.auditing.planting import Planting

UNTOLD = {
    "records before the window": 10,
    **{
        f"shop.kinds.{column}, which the witness cannot distinguish": 3
        for column in ("da: DATE", "dt: DATETIME", "dt6: DATETIME", "tm2: TIME", "j: JSON")
    },
}
"""The changes of the story that the second witness leaves unjudged."""


class Judged(Planting):
    """Topics with a fault, and the audit's findings."""

    def __init__(self, case: Case, second: Remembered | None) -> None:
        super().__init__(case.recorded(), case.scope.prefix)
        self._case = case
        self.second = second

    @property
    def whole(self) -> int:
        """The number of changes; two are in the file that only mysqlbinlog reads."""
        return 300 if self.second is None else 298

    def faults(self, **more: Any) -> dict[str, int]:
        return self.verdict(**more).faults

    def verdict(self, **more: Any) -> Verdict:
        if self.second is not None:
            begin = Coordinates(self.second.first, 4)
            more = {"binlog": self.second, "begin": begin, **more}
        return self._case.verdict(self.topics, **more)


@pytest.fixture(params=list(WitnessName), ids=lambda name: name.value)
def planted(case: Case, second: Remembered, request: pytest.FixtureRequest) -> Judged:
    return Judged(case, second if request.param is WitnessName.MYSQL_REPLICATION else None)


@pytest.mark.remedy("NotAuditable")
def test_what_no_worker_has_led_is_named_until_the_names_are_right(case: Case) -> None:
    wrong = replace(case.scope.routes, prefix="other")
    for scope in (replace(case.scope, routes=wrong), replace(case.scope, destination="other")):
        with pytest.raises(NotAuditable, match="Check the prefix and the destination's name"):
            audit(scope)
    assert audit(case.scope).is_clean


def of_key(**wanted: object) -> Any:
    def holds(value: dict[str, Any]) -> bool:
        image = value["after"] or value["before"] or {}
        return all(image.get(name) == each for name, each in wanted.items())

    return holds


def test_what_a_worker_published_is_clean_and_all_of_it_is_judged(planted: Judged) -> None:
    verdict = planted.verdict()
    assert verdict.faults == {}
    assert dict(verdict.filtered) == {"other.noise": 4}
    assert dict(verdict.unjudged) == ({} if planted.second is None else UNTOLD)
    assert verdict.changes == planted.whole
    assert verdict.last_line().startswith(
        f"audit: changes={planted.whole} lost=0 repeated=0 foreign=0 different=0"
    )


def of_later_files(case: Case) -> BinlogFiles:
    """The binlog without the files that the second witness does not read."""
    assert isinstance(case.scope.binlog, BinlogFiles)
    paths = [path for path in case.scope.binlog.paths if path.name >= case.plain]
    assert paths != [*case.scope.binlog.paths]
    return replace(case.scope.binlog, paths=tuple(paths))


@pytest.mark.parametrize("given", [False, True])
def test_once_the_oldest_record_is_purged_at_the_source_the_rest_is_judged(
    case: Case, given: bool
) -> None:
    planted = Judged(case, None)
    begin = f"{case.scope.binlog.server_uuid}:2" if given else None
    verdict = planted.verdict(binlog=of_later_files(case), begin=begin)
    assert (verdict.faults, verdict.changes) == ({}, 298)
    planted.drop(planted.find("shop.keyed", of_key(a=3))[0])
    assert planted.faults(binlog=of_later_files(case), begin=begin)["lost"] == 1


def test_an_audit_begins_with_a_transaction_of_the_source_whatever_is_the_first_record(
    case: Case,
) -> None:
    planted = Judged(case, None)
    (topic, partition), at = planted.find("shop.kinds", lambda _: True)[0]
    record = planted.record(((topic, partition), at))
    own = planted.topics.records[topic, partition]
    value = orjson.loads(record.value)
    for name in ("versions:1", "truncate:snapshot:1:shop.kinds:1", "snapshot:1:shop.kinds:1"):
        value["source"]["seq"] = 0
        headers = [(key, one) for key, one in record.headers if key != "change_id"]
        headers.append(("change_id", f"{name}#0".encode()))
        first = replace(record, value=orjson.dumps(value), headers=tuple(headers))
        planted.topics.records[topic, partition] = [first, *own]
        assert planted.verdict().changes == planted.whole, name


def test_a_transaction_that_the_binlog_does_not_have_is_no_beginning(case: Case) -> None:
    with pytest.raises(NotAuditable, match=r"is not in the binlog.*--binlogs"):
        audit(replace(case.scope, begin=f"{case.scope.binlog.server_uuid}:999999"))


def test_a_record_that_is_missing_is_lost_and_its_number_missing(planted: Judged) -> None:
    position = planted.find("shop.keyed", of_key(a=3))[0]
    change_id = dict(planted.record(position).headers)["change_id"].decode()
    planted.drop(position)
    verdict = planted.verdict()
    assert verdict.faults == {"lost": 1, "seq_gaps": 1, "transactions": 1}
    (found,) = next(iter(verdict.shown.values()))
    assert found.change_id == change_id
    assert str(found).startswith(f"{change_id} binlog.0")


def test_half_of_a_key_change_and_a_tombstone_are_missed_too(planted: Judged) -> None:
    position = planted.find(
        "shop.keyed", lambda value: value["op"] == "d" and value["before"]["a"] == 1
    )[0]
    partition, at = position
    assert planted.record((partition, at + 1)).value == b""
    planted.drop((partition, at + 1))
    assert planted.faults() == {"lost": 1}
    planted.drop(position)
    assert planted.faults()["lost"] == 1


def test_the_last_records_missing_are_a_cursor_too_far(planted: Judged) -> None:
    position = planted.find("shop.log", of_key(a=11))[0]
    planted.drop(position)
    assert planted.faults() == {"lost": 1, "seq_gaps": 1, "cursor": 1, "transactions": 1}


def test_a_record_that_is_there_twice_is_repeated(planted: Judged) -> None:
    position = planted.find("shop.kinds", of_key(id=3))[0]
    planted.append(position[0], planted.record(position))
    faults = planted.faults()
    assert faults["repeated"] == 1
    assert faults["seq_gaps"] == 1  # its number too


def test_two_records_of_a_key_that_changed_places_are_out_of_order(planted: Judged) -> None:
    first, second = planted.find(
        "shop.keyed", lambda value: value["op"] == "u" and value["after"]["a"] == 20
    )
    one, two = planted.record(first), planted.record(second)
    planted.put(first, replace(two, offset=one.offset))
    planted.put(second, replace(one, offset=two.offset))
    assert planted.faults() == {"out_of_order": 1}


def test_numbers_put_right_do_not_hide_that_records_changed_places(planted: Judged) -> None:
    first, second = planted.find(
        "shop.keyed", lambda value: value["op"] == "u" and value["after"]["a"] == 20
    )
    one, two = planted.record(first), planted.record(second)
    seqs = [orjson.loads(record.value)["source"]["seq"] for record in (one, two)]
    planted.put(first, replace(two, offset=one.offset))
    planted.put(second, replace(one, offset=two.offset))
    for position, seq in zip((first, second), seqs, strict=True):
        planted.number(position, seq)
    assert planted.faults() == {"out_of_order": 1}


ALTERED = {
    "ti": -2, "tu": 254, "mu": 1, "bu": 18446744073709551614, "y": 2023,
    "d": "-12345678901234567890.0123456788", "d0": "-8", "f": 0.2, "db": 0.10000000000000002,
    "da": "2024-02-28", "dt": "2024-02-29T12:00:02", "dt6": "2024-02-29T12:00:01.123457",
    "ts": "2024-02-29T12:00:02Z", "ts3": "2024-02-29T12:00:01.124Z", "tm": "-838:59:58",
    "tm2": "12:34:56.79", "c": "ab  ", "v": "x",
    "l": "è€", "u": "ü", "g": "", "tx": None, "b": "AQIAAQA=", "vb": "AP8=", "bl": "", "bit1": "AA==",
    "bit12": "CqsA", "e": "é", "s": "2,9", "j": '{"a": []}', "o": 0,
}  # fmt: skip


@pytest.mark.parametrize("column", ALTERED)
def test_another_value_is_different_whatever_its_type(planted: Judged, column: str) -> None:
    position = planted.find("shop.kinds", of_key(id=18446744073709551615))[0]
    planted.alter(position, lambda value: value["after"].update({column: ALTERED[column]}))
    verdict = planted.verdict()
    assert verdict.faults == {"different": 1}
    assert f"{column} has another value" in str(next(iter(verdict.shown.values()))[0])


def test_another_key_form_or_partition_is_different(planted: Judged) -> None:
    position = planted.find("shop.keyed", of_key(a=3))[0]
    record = planted.record(position)
    planted.put(position, replace(record, key=b'{"a":3,"b":"y"}'))
    assert planted.faults() == {"different": 1}
    planted.put(position, record)
    planted.alter(position, lambda value: value.update(op="u", before=value["after"]))
    assert planted.faults()["different"] == 1
    planted.put(position, record)
    planted.alter(position, lambda value: value["after"].pop("x"))
    assert planted.faults()["different"] == 1
    planted.drop(position)
    name, number = position[0]
    planted.append((name, 1 - number), record)
    assert planted.faults()["different"] == 1


def test_a_record_of_no_change_is_foreign(planted: Judged) -> None:
    position = planted.find("shop.kinds", of_key(id=1))[0]
    record = planted.record(position)
    change_id = dict(record.headers)["change_id"]
    planted.put(
        position, replace(record, headers=(("change_id", change_id.replace(b"#0", b"#7")),))
    )
    faults = planted.faults()
    assert (faults["foreign"], faults["lost"]) == (1, 1)
    planted.put(position, replace(record, value=b"{}"))
    assert planted.faults()["foreign"] == 1


def test_a_row_that_was_rolled_back_would_be_foreign(planted: Judged) -> None:
    position = planted.find("shop.log", of_key(a=7))[0]
    record = planted.record(position)
    name = dict(record.headers)["change_id"].decode()
    source, _, number = name.partition("#")[0].rpartition(":")
    dropped = f"{source}:{int(number) + 2}"  # the XA ROLLBACK after it

    def forge(value: dict[str, Any]) -> None:
        value["source"]["gtid"] = dropped

    planted.alter(position, forge, headers=(("change_id", f"{dropped}#0".encode()),))
    assert planted.faults()["foreign"] == 1


def test_a_number_given_twice_and_one_left_out_are_gaps(planted: Judged) -> None:
    position = planted.find("shop.wide", of_key(id=9))[0]
    planted.alter(position, lambda value: value["source"].update(seq=value["source"]["seq"] - 1))
    assert planted.faults()["seq_gaps"] == 2


def test_an_older_epoch_after_a_newer_one_is_found(planted: Judged) -> None:
    position = planted.find("shop.wide", of_key(id=200))[0]
    planted.alter(position, lambda value: value["source"].update(epoch=1))
    faults = planted.faults()
    assert faults["epochs_back"] == 1
    assert faults["after_fencing"] >= 1


def test_a_commit_after_fencing_is_found_where_its_partition_shows_nothing(planted: Judged) -> None:
    for position in planted.find("shop.copied"):
        planted.alter(position, lambda value: value["source"].update(epoch=1))
    faults = planted.faults()
    assert "epochs_back" not in faults
    assert faults["after_fencing"] >= 1


def cursors(planted: Judged) -> list[tuple[tuple[str, int], int]]:
    return planted.find("__journal", lambda value: "seq" in value and "gtid_set" in value)


def test_a_cursor_of_an_old_leader_after_a_newer_claim_is_found(planted: Judged) -> None:
    position = cursors(planted)[-1]
    planted.append(position[0], planted.record(position))
    last = cursors(planted)[-1]
    planted.alter(last, lambda value: value.update(epoch=1))
    assert planted.faults()["after_fencing"] >= 1


def test_a_cursor_past_the_records_is_found(planted: Judged) -> None:
    last = cursors(planted)[-1]
    record = planted.record(last)
    planted.alter(last, lambda value: value.update(seq=value["seq"] + 3))
    assert planted.faults() == {"seq_gaps": 3, "cursor": 1}

    def more(value: dict[str, Any]) -> None:
        held = GtidSet.parse(value["gtid_set"])
        held.add(f"{next(iter(held._intervals))}:100000")
        value["gtid_set"] = str(held)

    planted.put(last, record)
    planted.alter(last, more)
    assert planted.faults() == {"cursor": 1}


def test_a_cursor_before_the_records_is_found(planted: Judged) -> None:
    planted.drop(cursors(planted)[-1])
    assert planted.faults()["cursor"] >= 1


def test_transaction_markers_with_wrong_counts_are_found(planted: Judged) -> None:
    is_end = lambda value: value["status"] == "END"  # noqa: E731
    first = planted.find("__transactions.shop", is_end)[1]
    kept = planted.record(first)
    planted.alter(first, lambda value: value["data_collections"][0].update(event_count=5))
    assert planted.faults()["transactions"] >= 1
    planted.put(first, kept)
    planted.drop(first)
    assert planted.faults()["transactions"] >= 1
    planted.topics.records[first[0]].insert(first[1], kept)
    assert planted.faults() == {}
    parts = planted.find("__transactions.shop", lambda value: value.get("part") == 2)
    assert parts, "a transaction was published in parts"
    planted.drop(parts[0])
    assert planted.faults()["transactions"] >= 1


def test_a_statement_that_is_missing_or_differs_is_found(planted: Judged) -> None:
    position = planted.find("__ddl.shop", lambda value: value["ddl"].startswith("ALTER"))[0]
    planted.alter(position, lambda value: value.update(ddl="ALTER TABLE shop.keyed DROP x"))
    assert planted.faults() == {"different": 1}
    planted.append(position[0], planted.drop(position))
    assert planted.faults()["different"] == 1
    planted.topics.records[position[0]].pop()
    assert planted.faults() == {"lost": 1, "seq_gaps": 1}


def test_what_a_topic_keeps_no_more_is_reported_and_not_lost(planted: Judged) -> None:
    for number in range(2):
        part = (f"{planted.prefix}.shop.kinds", number)
        gone = planted.topics.records[part][:2]
        del planted.topics.records[part][:2]
        planted.topics.firsts[part] = gone[-1].offset + 1
    verdict = planted.verdict()
    assert "lost" not in verdict.faults
    assert verdict.expired[f"{planted.prefix}.shop.kinds"] >= 2
    kinds = [kind for kind in verdict.faults if kind != "transactions"]
    assert kinds == []


def test_only_the_window_is_audited(planted: Judged) -> None:
    early, late = (
        planted.find("shop.kinds", of_key(id=1))[0],
        planted.find("shop.log", of_key(a=11))[0],
    )
    gtids = [
        orjson.loads(planted.record(position).value)["source"]["gtid"] for position in (early, late)
    ]
    source = gtids[0].rpartition(":")[0]
    middle = (int(gtids[0].rpartition(":")[2]) + int(gtids[1].rpartition(":")[2])) // 2
    half = GtidSet.parse(f"{source}:1-{middle}")
    planted.drop(early)
    assert (
        planted.verdict(begin=half).counts.total()
        == planted.verdict(begin=half).faults["seq_gaps"]
        == 1
    )
    assert planted.verdict(until=half).faults["lost"] == 1
    assert planted.verdict(begin=f"{source}:{middle}").faults == {"seq_gaps": 1}
    assert planted.verdict(from_start=False).faults["lost"] == 1
    assert (
        planted.verdict(begin=half).changes + planted.verdict(until=half).changes == planted.whole
    )


def test_a_table_that_is_quarantined_is_accounted_for_by_name(planted: Judged) -> None:
    name = f"{planted.prefix}.__quarantine.shop"
    planted.topics.counts[name] = 1
    waiting: list[StoredRecord] = []
    for partition, at in reversed(planted.find("shop.copied")):
        record = planted.drop((partition, at))
        tx, _, ordinal = dict(record.headers)["change_id"].decode().partition("#")
        meta = {"kind": "rows", "id": tx, "ordinal": int(ordinal), "rows": 1}
        name_of = orjson.dumps({"database": "shop", "table": "copied"})
        waiting.append(StoredRecord(name_of, b"x", len(waiting), (("meta", orjson.dumps(meta)),)))
    planted.topics.records[name, 0] = waiting
    entry: dict[str, Any] = {"format": 1, "database": "shop", "table": "copied"}
    entry |= {"outcome": "waiting", "offset": 0}
    key = b"quarantine/shop/shop/copied"
    partition = cursors(planted)[-1][0]
    planted.append(partition, StoredRecord(key, orjson.dumps(entry), 0))
    verdict = planted.verdict()
    assert dict(verdict.quarantined) == {"shop.copied": len(waiting)}
    assert "lost" not in verdict.faults
    # The table is quarantined again, after all of them were released; or it was released for good.
    for outcome in ("waiting", "released"):
        entry |= {"outcome": outcome, "offset": len(waiting)}
        planted.append(partition, StoredRecord(key, orjson.dumps(entry), 0))
        verdict = planted.verdict()
        assert verdict.faults["lost"] == len(waiting)
        assert not verdict.quarantined


def test_a_row_that_is_a_dead_letter_is_counted_apart_and_not_lost(planted: Judged) -> None:
    (position,) = planted.find("shop.keyed", of_key(a=3))[:1]
    header = next(each for each in planted.drop(position).headers if each[0] == "change_id")
    name = f"{planted.prefix}.__dead_letters.shop"
    letter = StoredRecord(b"", b"x", 0, (header, ("meta", orjson.dumps({"kind": "row"}))))
    planted.topics.counts[name] = 1
    planted.topics.records[name, 0] = [letter]
    verdict = planted.verdict()
    assert verdict.unjudged["shop.keyed: dead letters"] == 1
    assert "lost" not in verdict.faults
