"""ALTER TABLE: the order of its effects, and the effect on keys."""

import pytest

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.definition import Server, Session
from tests.unit.connectors.mysql.ddl.catalogs import Play

MARIADB = Server(version=(10, 11, 8), mariadb=True)


@pytest.mark.parametrize(
    ("actions", "names"),
    [
        ("ADD x INT", "a b c x"),
        ("ADD COLUMN x INT FIRST, ADD y INT AFTER x", "x y a b c"),
        ("ADD (x INT, y INT), ADD z INT AFTER a", "a z b c x y"),
        ("DROP a, DROP COLUMN c", "b"),
        ("CHANGE a x INT, ADD y INT AFTER x", "x y b c"),
        ("MODIFY c INT FIRST", "c a b"),
        ("MODIFY a INT AFTER b, MODIFY b INT AFTER c", "a c b"),
        ("MODIFY a INT AFTER c, ADD x INT AFTER a", "b c a x"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "b a c"),
        ("CHANGE a b INT, CHANGE b c INT, CHANGE c a INT", "b c a"),
        ("DROP a, RENAME COLUMN b TO a", "a c"),
        ("DROP a, ADD a TEXT", "b c a"),
        ("ADD x INT, ADD y INT FIRST, DROP b", "y a c x"),
        ("ENGINE=InnoDB ROW_FORMAT=DYNAMIC, ADD x INT, ALGORITHM=INPLACE, LOCK NONE", "a b c x"),
        ("ORDER BY b, c DESC, ADD x INT", "a b c x"),
        ("ADD x INT PARTITION BY HASH (x) PARTITIONS 4", "a b c x"),
        ("DROP b REMOVE PARTITIONING", "a c"),
    ],
)
def test_columns_come_go_and_move_in_the_servers_order(actions: str, names: str) -> None:
    play = Play("CREATE TABLE t (a INT, b INT, c INT)", f"ALTER TABLE t {actions}")
    assert play.names() == names


@pytest.mark.parametrize(
    "actions",
    [
        "FORCE",
        "DISABLE KEYS",
        "ENABLE KEYS",
        "ADD CONSTRAINT c CHECK (a > 0), ALTER CHECK c NOT ENFORCED, DROP CHECK c",
        "DROP FOREIGN KEY f, DROP CONSTRAINT g",
        "ALTER INDEX k INVISIBLE",
        "ADD PARTITION (PARTITION p VALUES LESS THAN (3))",
        "DROP PARTITION p, q",
        "REORGANIZE PARTITION p INTO (PARTITION q VALUES IN (1), PARTITION r VALUES IN (2))",
        "EXCHANGE PARTITION p WITH TABLE e.u WITHOUT VALIDATION",
        "COALESCE PARTITION 2",
        "TRUNCATE PARTITION ALL",
        "DISCARD TABLESPACE",
        "IMPORT PARTITION p TABLESPACE",
        "SECONDARY_LOAD",
        "WITH VALIDATION, ALGORITHM DEFAULT",
        "UPGRADE PARTITIONING",
        "AUTO_INCREMENT = 7 STATS_PERSISTENT 1, UNION (x, y) TABLESPACE ts STORAGE DISK",
    ],
)
def test_what_is_not_about_columns_changes_none(actions: str) -> None:
    play = Play("CREATE TABLE t (a INT, KEY k (a))")
    assert play.run(f"ALTER TABLE t {actions}") == ()


def test_a_columns_definition_is_replaced_whole() -> None:
    play = Play(
        "CREATE TABLE t (a VARCHAR(9) CHARACTER SET latin1 NOT NULL DEFAULT 'x' COMMENT 'y' INVISIBLE)",
        "ALTER TABLE t MODIFY a VARCHAR(8)",
    )
    assert play.columns() == ["a varchar(8) utf8mb4_0900_ai_ci"]
    assert play.catalog["d", "t"].columns[0].definition == ""


