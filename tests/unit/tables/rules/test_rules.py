"""Rules for columns: their effect on values and on the columns."""

from __future__ import annotations

import hashlib
import hmac
import pickle
from typing import Any

import pytest

from tables.rules.mapping.rules import ACTIONS, ColumnAction
from tables.rules.masking import (
    Hmac,
    MaskingKeys,
    MaskingRule,
    Redact,
    Truncate,
    column_rules,
    masks,
)
from wire.table_version import Column

KEY = bytes(32)
KEYS = MaskingKeys((("k1", KEY),))
AGE = Column(name="age", type="int", nullable=False, charset=None, column_type="int")
NAME = Column(name="name", type="char(9)", nullable=False, charset="latin1")


@pytest.mark.parametrize(
    ("value", "text"), [("ä", "ä"), ("", ""), (5, "5"), (-5, "-5"), ("5", "5"), (1.5, "1.5")]
)
def test_an_hmac_is_of_the_text_in_the_record_and_shows_its_key_id(value: Any, text: str) -> None:
    expected = hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()
    assert Hmac("k1", KEY)(value) == f"k1:{expected}"


def test_equal_values_have_equal_hmacs_in_one_domain_alone() -> None:
    def in_domain(domain: str, value: str | int = "a@b.org") -> str:
        return str(Hmac("k1", KEY, domain)(value))

    assert in_domain("email") == in_domain("email")
    # Without a domain too, whatever text a row has; and no name of a domain is the beginning of a value.
    texts = [
        in_domain("email"),
        in_domain("login"),
        in_domain(""),
        in_domain("email", "\xffa@b.org"),
    ]
    texts += [in_domain("", f"{quote}email{quote}a@b.org") for quote in ("\xff", "\0", "")]
    texts += [in_domain("e", "maila@b.org"), in_domain("emaila", "@b.org")]
    assert len(set(texts)) == len(texts)
    expected = hmac.new(KEY, b"\xffemail\xffa@b.org", hashlib.sha256).hexdigest()
    assert in_domain("email") == f"k1:{expected}"
    expected = hmac.new(KEY, b"\xffage\xff5", hashlib.sha256).hexdigest()
    assert in_domain("age", 5) == f"k1:{expected}"


@pytest.mark.parametrize(
    ("rule", "column", "expected"),
    [
        (Hmac("k1", KEY), AGE, ("varchar(67)", False, "utf8mb4")),
        (Truncate(3), NAME, ("varchar(3)", False, "latin1")),
        (Redact(None), AGE, ("int", True, None)),
        (Redact("***"), AGE, ("varchar(3)", False, "utf8mb4")),
    ],
)
def test_a_column_has_the_type_of_its_replacements(
    rule: MaskingRule, column: Column, expected: tuple[str, bool, str | None]
) -> None:
    found = rule.column(column)
    assert (found.type, found.nullable, found.charset) == expected
    assert found.name == column.name


def test_actions_are_rules_by_column_in_lower_case() -> None:
    actions = [
        ColumnAction(column="A", action="hmac", argument="k1"),
        ColumnAction(column="b", action="truncate", argument="2"),
        ColumnAction(column="c", action="redact"),
        ColumnAction(column="d", action="redact", argument="x"),
        ColumnAction(column="e", action="rename", argument="f"),
        ColumnAction(column="g", action="drop"),
    ]
    found = column_rules(actions, KEYS)
    assert {name: rule("ünz")[:3] if rule("ünz") else None for name, rule in found.items()} == {  # type: ignore[index]
        "a": "k1:", "b": "ün", "c": None, "d": "x",
    }  # fmt: skip
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(KeyError, match="k2"):
        column_rules([ColumnAction(column="a", action="hmac", argument="k2")], KEYS)


def test_a_key_is_in_no_text_of_a_rule() -> None:
    assert repr(Hmac("k1", KEY)) == "Hmac(key_id='k1', domain='')"


@pytest.mark.parametrize("action", ["hmac", "truncate", "redact", "drop"])
def test_all_actions_but_a_new_name_hide_values(action: str) -> None:
    assert masks([ColumnAction(column="a", action=action, argument="1")])
    assert not masks([ColumnAction(column="a", action="rename", argument="b")])


@pytest.mark.parametrize("action", ACTIONS)
def test_a_rule_does_what_the_kind_of_its_action_states(action: str) -> None:
    kind = ACTIONS[action]
    argument = "k1" if kind.is_keyed else "2"
    rules = column_rules([ColumnAction(column="a", action=action, argument=argument)], KEYS)
    if kind.removes or not kind.hides:
        assert not rules
        assert kind.hides or not kind.removes
        return
    rule = rules["a"]
    assert (rule("aab") != rule("aac")) == kind.keeps_apart
    assert (rule.reads is not None and rule.reads > 0) == kind.shows_part
    # What a rule does not read of a value changes nothing; what it reads does.
    assert (rule("aa") == rule("aac")) == (rule.reads is not None)
    assert (rule("aa") == rule("ba")) == (rule.reads == 0)
    assert kind.any_type == (rule(12345) != 12345)
