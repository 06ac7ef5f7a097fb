"""Which executable comments a server takes for part of the statement."""

import pytest

from connectors.mysql.ddl.definition import Server
from connectors.mysql.ddl.grammar.executable import unwrapped

NEWEST = Server(version=(9, 7, 4))
OLD = Server(version=(5, 6, 24))
MARIADB = Server(version=(11, 8, 3), mariadb=True)


def _words(sql: str, server: Server) -> str:
    return " ".join(unwrapped(sql, server).split())


@pytest.mark.parametrize(
    ("sql", "newest", "old", "mariadb"),
    [
        ("a /*! b */ c", "a b c", "a b c", "a b c"),
        ("a /*!40101 b */ c", "a b c", "a b c", "a b c"),
        ("a /*!50700 b */ c", "a b c", "a c", "a c"),
        ("a /*!80023 b */ c", "a b c", "a c", "a c"),
        ("a /*!080023 b */ c", "a b c", "a 3 b c", "a c"),
        ("a /*!90704 b */ c", "a b c", "a c", "a c"),
        ("a /*!90705 b */ c", "a c", "a c", "a c"),
        ("a /*!99999 b */ c", "a c", "a c", "a c"),
        ("a /*!100100 b */ c", "a c", "a 0 b c", "a b c"),
        ("a /*M! b */ c", "a c", "a c", "a b c"),
        ("a /*M!50701 b */ c", "a c", "a c", "a b c"),
        ("a /*M!110900 b */ c", "a c", "a c", "a c"),
        ("a/*!50100b*/c", "a b c", "a b c", "a b c"),
        ("/*!50100 a /*!50101 b */ c */ d", "a b c d", "a b c d", "a b c d"),
        ("a /*!99999 b /* c */ d */ e", "a e", "a e", "a e"),
        ("a /*!99999 b", "a", "a", "a"),
        ("a /* 99999 b /*!40101 c */ */ d", "a d", "a d", "a d"),
    ],
)
def test_each_server_reads_its_own(sql: str, newest: str, old: str, mariadb: str) -> None:
    assert _words(sql, NEWEST) == newest
    assert _words(sql, OLD) == old
    assert _words(sql, MARIADB) == mariadb


@pytest.mark.parametrize(
    "sql",
    [
        "'/*!99999 a */'",
        '"/*!99999 a */"',
        "`/*!99999 a */`",
        "-- /*!99999 a */",
        "# /*!99999",
        "/* /*!99999 */",
    ],
)
def test_quotes_and_plain_comments_hide_them(sql: str) -> None:
    assert unwrapped(sql + "\n/*!50100 */", NEWEST).startswith(sql)


def test_a_backslash_hides_a_quote_unless_the_mode_says_otherwise() -> None:
    sql = r"'\' /*!99999 x */ '"
    assert unwrapped(sql, NEWEST) == sql
    assert unwrapped(sql, NEWEST, backslashes=False).split() == [r"'\'", "'"]


def test_all_else_keeps_its_place() -> None:
    sql = "ALTER /*!50100 TABLE */ t /*!99999 no */ ADD c INT"
    found = unwrapped(sql, NEWEST)
    assert len(found) == len(sql)
    assert found.index("ADD") == sql.index("ADD")