def test_a_default_and_a_visibility_are_changed_alone() -> None:
    play = Play("CREATE TABLE t (a INT NOT NULL DEFAULT 1 COMMENT 'x', b INT)")
    play.run("ALTER TABLE t ALTER a SET DEFAULT (2 + 3), ALTER COLUMN b SET INVISIBLE")
    a, b = play.catalog["d", "t"].columns
    assert (a.definition, b.invisible) == ("DEFAULT (2 + 3) COMMENT 'x'", True)
    play.run("ALTER TABLE t ALTER a DROP DEFAULT, ALTER b SET VISIBLE")
    a, b = play.catalog["d", "t"].columns
    assert (a.definition, b.invisible) == ("COMMENT 'x'", False)


def test_keys_follow_their_columns() -> None:
    play = Play(
        "CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a, b), KEY k (c), UNIQUE u (b, c))"
    )
    play.run("ALTER TABLE t CHANGE a x INT, RENAME COLUMN c TO y, DROP b")
    assert play.indexes() == {"PRIMARY": ("x",), "k": ("y",), "u": ("y",)}
    play.run("ALTER TABLE t DROP x, RENAME KEY k TO l, DROP INDEX u")
    assert play.indexes() == {"l": ("y",)}
    assert play.catalog["d", "t"].primary_key == ()


def test_a_column_that_takes_a_dropped_ones_name_takes_its_keys() -> None:
    play = Play("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    play.run("ALTER TABLE t DROP id, ADD id BIGINT")
    assert play.columns() == ["a int", "id bigint not null"]
    assert play.catalog["d", "t"].primary_key == ("id",)


def test_the_primary_keys_columns_become_and_stay_not_null() -> None:
    play = Play("CREATE TABLE t (a INT DEFAULT NULL, b INT)", "ALTER TABLE t ADD PRIMARY KEY (a)")
    assert play.columns() == ["a int not null", "b int"]
    assert play.catalog["d", "t"].columns[0].definition == ""
    play.run("ALTER TABLE t MODIFY a BIGINT")
    assert play.columns() == ["a bigint not null", "b int"]
    play.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)")
    assert play.columns() == ["a bigint not null", "b int not null"]


def test_a_keys_length_goes_where_the_new_type_has_none() -> None:
    play = Play("CREATE TABLE t (a VARCHAR(20), UNIQUE u (a(10)))")
    play.run("ALTER TABLE t MODIFY a VARCHAR(10)")
    (index,) = play.catalog["d", "t"].indexes
    assert (index.prefixed, index.parts) == (False, ())


def test_indexes_made_and_dropped_by_their_own_statements_are_the_same() -> None:
    play = Play("CREATE TABLE t (a INT, b INT)")
    play.run(
        "CREATE UNIQUE INDEX u USING BTREE ON t (b, a DESC) COMMENT 'x' ALGORITHM=INPLACE LOCK=NONE"
    )
    (index,) = play.catalog["d", "t"].indexes
    assert (index.name, index.columns, index.unique) == ("u", ("b", "a"), True)
    play.run("DROP INDEX u ON d.t LOCK DEFAULT")
    assert play.indexes() == {}


def test_a_constraint_that_is_a_key_is_dropped_as_one() -> None:
    play = Play(
        "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a), CONSTRAINT u UNIQUE (b), KEY k (a, b))"
    )
    play.run("ALTER TABLE t DROP CONSTRAINT u, DROP CONSTRAINT k, DROP CONSTRAINT `PRIMARY`")
    assert play.indexes() == {"k": ("a", "b")}


def test_a_new_character_set_is_for_new_columns() -> None:
    play = Play("CREATE TABLE t (a TEXT) CHARSET latin1")
    play.run(
        "ALTER TABLE t ADD b TEXT, DEFAULT CHARACTER SET utf8mb4, ADD c TEXT CHARACTER SET latin2"
    )
    assert play.columns() == [
        "a text latin1_swedish_ci",
        "b text utf8mb4_0900_ai_ci",
        "c text latin2_general_ci",
    ]


def test_a_conversion_is_for_all_columns_and_widens_text() -> None:
    play = Play(
        "CREATE TABLE t (a TEXT, b TINYTEXT, c BLOB, d VARCHAR(9) COLLATE latin1_bin) CHARSET latin1"
    )
    play.run(
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, ADD e TEXT CHARSET latin1"
    )
    assert play.columns() == [
        "a mediumtext utf8mb4_bin",
        "b text utf8mb4_bin",
        "c blob",
        "d varchar(9) utf8mb4_bin",
        "e text utf8mb4_bin",
    ]


