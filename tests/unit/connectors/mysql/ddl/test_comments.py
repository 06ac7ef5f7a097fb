"""Comments as a definition keeps them."""

from __future__ import annotations

from connectors.mysql.ddl.resolve.columns import column_comment
from connectors.mysql.ddl.resolve.options import table_comment
from tests.unit.connectors.mysql.ddl.catalogs import Play


def comments(play: Play) -> tuple[str | None, list[str | None]]:
    table = play.catalog["d", "t"]
    return table_comment(table), [column_comment(one) for one in table.columns]


def test_comments_are_those_of_the_last_statement() -> None:
    play = Play(r"CREATE TABLE t (a int COMMENT 'it''s\\\n', b int DEFAULT 1) COMMENT='the \"t\"'")
    assert comments(play) == ('the "t"', ["it's\\\n", None])
    play.run(
        "ALTER TABLE t COMMENT 'new', MODIFY b varchar(9) DEFAULT 'COMMENT' COMMENT 'b', MODIFY a int"
    )
    assert comments(play) == ("new", [None, "b"])
    play.run("ALTER TABLE t COMMENT '', RENAME COLUMN b TO c")
    assert comments(play) == (None, [None, "b"])
    play.run("ALTER TABLE t MODIFY c int COMMENT ''")
    assert comments(play) == (None, [None, None])
