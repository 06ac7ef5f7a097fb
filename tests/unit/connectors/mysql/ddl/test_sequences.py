"""MariaDB's sequences are tables that are never published."""

import pytest

from connectors.mysql.ddl.definition import Server, TableChange
from connectors.mysql.ddl.resolve.options import is_sequence
from tables.history.impact.impact import impact
from tables.rules.routes.routes import Routes
from tests.unit.connectors.mysql.ddl.catalogs import Play

MARIADB = Server(version=(11, 8, 0), mariadb=True)
ALL = Routes(prefix="aq").of


def found(*statements: str, name: str = "s") -> bool:
    return is_sequence(Play(*statements, server=MARIADB).catalog[("d", name)])


@pytest.mark.parametrize(
    ("statements", "name"),
    [
        (["CREATE SEQUENCE s START 5"], "s"),
        (["CREATE SEQUENCE s AS int", "ALTER SEQUENCE s AS bigint"], "s"),
        (["CREATE SEQUENCE s", "RENAME TABLE s TO r"], "r"),
        (["CREATE SEQUENCE s", "ALTER TABLE s COMMENT 'x'"], "s"),
        (["CREATE SEQUENCE s", "CREATE TABLE l LIKE s"], "l"),
        (["CREATE TABLE s (a int) SEQUENCE=1"], "s"),
    ],
)
def test_they_are_distinguished_from_tables(statements: list[str], name: str) -> None:
    assert found(*statements, name=name)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE s (a int) COMMENT 'SEQUENCE=1'"],
        ["CREATE TABLE s (a int) SEQUENCE=0"],
        ["CREATE SEQUENCE s", "ALTER TABLE s SEQUENCE=0"],
        ["CREATE SEQUENCE s", "DROP SEQUENCE s", "CREATE TABLE s (a int)"],
    ],
)
def test_tables_are_not_taken_for_them(statements: list[str]) -> None:
    assert not found(*statements)


def test_a_statement_on_one_concerns_no_subscriber() -> None:
    play = Play(server=MARIADB)
    made = play.run("CREATE SEQUENCE s")
    assert [change.name for change in made if isinstance(change, TableChange)] == [("d", "s")]
    assert impact(made, ALL) == ()
    assert impact(play.run("CREATE TABLE t (a int)"), ALL) != ()
    assert impact(play.run("DROP SEQUENCE s"), ALL) == ()