@pytest.mark.parametrize(
    ("old", "made"),
    [
        ("INT", "tinytext"),
        ("DOUBLE", "tinytext"),
        ("DOUBLE(64,2)", "text"),
        ("DATETIME(6)", "tinytext"),
        ("DECIMAL(63,0) UNSIGNED", "tinytext"),
        ("DECIMAL(62,2)", "text"),
        ("BIT(63)", "tinytext"),
        ("BIT(64)", "text"),
        ("JSON", "longtext"),
        ("BINARY(63)", "tinytext"),
        ("VARBINARY(64)", "text"),
        ("VARCHAR(63) CHARACTER SET latin1", "tinytext"),
        ("VARCHAR(64) CHARACTER SET latin1", "text"),
        ("VARCHAR(255) CHARACTER SET utf8mb4", "tinytext"),
        ("VARCHAR(256) CHARACTER SET utf8mb4", "text"),
        ("TINYTEXT CHARACTER SET utf8mb4", "tinytext"),
        ("TEXT CHARACTER SET latin1", "mediumtext"),
        ("BLOB", "mediumtext"),
        ("VECTOR(15)", "tinytext"),
        ("VECTOR(16)", "text"),
        ("VECTOR(4096)", "mediumtext"),
        ("POINT", "longtext"),
        ("LINESTRING", "longtext"),
        ("MULTIPOLYGON", "longtext"),
        ("GEOMETRYCOLLECTION", "longtext"),
    ],
)
def test_a_text_takes_its_size_from_the_old_column_if_the_table_is_converted_at_once(
    old: str, made: str
) -> None:
    play = Play(f"CREATE TABLE t (a {old})")
    play.run("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, MODIFY a MEDIUMTEXT")
    assert play.columns() == [f"a {made} utf8mb4_0900_ai_ci"]


def test_a_conversion_to_the_default_takes_that_of_the_selected_database() -> None:
    play = Play("CREATE TABLE t (a TEXT)", "CREATE DATABASE e CHARACTER SET latin1")
    play.run("ALTER TABLE d.t CONVERT TO CHARACTER SET DEFAULT", Session(database="e"))
    assert play.columns() == ["a text latin1_swedish_ci"]


@pytest.mark.parametrize("database", [None, "unknown"])
def test_a_conversion_to_the_default_is_not_guessed_without_a_selected_database(
    database: str | None,
) -> None:
    play = Play("CREATE TABLE t (a TEXT CHARACTER SET latin1)")
    with pytest.raises(DdlUnresolved, match="collation_database") as fault:
        play.run("ALTER TABLE d.t CONVERT TO CHARACTER SET DEFAULT", Session(database=database))
    assert fault.value.tables == (("d", "t"),)


def test_a_conversion_to_the_default_of_mariadb_depends_on_the_tables_database() -> None:
    play = Play("CREATE DATABASE e CHARACTER SET latin1", server=MARIADB)
    play.run("CREATE TABLE e.t (a TEXT CHARACTER SET utf8mb4)")
    play.run("ALTER TABLE e.t CONVERT TO CHARACTER SET DEFAULT", Session(database=None))
    assert play.columns("e.t") == ["a text latin1_swedish_ci"]


def test_a_blob_takes_its_size_from_the_old_column_too() -> None:
    play = Play("CREATE TABLE t (a VECTOR(63), b VECTOR(64), c VECTOR(16383), d LINESTRING)")
    changes = ", ".join(f"MODIFY {name} MEDIUMBLOB" for name in "abcd")
    play.run(f"ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, {changes}")
    assert play.columns() == ["a tinyblob", "b blob", "c blob", "d longblob"]


def test_a_table_is_altered_and_renamed_at_once() -> None:
    play = Play("CREATE TABLE t (a INT)", "CREATE DATABASE e")
    gone, come = play.run("ALTER TABLE t ADD b INT, RENAME AS e.u, COMMENT 'x'")
    assert (gone.name, gone.new) == (("d", "t"), None)
    assert come.name == ("e", "u")
    assert play.names("e.u") == "a b"


