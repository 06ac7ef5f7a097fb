"""Expressions of tables: what they match, and that no expression takes long."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tables.state.snapshots.signal_row import table_pattern

NAMES = ["".join(one) for size in range(6) for one in itertools.product("a.1", repeat=size)]


@given(
    st.lists(
        st.sampled_from(["a", r"\.", ".", "[a1]", "1", r"\d", ".*", ".+", "[1]+", "a*", r"\d+"]),
        max_size=6,
    )
)
@example(["[1]+", "a*", ".+"])
def test_what_is_supported_matches_as_a_regular_expression(atoms: list[str]) -> None:
    text = "".join(atoms)
    try:
        bounded = table_pattern(text)
    except ValueError:
        assert any(one.endswith(("]+", "*", r"\d+")) for one in atoms), (
            "only a repeat may be refused"
        )
        return
    assert [one for one in NAMES if bounded.fullmatch(one)] == [
        one for one in NAMES if re.fullmatch(text, one)
    ]


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("shop.orders", "shop.orders", "shop.orders2"),
        (r"^shop\.orders$", "shop.orders", "shop_orders"),
        (r"shop_[0-9]+\.orders", "shop_12.orders", "shop_x.orders"),
        (r"shop\..*|crm\.people", "crm.people", "crm.x"),
        (r"shop\.it's \$%ß", "shop.it's $%ß", "shop.it"),
        ("a.b c-d", "a.b c-d", "a.b c"),
    ],
)
def test_what_users_write_is_supported(text: str, matching: str, other: str) -> None:
    bounded = table_pattern(text)
    assert bounded.fullmatch(matching)
    assert not bounded.fullmatch(other)


@pytest.mark.parametrize(
    "text", ["(a+)+$", "(a|b)", "a{2}", "a**", "(?i)a", "[", "a?", "a" * 301, r"\1", "[[:alpha:]]"]
)
def test_what_is_not_supported_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"supported|characters"):
        table_pattern(text)


def test_the_worst_expressions_of_the_worst_names_end() -> None:
    # With Python's own engine some of them do not end.
    name = "a" * 129
    for text in (".*a" * 99 + "b", ".*" * 149 + "b", "b*" + "a" * 298, ".*[a1]" * 49 + "x"):
        assert table_pattern(text).fullmatch(name) is None
    assert table_pattern(".+" * 129).fullmatch(name)
