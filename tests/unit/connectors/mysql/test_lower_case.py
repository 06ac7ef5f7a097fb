"""Names in lower case as servers compare them."""

import pytest

from connectors.mysql.charsets import lowered


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("Orders_1", "orders_1"),
        ("É\u0410\uff21", "é\u0430\uff41"),
        ("\u0130\u0131", "i\u0131"),
        ("\u1e9e\u00df", "\u1e9e\u00df"),
        ("\u01c4\u01c5", "\u01c6\u01c6"),
        ("\u212a\u2126", "k\u03c9"),
        ("\u023a\ua640\u0220", "\u023a\ua640\u0220"),
    ],
)
def test_letters_have_the_case_that_they_had_in_unicode_3(name: str, lower: str) -> None:
    assert lowered(name) == lower
    assert len(lowered(name)) == len(name)
