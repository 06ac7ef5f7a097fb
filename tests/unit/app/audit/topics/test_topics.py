"""The topics of an installation, and the journal's records of a destination."""

from __future__ import annotations

from dataclasses import replace

import orjson

from app.audit.topics.topics import Journal, Quarantined, journal, row_topics
from connectors.kafka.reading import StoredRecord
from tables.history.present_columns import Described
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.stored_version import StoredVersion
from tables.state.mapping_in_force import copy_of
from tables.state.quarantine import Outcome
from tests.harness.recorded_topics import RecordedTopics


def test_topics_of_another_installation_are_not_taken_for_rows() -> None:
    names = [
        "aq.shop.t",
        "aq.__schemas",
        "aq.b.__journal",
        "aq.b.shop.t",
        "aq.b.__w-cursors-changelog",
        "other.x.y",
    ]
    assert row_topics("aq", names, {}) == ["aq.shop.t"]
    version = Described(columns=(), types=(), charsets=(), primary_key=(), topic="aq.b.__journal")
    assert row_topics("aq", names, {("b", "__journal", 1): version}) == [
        "aq.b.__journal",
        "aq.shop.t",
    ]


def test_the_journal_covers_only_the_destination() -> None:
    cursor: dict[str, object] = {
        "epoch": 1,
        "seq": 5,
        "server_uuid": "u",
        "file": "b.1",
        "pos": 4,
        "gtid_set": None,
        "resume": None,
    }
    aside: dict[str, object] = {
        "database": "shop",
        "table": "t",
        "outcome": "released",
        "offset": 4,
    }
    result: dict[bytes, list[dict[str, object]]] = {
        b"cursor/shop": [cursor, {**cursor, "seq": 6}],
        b"cursor/shop2": [{**cursor, "seq": 99}],
        b"quarantine/shop/shop/t": [{**aside, "outcome": "waiting"}, aside],
        b"quarantine/shop2/shop/u": [aside],
    }
    records = [
        StoredRecord(key, orjson.dumps(value), 0)
        for key, values in result.items()
        for value in values
    ]
    mapping = StoredVersion.of(Mapping(), number=3, by="ann", why="w", ts_ms=0)
    for destination, number in (("shop", 3), ("shop2", 4)):
        copies = copy_of(destination, replace(mapping, number=number))
        records += [StoredRecord(key, value, 0) for key, value in copies]
    topics = RecordedTopics({"aq.__journal": 1}, {("aq.__journal", 0): records})
    found = journal(topics, "aq", "shop", partitions=1)
    assert [one.seq for one in found.cursors] == [5, 6]
    assert found.quarantined == {("shop", "t"): Quarantined(Outcome.RELEASED, 4, 0)}
    assert found.mappings.copy == mapping


def test_of_many_cursors_few_are_kept_and_each_that_goes_back_is_reported() -> None:
    found = Journal("shop")
    values = [(1, 1), (1, 2), (1, 3), (2, 3), (2, 9), (2, 8), (2, 10), (2, 11), (1, 12), (3, 12)]
    for offset, (epoch, seq) in enumerate(values):
        value = {
            "epoch": epoch,
            "seq": seq,
            "server_uuid": "u",
            "file": "b.1",
            "pos": 4,
            "gtid_set": None,
            "resume": None,
        }
        found.take("", 0, StoredRecord(b"cursor/shop", orjson.dumps(value), offset))
    kept = [(one.epoch, one.seq) for one in found.cursors]
    assert (kept[0], kept[-1]) == ((1, 1), (3, 12))
    assert len(kept) < len(values)
    back = [(one.seq, other.seq, other.offset) for one, other in found.regressions]
    assert back == [(9, 8, 5), (11, 12, 8)]
