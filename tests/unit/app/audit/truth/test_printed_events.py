"""Parsing of mysqlbinlog's output, with any content of values and statements."""

from __future__ import annotations

import pytest

from app.audit.errors import TruthUnreadable
from app.audit.truth.printed_events import (
    Before,
    Event,
    FileBegins,
    Row,
    RowsUndone,
    SavepointSet,
    Statement,
    TransactionBegins,
    TransactionEnds,
    UnreadableRows,
    XaBegins,
    XaEnded,
    events,
)

HEAD = "#261121 14:45:09 server id 1  end_log_pos {end} CRC32 0x00000000 \t{what}\n"
TABLE = """# has_generated_invisible_primary_key=0
# Columns(`id` INT UNSIGNED NOT NULL,
#         `a, ``b` VARCHAR(10) CHARSET latin1 COLLATE latin1_swedish_ci,
#         `e` ENUM('a', 'b,\\'c') CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci)
# Primary Key(a, `b(4), id)
"""


def header(what: str, end: int = 900, at: int = 100) -> str:
    return f"# at {at}\n" + HEAD.format(end=end, what=what)


def gtid(name: str, at: int = 100) -> str:
    lines = header("GTID\tlast_committed=0\toriginal_committed_timestamp=1795272309860755", at=at)
    return f"{lines}SET @@SESSION.GTID_NEXT= '{name}'/*!*/;\n"


def query(sql: str, before: str = "") -> str:
    return header("Query\tthread_id=1") + f"SET TIMESTAMP=1/*!*/;\n{before}{sql}\n/*!*/;\n"


def read(*parts: str) -> list[Event]:
    return list(events(iter("".join(parts).encode().splitlines(keepends=True))))


def test_a_name_may_have_backticks_and_line_ends() -> None:
    # MySQL's program doubles a backtick in the head of rows only, MariaDB's in both places.
    for shown in ("a`b``\n### c", "a``b````\n### c"):
        rows = read(
            header(f"Table_map: `shop`.`{shown}` mapped to number 5"),
            "# Columns(`new\\nline` INT NOT NULL,\n#         `b` INT)\n",
            header("Write_rows: table id 5 flags: STMT_END_F", at=300),
            "### INSERT INTO `shop`.`a``b````\n### c`\n### SET\n###   @1=1\n###   @2=2\n",
        )
        (row,) = [one for one in rows if isinstance(one, Row)]
        assert row.shape.name == ("shop", "a`b``\n### c")
        assert [column.name for column in row.shape.columns] == ["new\nline", "b"]
        assert row.after == b"1=1\n2=2"


def test_rows_of_a_table_that_nothing_describes_are_a_named_error() -> None:
    with pytest.raises(TruthUnreadable, match=r"shop`.`t\\n"):
        read("### INSERT INTO `shop`.`t\n`\n### SET\n###   @1=1\n")


def test_a_transaction_has_its_name_time_and_rows() -> None:
    begun, row, ended = read(
        gtid("3E11FA47-71CA-11E1-9E33-C80AA9429562:7"),
        query("BEGIN"),
        header("Table_map: `shop`.`t` mapped to number 5"),
        TABLE,
        header("Update_rows: table id 5 flags: STMT_END_F", at=300),
        "### UPDATE `shop`.`t`\n### WHERE\n###   @1=1\n###   @2='### SET'\n",
        "### SET\n###   @1=-1 (4294967295)\n###   @2=NULL\n",
        header("Xid = 9", end=400),
        "COMMIT/*!*/;\n",
    )
    assert begun == TransactionBegins("3e11fa47-71ca-11e1-9e33-c80aa9429562:7", 100, 1795272309860)
    assert isinstance(row, Row)
    assert (row.kind, row.pos) == ("u", 300)
    assert (row.before, row.after) == (b"1=1\n2='### SET'", b"1=-1 (4294967295)\n2=NULL")
    assert ended == TransactionEnds(400)
    names = [column.name for column in row.shape.columns]
    assert names == ["id", "a, `b", "e"]
    assert row.shape.primary_key == ("a, `b", "id")
    assert row.shape.columns[1].charset == "latin1"
    assert row.shape.columns[2].labels == ("a", "b,'c")


