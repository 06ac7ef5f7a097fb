"""Statements by their types, and shadows by the settings' own rules."""

import pytest

from app.settings.statement_filter import StatementTypes, shadow_rules


@pytest.mark.parametrize(
    ("include", "exclude", "published"),
    [
        ("", "", "ALTER TABLE, CREATE INDEX, CREATE VIEW, ALTER DATABASE, TRUNCATE TABLE, "),
        ("alter  table", "", "ALTER TABLE"),
        ("ALTER", "", "ALTER TABLE, ALTER DATABASE"),
        ("ALTER", "ALTER SCHEMA", "ALTER TABLE"),
        ("", "CREATE, TRUNCATE TABLE", "ALTER TABLE, ALTER DATABASE, "),
        ("CREATE INDEX, TRUNCATE", "", "CREATE INDEX, TRUNCATE TABLE"),
        ("ALTER TABLE", "ALTER TABLE", None),
    ],
)
def test_types_say_what_is_published(include: str, exclude: str, published: str | None) -> None:
    types = StatementTypes(include, exclude)
    every = ("ALTER TABLE", "CREATE INDEX", "CREATE VIEW", "ALTER DATABASE", "TRUNCATE TABLE", "")
    expected = [] if published is None else published.split(", ")
    assert [one for one in every if types.publishes(one)] == expected


@pytest.mark.parametrize("text", ["ALTER TABEL", "TABLE", "SELECT", "ALTER TABLE ADD", "DROP USER"])
def test_a_type_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no type of statement"):
        StatementTypes(text)
    with pytest.raises(ValueError, match="is no type of statement"):
        StatementTypes("", f"ALTER TABLE, {text}")


KNOWN = {("shop", "orders")}


def test_the_settings_name_shadows_and_what_is_none() -> None:
    rules = shadow_rules(never=r"shop\._orders_old, x", also=r"tmp_(?P<table>\w+)_\d+")
    assert rules.shadow(("shop", "_orders_old"), KNOWN) is None
    assert rules.shadow(("shop", "_orders_new"), KNOWN) is not None
    assert rules.shadow(("shop", "tmp_orders_7"), KNOWN) is not None
    assert shadow_rules().shadow(("shop", "tmp_orders_7"), KNOWN) is None


@pytest.mark.parametrize(
    ("never", "also", "message"),
    [("(", "", "no regular expression"), ("", "(", "not a regular"), ("", "x_.*", "no group")],
)
def test_what_is_no_expression_is_refused(never: str, also: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shadow_rules(never=never, also=also)
