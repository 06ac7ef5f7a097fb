"""The kind of a column, from its type's text."""

from __future__ import annotations

import pytest

from connectors.mysql.types.registry import Kind, kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int", Kind(base="int")),
        ("bigint unsigned", Kind(base="bigint", is_unsigned=True)),
        ("decimal(12,2) unsigned", Kind(base="decimal", numbers=(12, 2), is_unsigned=True)),
        ("datetime(6)", Kind(base="datetime", numbers=(6,))),
        ("enum('a','it''s')", Kind(base="enum", labels=("a", "it's"))),
        (r"set('x\','y)','')", Kind(base="set", labels=("x\\", "y)", ""))),
        ("enum('a) unsigned')", Kind(base="enum", labels=("a) unsigned",))),
        ("enum('a\n')", Kind(base="enum", labels=("a\n",))),
    ],
)
def test_a_type_is_a_base_a_sign_and_labels(text: str, kind: Kind) -> None:
    assert kind_of(text) == kind


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match="is not the type of a column"):
        kind_of("INT(")
