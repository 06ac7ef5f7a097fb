"""The kind of a column, from its type's text."""

from __future__ import annotations

import pytest

from app.worker.pipeline.formats.column_kind import ColumnKind, kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int", ColumnKind(base="int")),
        ("bigint unsigned", ColumnKind(base="bigint", is_unsigned=True)),
        ("decimal(12,2) unsigned", ColumnKind(base="decimal", is_unsigned=True)),
        ("datetime(6)", ColumnKind(base="datetime")),
        ("enum('a','it''s')", ColumnKind(base="enum", labels=("a", "it's"))),
        (r"set('x\','y)','')", ColumnKind(base="set", labels=("x\\", "y)", ""))),
        ("enum('a) unsigned')", ColumnKind(base="enum", labels=("a) unsigned",))),
        ("enum('a\n')", ColumnKind(base="enum", labels=("a\n",))),
    ],
)
def test_a_type_is_a_base_a_sign_and_labels(text: str, kind: ColumnKind) -> None:
    assert kind_of(text) == kind


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match="is not the type of a column"):
        kind_of("INT(")
