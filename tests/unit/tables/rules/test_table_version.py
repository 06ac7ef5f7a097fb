"""A version of a table's columns, with the column types that servers print."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.mysql.position import Coordinates
from tables.rules.table_version import TableVersion
from wire.table_version import Column, Definition


def defined(column_type: str | None, kind: str = "int") -> Definition:
    column = Column(name="a", type=kind, nullable=True, charset=None, column_type=column_type)
    return Definition(columns=(column,), primary_key=())


VERSION = TableVersion(
    destination="shop",
    database="shop",
    table="t",
    version=3,
    topic="aq.shop.t",
    definition=defined("int(11)"),
    gtid=None,
    coordinates=Coordinates("binlog.000001", 4),
    ts_ms=1,
)


def test_a_version_is_read_as_it_was_written() -> None:
    assert TableVersion.from_json(VERSION.to_json()) == VERSION


def test_a_record_of_an_older_version_has_no_column_types_and_is_the_same_version() -> None:
    value = VERSION.to_json()
    for column in value["columns"]:
        del column["column_type"]
    old = TableVersion.from_json(value)
    assert old.definition == defined(None)
    assert old.definition.is_same(VERSION.definition)
    assert VERSION.definition.is_same(old.definition)
    assert not replace(old, definition=defined(None, "bigint")).definition.is_same(
        VERSION.definition
    )


def identified(id_: str | None, initial: dict[str, object] | None = None) -> Definition:
    (column,) = defined("int").columns
    return Definition(columns=(replace(column, id=id_, initial=initial),), primary_key=())


def test_a_column_is_published_with_what_identifies_it_and_its_first_value() -> None:
    initial: dict[str, object] = {"value": None}
    value = replace(VERSION, definition=identified("a@gtid:5", initial)).to_json()
    (column,) = value["columns"]
    assert (column["id"], column["initial"]) == ("a@gtid:5", initial)
    assert TableVersion.from_json(value).to_json() == value
    assert not {"id", "initial"} & VERSION.to_json()["columns"][0].keys()


def test_comments_are_published_and_a_changed_one_is_another_version() -> None:
    (column,) = defined("int").columns
    commented = Definition(
        columns=(replace(column, comment="a's"),), primary_key=(), comment="the table"
    )
    value = replace(VERSION, definition=commented).to_json()
    assert (value["comment"], value["columns"][0]["comment"]) == ("the table", "a's")
    assert TableVersion.from_json(value).definition == commented
    assert not defined("int").is_same(commented)
    assert not commented.is_same(replace(commented, comment="another"))
    assert "comment" not in {**VERSION.to_json(), **VERSION.to_json()["columns"][0]}


def test_another_column_under_the_same_name_is_another_version() -> None:
    old = identified(None)
    assert not old.is_same(identified("a@gtid:5"))
    assert not identified("a@gtid:4").is_same(identified("a@gtid:5"))
    assert identified("a@gtid:5").is_same(identified("a@gtid:5", {"value": 1}))
    # A history that begins again no longer knows it.
    assert identified("a@gtid:5").is_same(old)


def test_a_record_with_more_fields_than_are_known_is_read() -> None:
    value = VERSION.to_json()
    value["columns"][0]["later"] = 1
    assert TableVersion.from_json(value) == VERSION


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("int(11)", "int", True),
        ("bigint(20) unsigned", "bigint unsigned", True),
        ("year(4)", "year", True),
        ("int(5)", "int", False),
        ("tinyint(1)", "tinyint(4)", False),
        ("int(10) unsigned zerofill", "int unsigned", False),
        ("float(7,3)", "float", False),
        ("enum('a\\\\\\\\b')", "enum('a\\\\b')", False),
    ],
)
def test_a_width_that_the_server_chose_makes_no_version_and_any_other_does(
    one: str, other: str, same: bool
) -> None:
    assert defined(one).is_same(defined(other)) is same
    assert defined(other).is_same(defined(one)) is same
