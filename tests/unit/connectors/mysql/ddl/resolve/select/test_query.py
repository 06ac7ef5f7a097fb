"""The columns of CREATE TABLE … SELECT, as a server of 9.7 makes them."""

import pytest

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.definition import Server
from tests.unit.connectors.mysql.ddl.catalogs import Play

ANY = "utf8mb4_0900_ai_ci"
SOURCE = (
    "CREATE TABLE s (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, i INT, n INT NOT NULL, t TINYINT,"
    " big BIGINT, d DECIMAL(10,2), f FLOAT, vc VARCHAR(20), la VARCHAR(30) CHARACTER SET latin1 NOT NULL,"
    " tx TEXT, en ENUM('a','bb') NOT NULL, dt DATETIME(3), da DATE NOT NULL, js JSON,"
    " g INT AS (i + 1) VIRTUAL, inv INT NOT NULL DEFAULT 5 INVISIBLE, zf INT(8) UNSIGNED ZEROFILL)"
)


def _made(query: str) -> list[str]:
    play = Play(SOURCE)
    play.run(f"CREATE TABLE t {query}")
    return play.columns()


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("id", "int unsigned not null"),
        ("(s.vc)", f"varchar(20) {ANY}"),
        ("g", "int"),
        ("inv", "int not null"),
        ("zf", "int(8) unsigned zerofill"),
        ("1", "int not null"),
        ("99999999", "int not null"),
        ("123456789", "bigint not null"),
        ("9999999999999999999", "bigint unsigned not null"),
        ("99999999999999999999", "decimal(20,0) not null"),
        ("-5", "int not null"),
        ("1.50", "decimal(3,2) not null"),
        ("1e3", "double not null"),
        ("'abc'", f"varchar(3) not null {ANY}"),
        ("_latin1'ab'", "varchar(2) not null latin1_swedish_ci"),
        ("NULL", "varbinary(0)"),
        ("TRUE", "int not null"),
        ("DATE'2020-01-01'", "date not null"),
        ("COUNT(*)", "bigint not null"),
        ("SUM(i)", "decimal(32,0)"),
        ("SUM(d)", "decimal(32,2)"),
        ("AVG(big)", "decimal(23,4)"),
        ("MAX(n)", "int"),
        ("MIN(la)", "varchar(30) latin1_swedish_ci"),
        ("NOW()", "datetime not null"),
        ("CURRENT_TIMESTAMP(3)", "datetime(3) not null"),
        ("CURDATE()", "date not null"),
        ("CONCAT(vc, '-', vc)", f"varchar(41) {ANY}"),
        ("CONCAT(la, 'x')", "varchar(31) latin1_swedish_ci"),
        ("CONCAT('a', en)", f"varchar(3) {ANY}"),
        ("UPPER(la)", "varchar(30) latin1_swedish_ci"),
        ("LEFT(vc, 4)", f"varchar(4) {ANY}"),
        ("COALESCE(vc, 'none')", f"varchar(20) not null {ANY}"),
        ("IF(i > 0, 'yes', 'no')", f"varchar(3) not null {ANY}"),
        ("CASE WHEN i > 0 THEN 1 END", "int"),
        ("i > 1", "int"),
        ("n IN (1, 2)", "int not null"),
        ("i IS NULL", "int not null"),
        ("CAST(vc AS SIGNED)", "bigint"),
        ("CAST(n AS CHAR(10))", f"varchar(10) {ANY}"),
        ("CAST(vc AS DECIMAL(10,2))", "decimal(10,2)"),
        ("CONVERT(vc USING latin1)", "varchar(20) latin1_swedish_ci"),
        ("vc COLLATE utf8mb4_bin", "varchar(20) utf8mb4_bin"),
        ("YEAR(dt)", "year"),
        ("i + 1", "bigint"),
        ("t + 1", "int"),
        ("id * 2", "int unsigned not null"),
        ("d * d", "decimal(20,4)"),
        ("i / 2", "decimal(14,4)"),
        ("f * 2", "double"),
        ("js->'$.a'", "json"),
        ("ROW_NUMBER() OVER (ORDER BY i)", "bigint unsigned not null"),
    ],
)
def test_an_expressions_type_is_the_servers(expression: str, column: str) -> None:
    assert _made(f"SELECT {expression} AS x FROM s") == [f"x {column}"]


