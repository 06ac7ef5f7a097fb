"""Which records of a topic are a destination's own."""

from __future__ import annotations

import orjson
import pytest

from app.worker.destination.takeover.published_check import Published
from connectors.kafka.reading import StoredRecord
from tests.unit.tables.state.journal.made import version

OWN = Published(destination="shop", prefix="aq", options={})


@pytest.mark.parametrize(
    "value",
    [
        b"test", b"\x00\x00\x00\x00\x05x", b"[1]", b"5", b"", b"{}",
        b'{"op":"c","source":{"name":"shop","db":"d"}}',
        b'{"op":"c","source":{"name":"shop","epoch":"1","seq":"2"}}',
        b'{"op":"c","source":{"name":"other","epoch":1,"seq":2}}',
    ],
)  # fmt: skip
def test_a_record_of_another_program_or_destination_is_not_its_own(value: bytes) -> None:
    assert not OWN._has_row(StoredRecord(b"k", value, 7))


def test_a_record_in_any_format_is_its_own() -> None:
    envelope = b'{"op":"c","source":{"name":"shop","epoch":1,"seq":2}}'
    assert OWN._has_row(StoredRecord(b"k", envelope, 7))
    headers = (("format", b"canal"), ("destination", b"shop"), ("seq", b"2"), ("epoch", b"1"))
    assert OWN._has_row(StoredRecord(b"k", b"{}", 7, (*headers, ("change_id", b"u:1#0"))))


@pytest.mark.parametrize("key", [b"", b"k", b"5", b"[]", b"{}", b'{"destination":"other"}'])
def test_a_version_of_another_program_or_destination_is_not_its_own(key: bytes) -> None:
    value = orjson.dumps(version(3).to_json())
    assert OWN._version(StoredRecord(key, value, 7)) is None


@pytest.mark.parametrize("value", [b"", b"x", b"{}", b"[1]", b"5"])
def test_a_record_with_its_key_that_has_no_version_is_not_its_own(value: bytes) -> None:
    assert OWN._version(StoredRecord(b'{"destination":"shop"}', value, 7)) is None


def test_a_version_of_its_own_is_known_by_its_key() -> None:
    one = version(3)
    record = StoredRecord(b'{"destination":"shop"}', orjson.dumps(one.to_json()), 7)
    assert OWN._version(record) == one
