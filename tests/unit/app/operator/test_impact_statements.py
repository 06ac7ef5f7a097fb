"""Files of statements, cut into them."""

import pytest

from app.operator.impact import statements, used_database


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ["a"]),
        ("a;", ["a"]),
        (" a ; b ;\n\n; c", ["a", "b", "c"]),
        ("a ';' b; c", ["a ';' b", "c"]),
        (r"a '\';' ; b", [r"a '\';'", "b"]),
        ("a 'it'';s'; b", ["a 'it'';s'", "b"]),
        ('a ";" `;` ; b', ['a ";" `;`', "b"]),
        ("a /* ; */ ; -- ; \nb # ;\n; c", ["a /* ; */", "-- ; \nb # ;", "c"]),
        ("a --; b", ["a --", "b"]),
        ("/* nothing */; -- nothing\n;a", ["a"]),
        ("/*!40101 SET NAMES utf8 */;", ["/*!40101 SET NAMES utf8 */"]),
        ("/*M! a */;", ["/*M! a */"]),
        ("DELIMITER //\na; b//\ndelimiter ;\nc; d", ["a; b", "c", "d"]),
        ("-- x\n/* y */ DELIMITER $$\na; b$$\n# z\nDELIMITER ;\nc; d", ["a; b", "c", "d"]),
        ("-- DELIMITER $$\na; b", ["-- DELIMITER $$\na", "b"]),
        ("/* a */ b /* c */\nDELIMITER $$\nd;", ["/* a */ b /* c */\nDELIMITER $$\nd"]),
        ("", []),
        ("a 'open; b", ["a 'open", "b"]),
    ],
)
def test_a_statement_ends_at_a_delimiter_of_its_own(text: str, expected: list[str]) -> None:
    assert list(statements(text)) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("USE shop", "shop"), (" use `a``b` ", "a`b"), ("USE", None), ("USES shop", None),
        ("SELECT 1", None), ("USE a b", None), ("-- the shop\nUSE shop", "shop"), ("-- USE shop", None),
        ("/* a */ # b\nUSE `shop` /* c */ -- d", "shop"), ("/*!40101 USE shop */", None),
    ],
)  # fmt: skip
def test_use_selects_a_database(statement: str, expected: str | None) -> None:
    assert used_database(statement) == expected
