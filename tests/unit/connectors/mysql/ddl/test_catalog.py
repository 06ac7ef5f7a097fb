"""The effects of statements on tables, databases and names."""

import pytest

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.definition import (
    Database,
    DatabaseChange,
    Server,
    Session,
    Table,
    TableChange,
)
from tests.unit.connectors.mysql.ddl.catalogs import Play


def test_a_table_is_made_altered_renamed_and_dropped() -> None:
    play = Play("CREATE TABLE t (id INT PRIMARY KEY)")

    (altered,) = play.run("ALTER TABLE t ADD c TEXT")
    assert isinstance(altered, TableChange)
    assert altered.old is not None
    assert altered.new is not None
    assert altered.old.columns[0] is altered.new.columns[0]

    gone, come = play.run("RENAME TABLE t TO u")
    assert gone == TableChange(name=("d", "t"), old=altered.new, new=None, renamed_to=("d", "u"))
    assert come == TableChange(name=("d", "u"), old=None, new=altered.new, renamed_from=("d", "t"))
    assert play.run("DROP TABLE u") == (TableChange(name=("d", "u"), old=altered.new, new=None),)
    assert play.tables() == []


def test_tables_swap_their_names_across_databases() -> None:
    play = Play("CREATE DATABASE e", "CREATE TABLE t (a INT)", "CREATE TABLE e.t (b INT)")
    play.run("RENAME TABLE t TO tmp, e.t TO d.t, d.tmp TO e.t")
    assert play.tables() == ["d.t", "e.t"]
    assert play.names("d.t") == "b"
    assert play.names("e.t") == "a"


def test_a_rename_that_fails_midway_changes_nothing() -> None:
    play = Play("CREATE TABLE t (a INT)")
    with pytest.raises(DdlUnresolved, match=r"d\.x is not known") as caught:
        play.run("RENAME TABLE t TO u, x TO y")
    assert set(caught.value.tables) == {("d", name) for name in "tuxy"}
    assert play.tables() == ["d.t"]


def test_a_dropped_database_takes_its_tables_with_it() -> None:
    play = Play("CREATE TABLE t (a INT)", "CREATE TABLE s (a INT)", "CREATE DATABASE e")
    changes = play.run("DROP DATABASE d")
    assert [change.name for change in changes] == [("d", "s"), ("d", "t"), "d"]
    assert list(play.catalog.databases) == ["e"]


def test_a_database_gives_its_collation_to_tables_made_later() -> None:
    play = Play("CREATE TABLE t (a VARCHAR(9))")
    (change,) = play.run("ALTER DATABASE CHARACTER SET latin1")
    assert isinstance(change, DatabaseChange)
    assert change.new == Database(charset="latin1", collation="latin1_swedish_ci")
    play.run("CREATE TABLE s (a VARCHAR(9))")
    assert play.columns("t") == ["a varchar(9) utf8mb4_0900_ai_ci"]
    assert play.columns("s") == ["a varchar(9) latin1_swedish_ci"]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE IF NOT EXISTS t (b INT)",
        "CREATE DATABASE IF NOT EXISTS d CHARACTER SET latin1",
        "DROP TABLE IF EXISTS x",
        "DROP DATABASE IF EXISTS x",
        "TRUNCATE t",
        "ALTER TABLE t ENGINE=InnoDB",
        "ALTER TABLE t FORCE, ALGORITHM=INPLACE, LOCK=NONE",
    ],
)
def test_what_does_nothing_gives_no_change(sql: str) -> None:
    play = Play("CREATE TABLE t (a INT) ENGINE=InnoDB")
    assert play.run(sql) == ()


def test_names_are_compared_without_case_where_the_server_does() -> None:
    server = Server(version=(9, 7, 4), lower_case_table_names=1)
    play = Play("CREATE TABLE Tab (a INT)", server=server)
    play.run("ALTER TABLE D.tAB ADD b INT")
    assert play.tables() == ["d.tab"]
    assert ("D", "TAB") in play.catalog
    made, altered = play.run("CREATE DATABASE Ee") + play.run("ALTER DATABASE EE CHARSET latin1")
    assert made.name == altered.name == "ee"