def test_the_key_that_mysql_adds_by_itself_stays_first() -> None:
    play = Play(
        "CREATE TABLE t (my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY, a INT)",
        "ALTER TABLE t ADD b INT FIRST",
    )
    assert play.names() == "my_row_id b a"


def test_mariadb_passes_over_what_is_missing() -> None:
    play = Play("CREATE TABLE t (a INT, b INT)", server=MARIADB)
    play.run(
        "ALTER TABLE IF EXISTS t WAIT 5 ADD COLUMN IF NOT EXISTS a BIGINT, DROP COLUMN IF EXISTS x,"
        " MODIFY IF EXISTS y INT, CHANGE COLUMN IF EXISTS z w INT, RENAME COLUMN IF EXISTS b TO c"
    )
    assert play.columns() == ["a int(11)", "c int(11)"]
    assert play.run("ALTER TABLE IF EXISTS nothing ADD a INT") == ()


@pytest.mark.parametrize(
    ("actions", "columns"),
    [
        ("ADD x INT, ALTER x SET DEFAULT 5", ["a int(11)", "x int(11) DEFAULT 5"]),
        ("ALTER x SET DEFAULT 5, ADD x INT", ["a int(11)", "x int(11) DEFAULT 5"]),
        ("ADD x INT DEFAULT 4, ALTER x DROP DEFAULT", ["a int(11)", "x int(11)"]),
        ("ADD x INT, ALTER IF EXISTS x SET DEFAULT 5", ["a int(11)", "x int(11)"]),
        ("DROP a, ADD a INT, ALTER a SET DEFAULT 5", ["a int(11) DEFAULT 5"]),
        ("ADD x INT, MODIFY x BIGINT FIRST", ["x bigint(20)", "a int(11)"]),
        ("ADD x INT, MODIFY IF EXISTS x BIGINT", ["a int(11)", "x int(11)"]),
        ("ADD x INT, MODIFY x BIGINT, ALTER x SET DEFAULT 8", ["a int(11)", "x bigint(20)"]),
        ("ADD IF NOT EXISTS a TEXT, ALTER a SET DEFAULT 9", ["a int(11) DEFAULT 9"]),
        ("ADD a TEXT, CHANGE a x BIGINT", ["x bigint(20)", "a text"]),
    ],
)
def test_mariadb_alters_columns_that_the_statement_adds(actions: str, columns: list[str]) -> None:
    play = Play("CREATE TABLE t (a INT)", f"ALTER TABLE t {actions}", server=MARIADB)
    found = play.catalog["d", "t"].columns
    assert [f"{one.name} {one.type} {one.definition}".rstrip() for one in found] == columns


@pytest.mark.parametrize(
    ("server", "actions"),
    [
        (MARIADB, "MODIFY x BIGINT, ADD x INT"),
        (MARIADB, "ADD x INT, CHANGE x y BIGINT"),
        (MARIADB, "ADD x INT, ALTER x SET DEFAULT 5, ALTER x SET DEFAULT 6"),
        (MARIADB, "ADD x INT, DROP x"),
        (Server(version=(9, 7, 4)), "ADD x INT, ALTER x SET DEFAULT 5"),
        (Server(version=(9, 7, 4)), "ADD x INT, MODIFY x BIGINT"),
    ],
)
def test_what_no_server_does_to_a_column_that_the_statement_adds_is_refused(
    server: Server, actions: str
) -> None:
    play = Play("CREATE TABLE t (a INT)", server=server)
    with pytest.raises(DdlUnresolved, match="no column x"):
        play.run(f"ALTER TABLE t {actions}")