def test_rows_after_the_headers_of_all_events_of_a_statement_are_of_the_tables_that_they_name() -> (
    None
):
    found = read(
        gtid("ANONYMOUS"),
        header("Table_map: `shop`.`t` mapped to number 5"),
        "# Columns(INT NOT NULL)\n",
        header("Table_map: `shop`.`u` mapped to number 6"),
        "# Columns(INT NOT NULL)\n",
        header("Delete_rows: table id 6", at=300),
        header("Delete_rows: table id 5 flags: STMT_END_F", at=350),
        "### DELETE FROM `shop`.`u`\n### WHERE\n###   @1=1\n",
        "### DELETE FROM `shop`.`t`\n### WHERE\n###   @1=2\n",
    )
    rows = [each for each in found if isinstance(each, Row)]
    assert [(row.shape.table, row.before, row.pos) for row in rows] == [
        ("u", b"1=1", 300),
        ("t", b"1=2", 300),
    ]
    assert not rows[0].shape.has_names


def test_a_value_that_cannot_be_printed_is_reported_and_the_next_row_is_read() -> None:
    _, first, second = read(
        gtid("ANONYMOUS"),
        header("Table_map: `shop`.`t` mapped to number 5"),
        "# Columns(INT NOT NULL,\n#         POINT)\n",
        header("Write_rows: table id 5"),
        "### INSERT INTO `shop`.`t`\n### SET\n###   @1=1\n",
        "###   @2=!! Don't know how to handle column type=255\n",
        "### INSERT INTO `shop`.`t`\n### SET\n###   @1=2\n###   @2='!! no'\n",
    )
    assert isinstance(first, UnreadableRows)
    assert isinstance(second, Row)


def test_a_statement_may_hold_lines_that_look_like_the_programs_own() -> None:
    sql = "CREATE TABLE t (\n# at 4\n### INSERT INTO `x`.`y`\na int)"
    found = read(gtid("ANONYMOUS"), query(sql, "use `a``b`/*!*/;\n"))
    assert found[1:] == [Statement(sql, "a`b", 100), TransactionEnds(900)]


def test_create_select_leaves_its_transaction_open_for_the_rows() -> None:
    sql = "CREATE TABLE `c` (\n  `a` int\n) START TRANSACTION"
    found = read(gtid("ANONYMOUS"), query("BEGIN"), query(sql), header("Xid = 1"))
    assert [type(each) for each in found] == [TransactionBegins, Statement, TransactionEnds]


def test_boundaries_of_xa_transactions_and_savepoints_are_no_statements() -> None:
    found = read(
        gtid("ANONYMOUS"), query("XA START X'61',X'',1"), query("SAVEPOINT a"), query("ROLLBACK TO a"),
        query("XA END X'61',X'',1"), header("XA PREPARE X'61',X'',1"), "XA PREPARE X'61',X'',1\n/*!*/;\n",
        gtid("ANONYMOUS"), query("XA COMMIT X'61',X'',1"),
    )  # fmt: skip
    result = [each for each in found if isinstance(each, XaBegins | XaEnded | Statement)]
    assert [each for each in found if isinstance(each, SavepointSet | RowsUndone)] == [
        SavepointSet("a"),
        RowsUndone("a"),
    ]
    xid = "X'61',X'',1"
    assert result == [XaBegins(xid), XaEnded(xid, "PREPARE"), XaEnded(xid, "COMMIT")]


def test_a_change_that_is_written_as_a_statement_leaves_its_transaction_open() -> None:
    found = read(
        gtid("ANONYMOUS"), query("BEGIN"), query("INSERT INTO percona.checksums VALUES (1)"), query("COMMIT")
    )  # fmt: skip
    assert [type(one).__name__ for one in found] == ["TransactionBegins", "TransactionEnds"]


def test_a_server_that_announces_nothing_begins_with_begin_and_with_each_statement() -> None:
    found = read(query("BEGIN"), header("Xid = 1"), query("DROP TABLE t"))
    assert [type(each) for each in found] == [
        TransactionBegins,
        TransactionEnds,
        TransactionBegins,
        Statement,
        TransactionEnds,
    ]


def test_files_and_what_is_before_them_are_reported() -> None:
    found = read(
        header("Rotate to binlog.000002  pos: 4"),
        header("Previous-GTIDs"),
        "# 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,\n# 4e11fa47-71ca-11e1-9e33-c80aa9429562:1\n",
        "SET @@SESSION.GTID_NEXT= 'AUTOMATIC' /* added by mysqlbinlog */ /*!*/;\n",
    )
    sets = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,4e11fa47-71ca-11e1-9e33-c80aa9429562:1"
    assert found == [FileBegins("binlog.000002"), Before(sets)]
