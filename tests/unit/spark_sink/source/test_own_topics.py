"""Records of other programs in the schemas topic: what is passed by, and what may be a table version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_sink.source.own_topics import ForeignRecord, RawRecord, is_open, versions_in
from tests.unit.spark_sink.history import schema

TOPIC = "aq.__schemas"
OWN = schema(("id", "int"), topic="aq.shop.t")
KEY = '{"destination":"shop","database":"shop","table":"t","version":1}'
NAMED: dict[str, Any] = json.loads(KEY)


def read(*records: tuple[str | None, str | None]) -> tuple[list[str], list[ForeignRecord]]:
    """The values and the foreign records among keys and values."""
    return versions_in(
        RawRecord(topic=TOPIC, partition=0, offset=number, key=key, value=value)
        for number, (key, value) in enumerate(records)
    )


@pytest.mark.parametrize("key", [None, "", "{", "7", "[]", "{}", '{"destination":"shop"}', "x"])
@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "\ufffd\ufffd",
        "null",
        "7",
        "[]",
        "{}",
        '"shop"',
        "[" * 100_000,
        '{"destination": "shop", "database": "shop"}',
        json.dumps(NAMED | {"database": ["shop"]}),
        json.dumps(NAMED | {"version": "1"}),
        # Another program may name what it likes; a worker's record has columns and the contract's number.
        json.dumps(NAMED),
        json.dumps(NAMED | {"columns": []}),
        json.dumps(NAMED | {"columns": 7, "wire": 1}),
    ],
)
def test_a_record_that_names_no_version_is_passed_by_and_reported(
    key: str | None, value: str
) -> None:
    values, (foreign,) = read((KEY, OWN), (key, value))
    assert values == [OWN]
    assert (foreign.topic, foreign.partition, foreign.offset) == (TOPIC, 0, 1)
    assert foreign.reason.startswith("no table version: ")
    assert len(foreign.reason) < 200


@pytest.mark.parametrize("key", [KEY, "x", None])
def test_a_tombstone_is_no_record_of_another_program(key: str | None) -> None:
    assert read((KEY, OWN), (key, None)) == ([OWN], [])


@pytest.mark.parametrize("value", ["", "{", "[]", "{}", KEY, OWN.replace('"t"', '"other"')])
def test_a_damaged_record_stays_as_the_name_of_the_version_that_its_key_has(value: str) -> None:
    (left,), (foreign,) = read((KEY, value))
    assert json.loads(left) == NAMED
    assert foreign.reason.startswith("shop.t version 1 of shop cannot be read: ")


def test_a_version_that_another_record_has_is_not_lost_by_a_damaged_one() -> None:
    values, foreign = read((KEY, "{"), (KEY, OWN), (KEY, "}"))
    assert values == [OWN]
    assert [one.offset for one in foreign] == [0, 2]
    assert all("shop.t version 1 of shop cannot be read" in one.reason for one in foreign)


def test_a_record_without_a_key_that_states_a_version_is_one() -> None:
    assert read((None, OWN)) == ([OWN], [])


def test_a_version_of_a_later_contract_is_kept_whatever_else_it_has() -> None:
    later = json.dumps(NAMED | {"wire": 2})
    assert read((KEY, later)) == ([later], [])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"status": "BEGIN", "wire": 1}, False),
        ({"status": "END", "wire": 1, "last": True}, False),
        ({"status": "END", "wire": 1, "last": False}, True),
        # What a marker does not state as its contract has it proves nothing.
        ({"status": "END", "wire": 1, "last": "true"}, True),
        ({"status": "END", "wire": 1, "last": None}, True),
        ({"status": "END", "wire": 2, "last": True}, True),
        ({"status": "END", "last": True}, True),
        ({}, True),
        ([], True),
    ],
)
def test_a_transaction_is_open_after_a_marker_unless_that_states_its_end(
    body: object, *, expected: bool
) -> None:
    assert is_open(json.dumps(body)) is expected
    assert is_open("{")
