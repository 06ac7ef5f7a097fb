"""Both mappings over recorded events: what the counts of each table are."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.errors import AqueductError, MalformedEvent
from tests import made
from tests.unit.app.operator.trial.recorded import (
    DELETE,
    INSERT,
    ORDERS,
    OTHER,
    UPDATE,
    USERS,
    chunks,
    routes,
    rows,
    side,
    tried,
)

A, B, C = (1, 5, "a"), (2, 50, "b"), (3, 5, "c")
ALL = (
    rows(INSERT, ORDERS, A, B, C),
    rows(UPDATE, ORDERS, A, (1, 50, "a"), B, (2, 5, "b"), C, (9, 5, "c")),
    rows(DELETE, ORDERS, (1, 50, "a")),
)
"""Three inserts; two updates and a change of the key, which is three records; a delete and its tombstone."""


def test_a_mapping_differs_in_nothing_from_itself() -> None:
    for text in (None, "tables: {orders: {topic: x, row_filter: number > 10}}"):
        found = tried(text, text, chunks(*ALL))
        assert set(found.counts("orders")) == {"old", "new", "equal"}


def test_without_rules_all_records_are_equal_but_for_the_topic_and_the_logical_names() -> None:
    found = tried(None, "tables: {orders: {from: [shop.orders], topic: moved}}", chunks(*ALL))
    assert found.counts("orders") == {
        "old": 10, "new": 10, "value": 8, "topic": 10,
    }  # fmt: skip


def test_a_row_filter_makes_records_vanish_and_turns_updates_into_inserts_and_deletes() -> None:
    old = "tables: {orders: {from: [shop.orders]}}"
    new = "tables: {orders: {from: [shop.orders], row_filter: number > 10}}"
    # The insert of B stays. A's update is an insert, B's a delete with a tombstone, which appears.
    assert tried(old, new, chunks(*ALL)).counts("orders") == {
        "old": 10, "new": 6, "equal": 3, "value": 2, "appears": 1, "vanishes": 5,
    }  # fmt: skip
    # The other way around, all that vanished appears.
    assert tried(new, old, chunks(*ALL)).counts("orders") == {
        "old": 6, "new": 10, "equal": 3, "value": 2, "appears": 5, "vanishes": 1,
    }  # fmt: skip


def test_another_key_moves_records_to_other_partitions() -> None:
    new = "tables: {orders: {from: [shop.orders], key: [name]}}"
    old = "tables: {orders: {from: [shop.orders]}}"
    counts = tried(old, new, chunks(rows(INSERT, ORDERS, A, B, C))).counts("orders")
    assert (counts["key"], counts["old"], counts["new"]) == (3, 3, 3)
    assert 0 < counts["partition"] <= 3
    # By name, the third row of the update has no change of its key: one record in place of three.
    counts = tried(old, new, chunks(ALL[1])).counts("orders")
    assert (counts["old"], counts["new"], counts["vanishes"], counts["appears"]) == (5, 3, 3, 1)


def test_partition_by_moves_records_to_other_partitions_alone() -> None:
    new = "tables: {orders: {from: [shop.orders], partition_by: [number]}}"
    old = "tables: {orders: {from: [shop.orders]}}"
    found = [(number, 7, "") for number in range(40)]
    counts = tried(old, new, chunks(rows(INSERT, ORDERS, *found))).counts("orders")
    assert counts["equal"] + counts["partition"] == counts["old"] == 40
    assert counts["partition"] > 10
    assert set(counts) == {"old", "new", "equal", "partition"}


def test_a_table_that_the_new_rules_exclude_vanishes_and_others_stay_equal() -> None:
    new = "tables: {orders: {from: [shop.orders], black: 'shop\\..*'}}"
    found = tried(None, new, chunks(*ALL, rows(INSERT, OTHER, A)))
    assert found.counts("orders") == {"old": 10, "vanishes": 10}
    assert found.counts("other") == {"old": 1, "new": 1, "equal": 1}


def test_copies_on_the_topic_of_a_tag_are_records_of_their_own() -> None:
    tagged = "tables: {{orders: {{from: [shop.orders], tags: {{name: named}}{}}}}}"
    old, new = tagged.format(""), tagged.format(", tag_topics: [named]")
    # Neither of the two updates changed the name; a key change is three records, a delete two.
    assert tried(old, new, chunks(*ALL)).counts("orders") == {
        "old": 10, "new": 18, "equal": 10, "appears": 8,
    }  # fmt: skip
    assert tried(new, old, chunks(*ALL)).counts("orders")["vanishes"] == 8
    assert set(tried(new, new, chunks(*ALL)).counts("orders")) == {"old", "new", "equal"}


def test_another_format_is_another_value_and_omits_tombstones() -> None:
    entry = "tables: {{orders: {{from: [shop.orders]{}}}}}"
    old, new = entry.format(""), entry.format(", format: canal")
    found = tried(old, new, chunks(*ALL))
    assert found.counts("orders") == {"old": 10, "new": 8, "value": 8, "vanishes": 2}
    assert "old='\"debezium\"', new='\"canal\"'" in found.shown()
    assert tried(old, new, chunks(*ALL), compacted=True).counts("orders") == {
        "old": 10, "new": 10, "equal": 2, "value": 8,
    }  # fmt: skip
    assert set(tried(new, new, chunks(*ALL)).counts("orders")) == {"old", "new", "equal"}


def test_avro_keeps_tombstones_as_the_envelope_does() -> None:
    entry = "tables: {{orders: {{from: [shop.orders], format: {}}}}}"
    old, new = entry.format("debezium"), entry.format("avro")
    found = tried(old, new, chunks(*ALL))
    # A key change and a delete have a tombstone each, which differ in nothing that is compared.
    assert found.counts("orders") == {"old": 10, "new": 10, "equal": 2, "value": 8}


def test_numbers_that_follow_from_other_records_are_no_difference() -> None:
    new = "tables: {orders: {from: [shop.orders], operations: [delete]}}"
    mixed = [*rows(INSERT, ORDERS, A), *rows(INSERT, OTHER, B)]
    found = tried(None, new, chunks(mixed))
    assert found.counts("other") == {"old": 1, "new": 1, "equal": 1}
    assert found.counts("orders") == {"old": 1, "vanishes": 1}


def test_statements_are_counted_by_the_verbs_that_are_published() -> None:
    new = "tables: {orders: {from: [shop.orders], ddl: [drop]}}"
    old = "tables: {orders: {from: [shop.orders]}}"
    altered = [made.query("ALTER TABLE orders ADD COLUMN more int")]
    truncated = [made.query("TRUNCATE TABLE orders")]
    found = tried(old, new, chunks(altered, truncated))
    assert found.counts("") == {"old": 2, "vanishes": 2}
    # The record of the TRUNCATE on the row topic does not depend on the rule.
    assert found.counts("orders") == {"old": 1, "new": 1, "equal": 1}


@pytest.mark.parametrize("together", [False, True])
def test_a_rule_that_fits_no_more_refuses_the_rows_from_there_on(*, together: bool) -> None:
    """Also where the rows before are in the same chunk: those are published before the table is quarantined."""
    new = "tables: {orders: {from: [shop.orders], partition_by: [number]}}"
    found = tried("tables: {orders: {from: [shop.orders]}}", new, chunks(
        rows(INSERT, ORDERS, A, B), rows(INSERT, OTHER, A), _without_number(), rows(INSERT, ORDERS, C),
        rows(INSERT, OTHER, B), together=together,
    ))  # fmt: skip
    counts = found.counts("orders")
    assert counts["refused"] == 2
    assert (counts["old"], counts["new"]) == (4, 2)
    assert "vanishes" not in counts
    assert found.counts("other") == {"old": 2, "new": 2, "equal": 2}
    assert list(found.new.unreadable) == [("shop", "orders")]
    assert found.old.unreadable == {}


def test_rows_of_a_transaction_in_parts_keep_their_ids_when_a_table_is_quarantined_within_it() -> (
    None
):
    new = "tables: {orders: {from: [shop.orders], partition_by: [number]}}"
    others = [event for number in range(6) for event in rows(INSERT, OTHER, (number, 1, "x" * 90))]
    found = tried("tables: {orders: {from: [shop.orders]}}", new, chunks(
        [*others, *_without_number(), *others[:3]],
    ), max_bytes=1000)  # fmt: skip
    assert found.counts("other") == {"old": 7, "new": 7, "equal": 7}
    assert found.counts("orders") == {"old": 1, "refused": 1}


def _without_number() -> list[bytes]:
    """An update whose images have the columns id and name alone."""
    body = (1).to_bytes(6, "little") + b"\1\0" + b"\2\0" + b"\3" + b"\x05\x05"
    body += (b"\0" + (1).to_bytes(4, "little") + b"\1\0" + b"x") * 2
    return [*rows(INSERT, ORDERS, A)[:2], made.event(UPDATE, body)]


def test_a_table_that_both_refuse_is_no_difference() -> None:
    rule = "tables: {{orders: {{from: [shop.orders], topic: {}, row_filter: gone > 1}}}}"
    found = tried(rule.format("a"), rule.format("b"), chunks(rows(INSERT, ORDERS, A, B)))
    assert found.counts("orders") == {"both": 2}
    assert found.tally.totals().differ is False


def test_a_row_too_large_for_its_topic_is_refused_or_claimed_without_being_stored(
    tmp_path: Path,
) -> None:
    new = "tables: {orders: {from: [shop.orders], columns: [id, number]}}"
    large = (4, 4, "x" * 390)
    recorded = chunks(rows(INSERT, ORDERS, A, large))
    sizes = {"largest": 900, "max_batch_bytes": 900}
    found = tried(new, "tables: {orders: {from: [shop.orders]}}", recorded, **sizes)
    assert found.counts("orders") == {"old": 2, "new": 1, "value": 1, "refused": 1}
    assert "too large for its topic" in found.shown()
    recorded = chunks(rows(INSERT, ORDERS, A, large))
    found = tried(
        new, "tables: {orders: {from: [shop.orders]}}", recorded,
        oversize="claim_check", claims=str(tmp_path), **sizes,
    )  # fmt: skip
    assert found.counts("orders") == {"old": 2, "new": 2, "value": 2}
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_cannot_be_decoded_is_refused_as_a_dead_letter() -> None:
    bad = (5, 5, "\udcff\udcfe")
    hidden = "tables: {orders: {from: [shop.orders], columns: [id, number]}}"
    found = tried(hidden, None, chunks(rows(INSERT, ORDERS, A, bad, B)), undecodable_limit=5)
    assert found.counts("orders") == {"old": 3, "new": 2, "value": 2, "refused": 1}
    with pytest.raises(MalformedEvent):
        tried(None, None, chunks(rows(INSERT, ORDERS, bad)))


def test_a_table_that_the_mapping_in_force_does_not_place_is_named_and_the_others_are_compared() -> (
    None
):
    old = "tables: {a: {from: ['shop.order.*']}, b: {from: ['shop.orde.*']}}"
    both = [*rows(INSERT, ORDERS, A), *rows(INSERT, OTHER, B)]
    found = tried(old, "tables: {a: {from: ['shop.order.*']}}", chunks(both))
    assert {name: "same rank" in str(one) for name, one in found.old.unreadable.items()} == {
        ("shop", "orders"): True
    }
    assert found.counts("orders") == {"new": 1, "appears": 1}
    assert found.counts("other") == {"old": 1, "new": 1, "equal": 1}


def test_what_would_stop_the_destination_ends_the_trial_with_its_position() -> None:
    one = side(routes(None))
    (chunk,) = chunks([*rows(INSERT, ORDERS, A), made.event(99)])
    with pytest.raises(AqueductError) as raised:
        one.published(chunk)
    assert "coordinates" in raised.value.context


def test_a_statement_between_rows_is_followed_by_both() -> None:
    masked = "tables: {users: {from: [shop.users], column_actions: {name: {hmac: k}}}}"
    altered = [made.query("ALTER TABLE users ADD COLUMN more int DEFAULT 7")]
    found = tried(masked, masked, chunks(rows(INSERT, USERS, A), altered))
    assert found.counts("users") == {"old": 1, "new": 1, "equal": 1}
    assert found.counts("") == {"old": 1, "new": 1, "equal": 1}
