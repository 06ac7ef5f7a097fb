import gc
import threading
from typing import Any

import orjson
import pytest

from app.operator.replay import replay


def replayed(*lines: dict[str, Any] | bytes | str, longest: float = 10.0) -> dict[str, Any]:
    raw = [one if isinstance(one, bytes) else orjson.dumps(_line(one)) for one in lines]
    return replay(b"\n".join(raw), longest=longest)


def _line(one: dict[str, Any] | str) -> dict[str, Any]:
    return {"database": "d", "sql": one} if isinstance(one, str) else one


def columns(result: dict[str, Any], table: str) -> dict[str, str]:
    return {column["name"]: column["type"] for column in result["tables"][table]["columns"]}


def test_a_table_is_shown_with_all_that_rows_depend_on() -> None:
    result = replayed(
        "CREATE TABLE t (id INT UNSIGNED NOT NULL AUTO_INCREMENT, a VARCHAR(9) CHARACTER SET latin1,"
        " g INT AS (id + 1) STORED, h BLOB INVISIBLE, PRIMARY KEY (id));"
    )
    plain = {
        "nullable": True,
        "charset": None,
        "collation": None,
        "generated": False,
        "invisible": False,
    }
    assert result == {
        "tables": {
            "d.t": {
                "columns": [
                    {**plain, "name": "id", "type": "int unsigned", "nullable": False},
                    {
                        **plain,
                        "name": "a",
                        "type": "varchar(9)",
                        "charset": "latin1",
                        "collation": "latin1_swedish_ci",
                    },
                    {**plain, "name": "g", "type": "int", "generated": True},
                    {**plain, "name": "h", "type": "blob", "invisible": True},
                ],
                "primary_key": ["id"],
            }
        },
        "unparsed": [],
    }


def test_a_database_that_nobody_created_has_the_defaults_of_9_7() -> None:
    result = replayed("CREATE TABLE never_created.t (a TEXT)")
    (column,) = result["tables"]["never_created.t"]["columns"]
    assert (column["charset"], column["collation"]) == ("utf8mb4", "utf8mb4_0900_ai_ci")


def test_each_line_has_its_own_default_database() -> None:
    result = replayed(
        {"database": "one", "sql": "CREATE TABLE t (a INT)"},
        {"database": "one", "sql": "USE two"},
        {"database": "two", "sql": "CREATE TABLE t (b INT)"},
        {"database": None, "sql": "ALTER TABLE one.t ADD c INT"},
        {"sql": "CREATE TABLE t (d INT)"},
        {"database": "", "sql": "CREATE TABLE t (d INT)"},
    )
    assert columns(result, "one.t") == {"a": "int", "c": "int"}
    assert columns(result, "two.t") == {"b": "int"}
    assert [one["line"] for one in result["unparsed"]] == [5, 6]


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "ansi", "STRICT_TRANS_TABLES, ansi_quotes"])
def test_the_sql_mode_of_a_line_says_what_quotes_mean(mode: str) -> None:
    line = {"database": "d", "sql_mode": mode, "sql": 'CREATE TABLE "t" ("a" INT DEFAULT \'"\')'}
    assert columns(replayed(line), "d.t") == {"a": "int"}


def test_without_an_sql_mode_the_servers_own_holds_which_is_strict() -> None:
    sql = "CREATE TABLE t (a VARCHAR(70000) CHARACTER SET latin1)"
    strict = replayed(sql, {"database": "d", "sql_mode": None, "sql": sql})
    assert len(strict["unparsed"]) == 2
    lax = replayed({"database": "d", "sql_mode": "", "sql": sql})
    assert columns(lax, "d.t") == {"a": "mediumtext"}


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "-- nothing",
        "INSERT INTO t VALUES ('x')",
        "USE d",
        "SET NAMES utf8mb4",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN DROP TABLE t; END",
        "GRANT ALL ON d.* TO u",
        "FLUSH TABLES",
        "ANALYZE TABLE t",
        "BEGIN",
        "XA COMMIT 'x'",
    ],
)
def test_what_makes_no_table_changes_nothing_and_is_not_published(sql: str) -> None:
    result = replayed("CREATE TABLE t (a INT)", sql)
    assert columns(result, "d.t") == {"a": "int"}
    assert result["unparsed"] == []


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE missing ADD a INT",
        "ALTER TABLE t ADD b INT, DROP COLUMN missing",
        "RENAME TABLE t TO u, missing TO v",
        "DROP TABLE t, missing",
        "CREATE TABLE t (z INT)",
        "ALTER TABLE t FROBNICATE",
        "CREATE TABLE u (a INT",
        "CREATE TABLE u (a NOSUCHTYPE)",
        "CREATE TABLE u LIKE missing",
    ],
)
def test_what_cannot_be_resolved_is_reported_with_its_line_and_changes_nothing(sql: str) -> None:
    result = replayed("CREATE TABLE t (a INT)", sql)
    assert result["tables"].keys() == {"d.t"}
    assert columns(result, "d.t") == {"a": "int"}
    (reported,) = result["unparsed"]
    assert (reported["line"], reported["sql"]) == (2, sql)
    assert reported["error"]
    assert "schema resolve" not in reported["error"]


