"""A table's keys, out of rows of information_schema as each make of server gives them."""

from __future__ import annotations

from connectors.mysql.ddl.definition import Column, Index, Server
from connectors.mysql.schema.information_schema import KeyRow as Row
from connectors.mysql.schema.information_schema import key_rows

NEW, MARIADB = Server(version=(8, 4, 0)), Server(version=(11, 8, 6), mariadb=True)
TYPES = {
    "id": "int",
    "name": "varchar(40)",
    "text": "mediumtext",
    "place": "point",
    "v": "vector(3)",
}
COLUMNS = [Column(name=name, type=kind, nullable=True) for name, kind in TYPES.items()]


def part(position: int, column: str | None, *, unique: bool = False, length: int | None = None,
         order: str | None = None, kind: str | None = None, expression: str | None = None) -> Row:  # fmt: skip
    return (position, int(not unique), column, length, order, kind, expression)


def one(server: Server, *rows: Row) -> Index:
    (found,) = key_rows({"k": rows}, COLUMNS, server)
    return found


def test_the_primary_key_is_first_and_then_unique_ones() -> None:
    values = {
        "b": [part(1, "name")],
        "a": [part(1, "name")],
        "z": [part(1, "name", unique=True)],
        "PRIMARY": [part(2, "name", unique=True), part(1, "id", unique=True)],
    }
    found = key_rows(values, COLUMNS, NEW)
    assert [index.name for index in found] == ["PRIMARY", "z", "a", "b"]
    assert found[0].columns == ("id", "name")


def test_lengths_orders_and_expressions_are_kept() -> None:
    found = one(
        NEW,
        part(1, "name", length=3, order="D", kind="BTREE"),
        part(2, None, order="A", kind="BTREE", expression=r"lower(_utf8mb4\'X\')"),
        part(3, "id", order="A", kind="BTREE"),
    )
    assert found.columns == ("name", "", "id")
    assert found.parts == ("(3) DESC", "(lower(_utf8mb4'X'))", "")
    assert found.prefixed
    assert not found.kind


def test_a_spatial_key_has_no_length() -> None:
    found = one(NEW, part(1, "place", length=32, order="A", kind="SPATIAL"))
    assert (found.kind, found.parts, found.prefixed) == ("SPATIAL", (), False)


def test_a_length_that_is_all_of_a_point_is_none_on_mysql() -> None:
    old = Server(version=(5, 7, 44))
    mysql = one(old, part(1, "place", unique=True, length=25, kind="BTREE"))
    mariadb = one(MARIADB, part(1, "place", unique=True, length=25, kind="BTREE"))
    assert (mysql.prefixed, mysql.parts) == (False, ())
    assert (mariadb.prefixed, mariadb.parts) == (True, ("(25)",))


def test_a_server_that_sends_no_kind_has_it_derived_from_the_columns() -> None:
    assert one(MARIADB, part(1, "place", length=32)).kind == "SPATIAL"
    assert one(MARIADB, part(1, "name"), part(2, "text")).kind == "FULLTEXT"
    assert one(MARIADB, part(1, "v")).kind == "VECTOR"
    assert one(MARIADB, part(1, "text", length=9)).kind == ""
    assert one(MARIADB, part(1, "text", unique=True)).kind == ""
    assert one(MARIADB, part(1, "name")).kind == ""