@pytest.mark.parametrize(
    ("actions", "names", "indexes"),
    [
        ("DROP COLUMN u, ADD COLUMN IF NOT EXISTS u BIGINT", "id v", {"PRIMARY": ("id",)}),
        ("ADD IF NOT EXISTS u BIGINT, DROP u", "id v", {"PRIMARY": ("id",)}),
        ("CHANGE u w INT, ADD IF NOT EXISTS u INT, ADD IF NOT EXISTS w INT", "id v w",
         {"PRIMARY": ("id",), "u": ("w",)}),
        ("ADD IF NOT EXISTS w INT, ADD IF NOT EXISTS w BIGINT", "id v u w",
         {"PRIMARY": ("id",), "u": ("u",)}),
        ("DROP INDEX u, ADD UNIQUE INDEX IF NOT EXISTS u (v)", "id v u", {"PRIMARY": ("id",)}),
        ("DROP INDEX u, ADD INDEX IF NOT EXISTS (u)", "id v u", {"PRIMARY": ("id",)}),
        ("ADD INDEX IF NOT EXISTS (u)", "id v u", {"PRIMARY": ("id",), "u": ("u",)}),
        ("DROP COLUMN u, ADD INDEX IF NOT EXISTS u (v)", "id v", {"PRIMARY": ("id",)}),
        ("RENAME INDEX u TO w, ADD UNIQUE IF NOT EXISTS u (v)", "id v u",
         {"PRIMARY": ("id",), "w": ("u",)}),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY IF NOT EXISTS (v)", "id v u", {"u": ("u",)}),
    ],
)  # fmt: skip
def test_mariadb_adds_what_the_table_did_not_have_before_the_statement(
    actions: str, names: str, indexes: dict[str, tuple[str, ...]]
) -> None:
    made = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, u INT, UNIQUE u (u))"
    play = Play(made, f"ALTER TABLE t {actions}", server=MARIADB)
    assert (play.names(), play.indexes()) == (names, indexes)


@pytest.mark.parametrize("logged", [True, False])
def test_mariadb_replaces_a_key(logged: bool) -> None:
    made = "CREATE TABLE t (id INT PRIMARY KEY, v INT, u INT, UNIQUE u (u))"
    play = Play(made, "CREATE OR REPLACE UNIQUE INDEX U ON t (v)", server=MARIADB, logged=logged)
    assert play.indexes() == {"PRIMARY": ("id",), "U": ("v",)}
    play.run("CREATE OR REPLACE INDEX other ON t (v, u)")
    assert play.indexes() == {"PRIMARY": ("id",), "U": ("v",), "other": ("v", "u")}


def test_a_period_of_mariadb_may_be_there_or_not() -> None:
    play = Play("CREATE TABLE t (s DATE, e DATE)", server=MARIADB)
    for _ in range(2):
        play.run("ALTER TABLE t ADD PERIOD IF NOT EXISTS FOR p (s, e)")
        assert play.columns() == ["s date not null", "e date not null"]
    play.run("ALTER TABLE t DROP PERIOD IF EXISTS FOR p, DROP PERIOD IF EXISTS FOR q, DROP e")
    assert play.columns() == ["s date not null"]


def test_mariadb_makes_tables_of_partitions_and_back() -> None:
    play = Play("CREATE TABLE t (a INT)", server=MARIADB)
    play.run("ALTER TABLE t CONVERT PARTITION p TO TABLE e.u")
    assert play.names("e.u") == "a"
    play.run("ALTER TABLE t CONVERT TABLE e.u TO PARTITION p VALUES LESS THAN (3)")
    assert play.tables() == ["d.t"]


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ("DROP x", "no column x"),
        ("MODIFY x INT", "no column x"),
        ("ADD a INT", "a column a already"),
        ("RENAME COLUMN a TO b", "a column b already"),
        ("ADD x INT AFTER y", "no column y to add a column after"),
        ("CHANGE a x INT, ADD y INT AFTER a", "no column a to add a column after"),
        ("DROP PRIMARY KEY", "no primary key"),
        ("EXPLODE a", "expected an action of ALTER TABLE at character 15: EXPLODE"),
        ("ADD a", "expected a type at the statement's end"),
    ],
)
def test_what_cannot_be_is_not_taken(actions: str, reason: str) -> None:
    play = Play("CREATE TABLE t (a INT, b INT)")
    with pytest.raises(DdlUnresolved, match=reason) as caught:
        play.run(f"ALTER TABLE t {actions}")
    assert caught.value.tables == (("d", "t"),)
    assert play.columns() == ["a int", "b int"]


def test_columns_that_stay_are_the_same_objects() -> None:
    play = Play("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    before = play.catalog["d", "t"]
    play.run("ALTER TABLE t ADD c INT FIRST, MODIFY b BIGINT, ADD KEY (b)")
    after = play.catalog["d", "t"]
    assert after.columns[1] is before.columns[0]
    assert after.indexes[0] is before.indexes[0]