def test_names_keep_their_case_where_the_server_only_compares_without_it() -> None:
    server = Server(version=(9, 7, 4), lower_case_table_names=2)
    play = Play("CREATE TABLE Tab (a INT)", server=server)
    (change,) = play.run("ALTER TABLE D.tAB ADD b INT")
    assert change.name == ("d", "Tab")
    assert play.tables() == ["d.Tab"]
    gone, come = play.run("RENAME TABLE tab TO TAB")
    assert (gone.name, come.name) == (("d", "Tab"), ("d", "TAB"))
    assert play.tables() == ["d.TAB"]


def test_a_temporary_table_stands_before_the_real_one_for_its_own_connection() -> None:
    play = Play("CREATE TABLE t (a INT)")
    mine, other = Session(database="d", thread=1), Session(database="d", thread=2)
    assert play.run("CREATE TEMPORARY TABLE t (x INT, y INT)", mine) == ()
    assert play.run("ALTER TABLE t DROP x", mine) == ()
    play.run("ALTER TABLE t ADD b INT", other)
    play.run("CREATE TABLE s LIKE t", mine)
    assert play.names("t") == "a b"
    assert play.names("s") == "y"
    assert play.run("DROP TABLE t", mine) == ()
    assert play.run("DROP TABLE t", mine) != ()


def test_a_binlogs_create_replaces_what_was_thought_to_be_there() -> None:
    play = Play("CREATE TABLE t (a INT)")
    (change,) = play.run("CREATE TABLE t (b INT)")
    assert isinstance(change, TableChange)
    assert change.old is None
    assert play.names() == "b"


def test_a_server_refuses_to_make_a_table_that_is_there_or_to_drop_one_that_is_not() -> None:
    play = Play("CREATE TABLE t (a INT)", logged=False)
    with pytest.raises(DdlUnresolved, match="a table t already"):
        play.run("CREATE TABLE t (b INT)")
    with pytest.raises(DdlUnresolved, match=r"d\.x is not known"):
        play.run("DROP TABLE t, x")
    assert play.tables() == ["d.t"]


def test_a_table_that_is_not_known_cannot_be_altered() -> None:
    with pytest.raises(DdlUnresolved, match=r"d\.x is not known") as caught:
        Play().run("ALTER TABLE x ADD c INT")
    assert caught.value.tables == (("d", "x"),)


def test_a_view_is_renamed_silently() -> None:
    play = Play(
        "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW v AS SELECT 1"
    )
    assert play.run("RENAME TABLE v TO w") == ()
    assert play.run("RENAME TABLE w TO x") == ()


def test_a_copy_goes_its_own_way() -> None:
    play = Play("CREATE TABLE t (a INT)")
    copy = play.catalog.copy()
    play.run("DROP TABLE t")
    assert isinstance(copy["d", "t"], Table)
    assert len(copy) == 1


@pytest.mark.parametrize(
    "query", ["AS SELECT * FROM t", "(b INT) SELECT a FROM t", "AS (SELECT 1)", "AS TABLE t"]
)
def test_the_columns_of_a_query_are_refused_by_name(query: str) -> None:
    play = Play("CREATE TABLE t (a INT)")
    with pytest.raises(DdlUnresolved, match="those of a query") as refused:
        play.run(f"CREATE TABLE u {query}")
    assert refused.value.tables == (("d", "u"),)
    assert play.tables() == ["d.t"]
    # Rows of temporary tables are not captured.
    assert play.run(f"CREATE TEMPORARY TABLE u {query}") == ()


def test_more_keys_than_any_server_takes_are_not_resolved() -> None:
    play = Play()
    with pytest.raises(DdlUnresolved):
        play.run("CREATE TABLE t (a INT, " + ", ".join(["KEY (a)"] * 5_000) + ")")


def test_of_several_new_names_in_one_statement_the_last_counts() -> None:
    play = Play("CREATE DATABASE e", "CREATE TABLE t (a INT)")
    play.run("ALTER TABLE t RENAME u, ADD b INT, RENAME TO e.v")
    assert play.tables() == ["e.v"]
    assert play.names("e.v") == "a b"