def test_a_column_without_a_name_is_called_by_its_text() -> None:
    made = _made("AS SELECT COUNT( * ), 'a''b', `id`, null, n+1 FROM s")
    assert [column.rpartition(" bigint")[0] or column for column in made] == [
        "COUNT( * )",
        f"a'b varchar(3) not null {ANY}",
        "id int unsigned not null",
        "NULL varbinary(0)",
        "n+1",
    ]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT * FROM s", "id i n t big d f vc la tx en dt da js g zf"),
        ("TABLE s", "id i n t big d f vc la tx en dt da js g zf"),
        ("(n2 INT, i INT) SELECT id, i FROM s", "n2 id i"),
        (
            "(PRIMARY KEY (id)) IGNORE SELECT id, i AS j FROM s WHERE i > 0 ORDER BY 1 LIMIT 5",
            "id j",
        ),
        ("AS (SELECT a.id, b.i AS bi FROM s a, d.s AS b)", "id bi"),
        ("AS WITH c AS (SELECT id, vc FROM s) SELECT c.*, 1 AS one FROM c", "id vc one"),
        ("SELECT x.* FROM (SELECT id AS k, vc FROM s GROUP BY 1, 2) x", "k vc"),
        ("SELECT vc AS v FROM s UNION ALL SELECT 'longer than that would be' FROM DUAL", "v"),
    ],
)
def test_columns_are_those_of_the_query(query: str, names: str) -> None:
    assert " ".join(column.split()[0] for column in _made(query)) == names


def test_an_outer_join_leaves_columns_empty() -> None:
    assert _made("SELECT a.n, b.n AS m FROM s a LEFT JOIN s b ON a.id = b.i") == [
        "n int not null",
        "m int",
    ]
    assert _made("SELECT a.n, b.n AS m FROM s a RIGHT JOIN s b ON a.id = b.i") == [
        "n int",
        "m int not null",
    ]


def test_a_table_of_ones_own_definition_gives_it_to_the_querys_column() -> None:
    assert _made("(vc TEXT NOT NULL, KEY (vc(3))) SELECT i, vc FROM s") == [
        "i int",
        f"vc text not null {ANY}",
    ]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM nothing",
        "SELECT nothing FROM s",
        "SELECT i FROM s a, s b",
        "SELECT * FROM s a JOIN s b USING (id)",
        "SELECT UNKNOWN_FUNCTION(i) AS x FROM s",
        "SELECT (SELECT 1) AS x FROM s",
        "SELECT CONCAT(vc, la) AS x FROM s",
        "SELECT IFNULL(i, 0) AS x FROM s",
        "SELECT tx FROM s UNION SELECT tx FROM s",
        "SELECT 1 AS x UNION SELECT 2",
        "SELECT id FROM s GROUP BY id WITH ROLLUP",
        "VALUES ROW(1, 2)",
        "SELECT FROM WHERE",
        "WITH RECURSIVE c AS (SELECT 1 AS n UNION SELECT n FROM c) SELECT n FROM c",
    ],
)
def test_what_is_not_certain_is_refused(query: str) -> None:
    with pytest.raises(DdlUnresolved) as caught:
        _made(query)
    assert caught.value.tables == (("d", "t"),)


def test_other_servers_take_columns_only() -> None:
    old = Server(version=(5, 7, 44))
    play = Play("CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, a TEXT)", server=old)
    play.run("CREATE TABLE t SELECT a, id AS k FROM s")
    assert play.columns() == ["a text latin1_swedish_ci", "k int(11) not null"]
    with pytest.raises(DdlUnresolved, match="more than columns"):
        play.run("CREATE TABLE u SELECT 1 AS x")