@pytest.mark.parametrize(
    "raw",
    [
        b"nothing of JSON",
        b"[1]",
        b"{}",
        b'{"sql": 1}',
        b'{"sql": "DROP TABLE t", "database": 1}',
        b'{"sql": "DROP TABLE t", "sql_mode": ["ANSI"]}',
        b'{"sql": "DROP TABLE t", "sql_mode": "NO_SUCH_MODE"}',
        b'{"sql": "\xff"}',
        b'{"sql": "\\ud800"}',
        b"[" * 100_000,
        b'{"sql": "DROP TABLE t"',
    ],
)
def test_a_malformed_line_is_reported_and_the_others_count(raw: bytes) -> None:
    result = replayed("CREATE TABLE t (a INT)", raw, "ALTER TABLE t ADD b INT")
    assert columns(result, "d.t") == {"a": "int", "b": "int"}
    assert [one["line"] for one in result["unparsed"]] == [2]


def test_lines_are_counted_from_one_with_the_empty_ones() -> None:
    result = replayed(b"\xef\xbb\xbf", b"", b"  \r", b"?")
    assert [one["line"] for one in result["unparsed"]] == [4]


def test_windows_line_ends_change_nothing() -> None:
    raw = b'{"database": "d", "sql": "CREATE TABLE t (a INT)"}\r\n'
    assert columns(replay(raw), "d.t") == {"a": "int"}


def test_temporary_tables_are_not_shown() -> None:
    result = replayed(
        "CREATE TABLE t (a INT)",
        "CREATE TEMPORARY TABLE t (b INT)",
        "ALTER TABLE t ADD c INT",
        "DROP TABLE t",
    )
    assert columns(result, "d.t") == {"a": "int"}


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE u (a INT DEFAULT " + "(" * 50_000,
        "CREATE TABLE u (a INT(" + "9" * 10_000 + "))",
        "CREATE TABLE u (a DECIMAL(" + "9" * 10_000 + "))",
        "CREATE TABLE u " + "/*!50000 " * 20_000,
        "ALTER TABLE t " + "ADD b INT, " * 2_000 + "DROP x",
        "CREATE TABLE `" + "`" * 20_001,
        "CREATE TABLE u (a INT COMMENT '" + "\\'" * 20_000,
        "CREATE TABLE u (a INT, " + ", ".join(["KEY (a)"] * 20_000) + ")",
    ],
)
def test_hostile_statements_are_published_like_others(sql: str) -> None:
    result = replayed("CREATE TABLE t (a INT)", sql)
    assert [one["line"] for one in result["unparsed"]] == [2]
    assert columns(result, "d.t") == {"a": "int"}


def test_rows_by_the_megabyte_are_passed_by() -> None:
    rows = "INSERT INTO t VALUES " + ",".join(["(1, 'a')"] * 1_000_000)
    assert replayed("CREATE TABLE t (a INT)", rows, longest=5.0)["unparsed"] == []


def test_a_statement_that_takes_too_long_is_reported_and_changes_nothing() -> None:
    long = "CREATE TABLE u (" + ",".join(f"c{n} INT" for n in range(4000)) + ")"
    # What is raised within a finalizer of other tests' garbage is lost, as Python has it.
    gc.collect()
    gc.disable()
    try:
        result = replayed(long, longest=0.002)
    finally:
        gc.enable()
    assert result["tables"] == {}
    assert "it took longer than 0.002 s" in result["unparsed"][0]["error"]


def test_another_thread_can_replay_too() -> None:
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(replayed("CREATE TABLE t (a INT)")))
    thread.start()
    thread.join()
    assert columns(found[0], "d.t") == {"a": "int"}
