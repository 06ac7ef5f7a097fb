"""Destination and numbers of records in all formats."""

from __future__ import annotations

import pytest

from connectors.kafka.reading import StoredRecord, format_of, source_of

HEADERS = (
    ("change_id", b"u:1#0"),
    ("format", b"canal"),
    ("destination", b"shop"),
    ("seq", b"7"),
    ("epoch", b"3"),
    ("gtid", b"u:1"),
)
NUMBERS = {"name": "shop", "seq": 7, "epoch": 3, "gtid": "u:1"}


def test_they_are_in_an_envelope_s_source_and_in_another_format_s_headers() -> None:
    envelope = StoredRecord(b"k", b'{"source":{"name":"shop","seq":7,"epoch":3,"gtid":"u:1"}}', 0)
    foreign = StoredRecord(b"k", b'{"source":{"name":"x"},"data":[]}', 0, HEADERS)
    assert (format_of(envelope), source_of(envelope)) == (None, NUMBERS)
    assert (format_of(foreign), source_of(foreign)) == ("canal", NUMBERS)


def test_a_tombstone_and_a_value_without_a_source_have_none() -> None:
    assert source_of(StoredRecord(b"k", b"", 0, HEADERS)) == {}
    assert source_of(StoredRecord(b"k", b'{"source":7}', 0)) == {}


def test_a_record_in_another_format_without_its_numbers_is_refused() -> None:
    with pytest.raises(KeyError):
        source_of(StoredRecord(b"k", b"{}", 0, HEADERS[:3]))


@pytest.mark.parametrize(
    "value", [b"test", b"\x00\x00\x00\x00\x05x", b"[1]", b"5", b'"x"', b"null"]
)
def test_what_is_no_json_object_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        source_of(StoredRecord(b"k", value, 0))
