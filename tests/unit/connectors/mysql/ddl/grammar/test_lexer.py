"""Statements taken apart."""

import threading

import pytest

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.grammar.lexer import GrammarFault, lexed

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
        (
            "1$ 2$x a.3$ b.4 c.5e6",
            [
                "1$:1$",
                "2$X:2$x",
                "A:a",
                ".:.",
                "3$:3$",
                "B:b",
                ".:.",
                "4:4",
                "C:c",
                ".:.",
                "5E6:5e6",
            ],
        ),
        (
            "0x1g 0b12 1e 0xAf 0b01 X'aF'",
            ["0X1G:0x1g", "0B12:0b12", "1E:1e", "x':Af", "b':01", "x':aF"],
        ),
        ("1 2.5 .5e-3 6. 7e8 9e+1", ["0:1", "0:2.5", "0:.5e-3", "0:6.", "0:7e8", "0:9e+1"]),
        ("\u0131f \u017fet é", ["\u0131F:\u0131f", "\u017fET:\u017fet", "é:é"]),
        ("😀 `a😀`", ["😀:?", "`:a?"]),
        (
            "u@10.0.0.1 @x 'a'@'%'",
            ["U:u", "@:@", "10.0.0.1:10.0.0.1", "@:@", "X:x", "':a", "@:@", "':%"],
        ),
        ("$$ it's $$ $a$ $$ $a$ $d", ["': it's ", "': $$ ", "$D:$d"]),
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


def test_text_between_dollars_is_a_name_to_servers_that_do_not_know_it() -> None:
    assert lexed("$a$ $$", Server(version=(8, 0, 40)), Session()).texts[:2] == ["$a$", "$$"]


@pytest.mark.parametrize("sql", ["'a", "`a", '"a', "a /* b", "'a''b", "$a$ b", "$$"])
def test_what_does_not_end_is_a_fault(sql: str) -> None:
    with pytest.raises(GrammarFault):
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
