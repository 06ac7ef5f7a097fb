"""CREATE TABLE in its forms; tests/integration/ddl compares the same statements with servers."""

import pytest

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.definition import Server, Session
from tests.unit.connectors.mysql.ddl.catalogs import Play

MARIADB = Server(version=(11, 8, 3), mariadb=True)
ANY = "utf8mb4_0900_ai_ci"


@pytest.mark.parametrize(
    ("definition", "column"),
    [
        ("a INT", "a int"),
        ("a INT NOT NULL DEFAULT -1", "a int not null"),
        ("a INT NOT NULL NULL", "a int"),
        ("a SERIAL", "a bigint unsigned not null"),
        ("a INT SERIAL DEFAULT VALUE", "a int not null"),
        ("a INT PRIMARY KEY", "a int not null"),
        ("a INT KEY COMMENT 'x'", "a int not null"),
        ("a INT AUTO_INCREMENT UNIQUE", "a int not null"),
        ("a DOUBLE PRECISION", "a double"),
        (
            "a NATIONAL CHAR VARYING (5)",
            "a varchar(5) utf8mb3_general_ci",
        ),
        ("a LONG VARCHAR", f"a mediumtext {ANY}"),
        ("a CHAR BYTE", "a binary(1)"),
        ("a VARCHAR(5) CHARSET latin1 BINARY", "a varchar(5) latin1_bin"),
        ("a TEXT COLLATE latin1_german1_ci NOT NULL", "a text not null latin1_german1_ci"),
        ("a ENUM('x ','it''s',\"d\")", f"a enum('x','it''s','d') {ANY}"),
        ("a INT GENERATED ALWAYS AS (1 + (2)) STORED NOT NULL", "a int not null stored"),
        ("a INT AS (1) COMMENT ')'", "a int virtual"),
        ("a INT INVISIBLE", "a int invisible"),
        ("a POINT NOT NULL SRID 4326", "a point not null"),
        ("a INT CHECK (a > 0) NOT ENFORCED DEFAULT 5 COLUMN_FORMAT FIXED STORAGE DISK", "a int"),
        (
            "a INT CONSTRAINT c CHECK (a IN (1,2)) REFERENCES x (y) ON DELETE SET NULL ON UPDATE NO ACTION",
            "a int",
        ),
        ("a TIMESTAMP", "a timestamp"),
        ("a DATETIME(3) DEFAULT NOW(3) ON UPDATE CURRENT_TIMESTAMP(3)", "a datetime(3)"),
        ("`a``b c` VECTOR(3)", "a`b c vector(3)"),
    ],
)
def test_a_column_is_what_its_definition_says(definition: str, column: str) -> None:
    assert Play(f"CREATE TABLE t ({definition})").columns() == [column]


def test_timestamps_are_not_null_where_the_session_says_nothing_else() -> None:
    play = Play()
    session = Session(database="d", explicit_timestamps=False)
    play.run("CREATE TABLE t (a TIMESTAMP, b TIMESTAMP NULL, c DATETIME)", session)
    assert play.columns() == ["a timestamp not null", "b timestamp", "c datetime"]
    old = Play("CREATE TABLE t (a TIMESTAMP)", server=Server(version=(5, 7, 44)))
    assert old.columns() == ["a timestamp not null"]


def test_keys_without_names_get_the_servers() -> None:
    play = Play(
        "CREATE TABLE t (a INT UNIQUE, b INT, c TEXT, KEY (a), UNIQUE (b), CONSTRAINT s UNIQUE (a, b),"
        " PRIMARY KEY USING BTREE (b, a DESC), FULLTEXT (c), INDEX ((a + b)), KEY `PRIMARY_2` (c(3)))"
    )
    assert list(play.indexes().items()) == [
        ("PRIMARY", ("b", "a")),
        ("a", ("a",)),
        ("a_2", ("a",)),
        ("b", ("b",)),
        ("s", ("a", "b")),
        ("c", ("c",)),
        ("functional_index", ("",)),
        ("PRIMARY_2", ("c",)),
    ]


def test_a_key_of_a_columns_beginning_is_distinguished_from_one_of_all_of_it() -> None:
    play = Play(
        "CREATE TABLE t (a VARCHAR(9), b TEXT, UNIQUE x (a(8)), UNIQUE y (a(9)), UNIQUE z (b(9)))"
    )
    indexes = play.catalog["d", "t"].indexes
    assert {index.name: index.prefixed for index in indexes} == {"x": True, "y": False, "z": True}


