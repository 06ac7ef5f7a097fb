"""The executable comments that a server treats as part of the statement."""

import pytest

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.grammar.lexer import GrammarFault, lexed

NEWEST = Server(version=(9, 7, 4))
OLD = Server(version=(5, 6, 24))
MARIADB = Server(version=(11, 8, 3), mariadb=True)


def _words(sql: str, server: Server, *modes: str) -> str:
    return " ".join(lexed(sql, server, Session(sql_mode=frozenset(modes))).texts).strip()


@pytest.mark.parametrize(
    ("sql", "newest", "old", "mariadb"),
    [
        ("a /*! b */ c", "a b c", "a b c", "a b c"),
        ("a /*!40101 b */ c", "a b c", "a b c", "a b c"),
        ("a /*!50700 b */ c", "a b c", "a c", "a c"),
        ("a /*!80023 b */ c", "a b c", "a c", "a c"),
        ("a /*!080023 b */ c", "a b c", "a 3 b c", "a c"),
        ("a /*!080023, b */ c", "a 3 , b c", "a 3 , b c", "a c"),
        ("a(/*!506013*/)", "a ( 3 )", "a ( 3 )", "a ( )"),
        ("a /*!5070 b */ c", "a 5070 b c", "a 5070 b c", "a 5070 b c"),
        ("a /*!5010012 b */ c", "a 12 b c", "a 12 b c", "a c"),
        ("a /*!90704 b */ c", "a b c", "a c", "a c"),
        ("a /*!90705 b */ c", "a c", "a c", "a c"),
        ("a /*!99999 b */ c", "a c", "a c", "a c"),
        ("a /*!100100 b */ c", "a c", "a 0 b c", "a b c"),
        ("a /*M! b */ c", "a c", "a c", "a b c"),
        ("a /*M!50701 b */ c", "a c", "a c", "a b c"),
        ("a /*M!110900 b */ c", "a c", "a c", "a c"),
        ("a/*!50100b*/c", "a b c", "a b c", "a b c"),
        ("/*!50100 a /*!50101 b */ c */ d", *["a b c * / d"] * 3),
        ("/*!50100 a /* b */ c */ d", *["a c d"] * 3),
        ("/* path:/a/* */ a /*!50100 b */", *["a b"] * 3),
        ("/* 12345 /* */ a /*!50100 b */", *["a b"] * 3),
        ("/*/ a */ b /**/ c /*!*/ d", *["b c d"] * 3),
        ("a /*!99999 b /* c /* d */ e */ f */", *["a f * /"] * 3),
        ("a /*!99999 b 'c */ d", *["a d"] * 3),
        ("a /*!50100 b 'c */' */ d", *["a b c */ d"] * 3),
        ("a /*!50100 b -- c */\n*/ d", *["a b d"] * 3),
        ("a /* 99999 b (* c *) d */ e", *["a e"] * 3),
        ("a /*!99999 b /* c */ d */ e", "a e", "a e", "a e"),
        # Of several statements sent at once, the first may lack the end of its comment.
        ("/*!50100 a b", *["a b"] * 3),
        ("a /* 99999 b /*!40101 c */ */ d", "a d", "a d", "a d"),
    ],
)
def test_each_server_reads_its_own(sql: str, newest: str, old: str, mariadb: str) -> None:
    assert _words(sql, NEWEST) == newest
    assert _words(sql, OLD) == old
    assert _words(sql, MARIADB) == mariadb


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("'/*!99999 a */'", "/*!99999 a */"),
        ('"/*!99999 a */"', "/*!99999 a */"),
        ("`/*!99999 a */`", "/*!99999 a */"),
        ("-- /*!99999 a */", ""),
        ("# /*!99999", ""),
        ("/* /*!99999 */", ""),
    ],
)
def test_quotes_and_plain_comments_hide_them(sql: str, texts: str) -> None:
    assert _words(sql + "\n/*!50100 b */", NEWEST) == f"{texts} b".strip()


@pytest.mark.parametrize("sql", ["a /*!99999 b", "a /* b", "a /*!99999 b /* c */", "a /*/"])
def test_one_that_does_not_end_is_a_fault(sql: str) -> None:
    with pytest.raises(GrammarFault):
        _words(sql, NEWEST)


def test_a_backslash_hides_a_quote_unless_the_mode_or_the_name_says_otherwise() -> None:
    sql = r"'\' /*!99999 x */ '"
    assert _words(sql, NEWEST) == "' /*!99999 x */"
    assert _words(sql + "'", NEWEST, "NO_BACKSLASH_ESCAPES") == "\\"
    name = r"""`a\` /*!50100 b */ "c\" /*!50100 d */ 'e'"""
    assert _words(name, NEWEST, "ANSI_QUOTES") == r"a\ b c\ d e"


def test_all_else_keeps_its_place() -> None:
    sql = "ALTER /*!50100 TABLE */ t /*!99999 no */ ADD c INT"
    found = lexed(sql, NEWEST, Session())
    assert len(found.sql) == len(sql)
    assert found.starts[found.texts.index("ADD")] == sql.index("ADD")
