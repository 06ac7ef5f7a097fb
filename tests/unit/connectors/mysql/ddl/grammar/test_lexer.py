"""Statements taken apart."""

import threading

import pytest

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.grammar.lexer import LexicalFault, lexed

NEWEST = Server(version=(9, 7, 4))


def _texts(sql: str, *modes: str) -> list[str]:
    found = lexed(sql, NEWEST, Session(sql_mode=frozenset(modes)))
    return [f"{key}:{text}" for key, text in zip(found.keys, found.texts, strict=True)][:-2]


@pytest.mark.parametrize(
    ("sql", "tokens"),
    [
        ("Rename Table a", ["RENAME:Rename", "TABLE:Table", "A:a"]),
        ("primary/**/KEY", ["PRIMARY:primary", "KEY:KEY"]),
        ("`a``b`.`c`", ["`:a`b", ".:.", "`:c"]),
        ("'it''s' 'a\\'b\\n'", ["':it's", "':a'b\n"]),
        ('"q""r"', ["':q\"r"]),
        ("x'41' 0x42 b'01' N'n'", ["x':41", "x':42", "b':01", "n':n"]),
        ("1a $b _c 表", ["1A:1a", "$B:$b", "_C:_c", "表:表"]),
        ("a -- b\n# c\n--d", ["A:a", "-:-", "-:-", "D:d"]),
        ("{# a #} {{ b }}", ["{:{"]),
    ],
)
def test_words_names_literals_and_signs(sql: str, tokens: list[str]) -> None:
    assert _texts(sql) == tokens


def test_quotes_mean_what_the_mode_says() -> None:
    sql = "\"a\" 'b\\' 'c'"
    assert _texts("\"a\" 'b\\''", "ANSI_QUOTES") == ["`:a", "':b'"]
    assert _texts(sql, "NO_BACKSLASH_ESCAPES") == ["':a", "':b\\", "':c"]
    assert _texts(sql, "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES") == ["`:a", "':b\\", "':c"]
    assert _texts("[a b] 'c'", "MSSQL") == ["`:a b", "':c"]


@pytest.mark.parametrize("sql", ["'a", "`a", '"a', "a /* b"])
def test_what_does_not_end_is_a_fault(sql: str) -> None:
    with pytest.raises(LexicalFault):
        _texts(sql)


def test_threads_do_not_meet_in_a_tokenizer() -> None:
    statements = [f"ALTER TABLE t{n} ADD c{n} INT" * 40 for n in range(4)]
    wrong: list[str] = []

    def read(sql: str) -> None:
        wanted = lexed(sql, NEWEST, Session()).texts
        wrong.extend(sql for _ in range(40) if lexed(sql, NEWEST, Session()).texts != wanted)

    threads = [threading.Thread(target=read, args=(sql,)) for sql in statements]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