def test_a_key_of_a_geometry_is_of_its_beginning_on_mariadb_only() -> None:
    sql = "CREATE TABLE t (p POINT NOT NULL, g GEOMETRY, UNIQUE x (p DESC), UNIQUE y (p(2)), UNIQUE z (g(2)))"
    mysql = Play(sql).catalog["d", "t"].indexes
    assert {index.name: index.prefixed for index in mysql} == {"x": False, "y": False, "z": True}
    play = Play(sql, server=MARIADB)
    play.run("ALTER TABLE t CHANGE p q POINT NOT NULL")
    assert [index.prefixed for index in play.catalog["d", "t"].indexes] == [True, True, True]


def test_a_foreign_key_makes_a_key_unless_there_is_one() -> None:
    play = Play(
        "CREATE TABLE t (a INT, b INT, c INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES x (y),"
        " FOREIGN KEY g (b) REFERENCES x (y), FOREIGN KEY (c) REFERENCES x (y), KEY k (c, a))"
    )
    assert play.indexes() == {"k": ("c", "a"), "f": ("a",), "g": ("b",)}
    play.run("ALTER TABLE t ADD KEY other (a, b)")
    assert "f" not in play.indexes()


def test_options_in_any_order_give_columns_their_character_set() -> None:
    play = Play(
        "CREATE TABLE t (a CHAR(1)) COMMENT 'x', DEFAULT CHARSET=latin1 ENGINE InnoDB COLLATE latin1_bin"
    )
    assert play.columns() == ["a char(1) latin1_bin"]
    assert play.catalog["d", "t"].options == "COMMENT='x' ENGINE=InnoDB"


def test_partitions_change_nothing() -> None:
    play = Play(
        "CREATE TABLE t (a INT) PARTITION BY RANGE (a) SUBPARTITION BY HASH (a) SUBPARTITIONS 2"
        " (PARTITION p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS THAN MAXVALUE)"
    )
    assert play.columns() == ["a int"]


@pytest.mark.parametrize("like", ["LIKE t", "(LIKE d.t)"])
def test_a_table_like_another_has_all_of_it(like: str) -> None:
    play = Play(
        "CREATE TABLE t (a INT GENERATED ALWAYS AS (1) STORED PRIMARY KEY, b INT INVISIBLE)"
    )
    play.run(f"CREATE TABLE u {like}")
    assert play.catalog["d", "u"] == play.catalog["d", "t"]


def test_mariadb_replaces_a_table_after_dropping_it() -> None:
    play = Play("CREATE TABLE t (a INT)", server=MARIADB)
    dropped, made = play.run("CREATE OR REPLACE TABLE t (b INT)")
    assert (dropped.new, made.old) == (None, None)
    assert play.names() == "b"


def test_mariadbs_columns_and_periods() -> None:
    play = Play(
        "CREATE TABLE t (a JSON NOT NULL, b INT AS (1) PERSISTENT, s DATE, e DATE, x TEXT COMPRESSED,"
        " rs TIMESTAMP(6) GENERATED ALWAYS AS ROW START, re TIMESTAMP(6) AS ROW END,"
        " PERIOD FOR SYSTEM_TIME (rs, re), PERIOD FOR p (s, e), UNIQUE (b, p WITHOUT OVERLAPS))"
        " WITH SYSTEM VERSIONING",
        server=MARIADB,
    )
    assert play.columns()[:4] == [
        "a longtext not null utf8mb4_bin",
        "b int(11) stored",
        "s date not null",
        "e date not null",
    ]
    assert play.columns()[5:] == [
        "rs timestamp(6) not null stored",
        "re timestamp(6) not null stored",
    ]
    assert play.indexes() == {"b": ("b", "e", "s")}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CREATE TABLE t (a INT, A INT)", "a column a already"),
        ("CREATE TABLE t (a NOTYPE)", "expected a type at character 19: NOTYPE"),
        ("CREATE TABLE t (a INT SPARKLING)", r"expected \) at character 23: SPARKLING"),
        ("CREATE TABLE t (a INT, KEY (b))", "a key names a column b that does not exist"),
        ("CREATE TABLE t (a INT, KEY k (a), UNIQUE k (a), UNIQUE k (a))", "a key k already"),
        ("CREATE TABLE t (a INT) CHARSET klingon", "klingon"),
        ("CREATE TABLE t (a INT) nonsense", "nothing more was expected"),
        ("CREATE TABLE t LIKE nothing", r"d\.nothing that it is created like is not known"),
        ("CREATE TABLE t (a INT", "at the statement's end"),
        (f"CREATE TABLE t (a VARCHAR({'9' * 5000}))", "digits"),
    ],
)
def test_what_is_not_understood_or_cannot_be_is_not_taken(sql: str, reason: str) -> None:
    play = Play()
    with pytest.raises(DdlUnresolved, match=reason) as caught:
        play.run(sql)
    assert caught.value.tables == (("d", "t"),)
    assert play.tables() == []
