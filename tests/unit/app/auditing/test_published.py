"""Which topics belong to an installation, and what the journal tells of a destination."""

from __future__ import annotations

import orjson

from app.auditing.published import Described, RecordedTopics, journal, row_topics
from connectors.kafka.reading import StoredRecord


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


def test_the_journal_tells_only_of_the_destination() -> None:
    cursor: dict[str, object] = {
        "epoch": 1,
        "seq": 5,
        "server_uuid": "u",
        "file": "b.1",
        "pos": 4,
        "gtid_set": None,
        "resume": None,
    }
    aside: dict[str, object] = {"database": "shop", "table": "t", "outcome": "released"}
    told: dict[bytes, list[dict[str, object]]] = {
        b"cursor/shop": [cursor, {**cursor, "seq": 6}],
        b"cursor/shop2": [{**cursor, "seq": 99}],
        b"quarantine/shop/shop/t": [{**aside, "outcome": "waiting"}, aside],
        b"quarantine/shop2/shop/u": [aside],
    }
    records = [
        StoredRecord(key, orjson.dumps(value), 0)
        for key, values in told.items()
        for value in values
    ]
    topics = RecordedTopics({"aq.__journal": 1}, {("aq.__journal", 0): records})
    found = journal(topics, "aq", "shop", partitions=1)
    assert [one.seq for one in found.cursors] == [5, 6]
    assert found.aside == {("shop", "t"): False}
