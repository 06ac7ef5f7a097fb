"""Masked values on the wire against values as mysqlbinlog prints them: both are masked, then compared."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from app.audit.table_shape import BinlogColumn, Shape
from app.audit.topics.record_comparison import Columns, Comparer, masked_comparison
from tables.history.present_columns import Described
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import Hmac, MaskingKeys, MaskingRule, Redact, Truncate
from tables.rules.routes.routes import Routes
from tests.unit.app.audit.test_value_comparison import column

KEY = bytes(32)
HASHED = Hmac("k", KEY)


def digest(text: str) -> str:
    return f"k:{hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()}"


@pytest.mark.parametrize(
    ("source", "printed", "text"),
    [
        (column("INT"), b"-1 (4294967295)", "-1"),
        (column("INT", unsigned=True), b"-1 (4294967295)", "4294967295"),
        (column("DECIMAL", "5,2"), b"-0.50", "-0.50"),
        (column("VARCHAR", charset="latin1"), b"'\xfc\\n'", "ü\n"),
        (column("BLOB"), rb"'\x00'", "AA=="),
        (column("DATE"), b"'2024:02:29'", "2024-02-29"),
        (column("ENUM", labels=("a", "b")), b"2", "b"),
    ],
)
def test_a_value_is_hashed_as_the_wire_has_it(
    source: BinlogColumn, printed: bytes, text: str
) -> None:
    same = masked_comparison(source, HASHED)
    assert same is not None
    assert same(printed, digest(text))
    assert not same(printed, text)
    assert not same(printed, digest(text + "x"))


def test_a_value_of_a_domain_is_compared_in_it() -> None:
    source, rule = column("VARCHAR", charset="utf8mb4"), Hmac("k", KEY, "mail")
    same = masked_comparison(source, rule)
    assert same is not None
    assert same(b"'abc'", rule("abc"))
    assert not same(b"'abc'", HASHED("abc"))


def test_what_a_witness_prints_otherwise_is_not_judged() -> None:
    assert masked_comparison(column("DOUBLE"), HASHED) is None
    assert masked_comparison(column("JSON"), HASHED) is None


@pytest.mark.parametrize(
    ("rule", "printed", "value", "is_same"),
    [
        (Truncate(2), b"'abc'", "ab", True),
        (Truncate(2), b"'abc'", "abc", False),
        (Redact("x"), b"'abc'", "x", True),
        (Redact("x"), b"'abc'", "abc", False),
        (Redact("x"), b"NULL", None, True),
        (Redact("x"), b"'abc'", None, False),
        (Redact(None), b"'abc'", None, True),
        (Redact(None), b"'abc'", "abc", False),
        (HASHED, b"'abc'", None, False),
    ],
)
def test_replaced_values_differ_from_all_others(
    rule: MaskingRule, printed: bytes, value: Any, is_same: bool
) -> None:
    same = masked_comparison(column("VARCHAR", charset="utf8mb4"), rule)
    comparer = Comparer(unjudged={}, route_of=lambda _: None)  # type: ignore[arg-type]
    assert comparer._same(printed, value, same, "c", is_replaced=False) is is_same


def compared(rules: str, *, names: bool, version: Described | None = None) -> Columns | None:
    """The comparison of ``shop.t``, which has the INT columns a (the key) and b."""
    columns = tuple(
        BinlogColumn(name if names else None, "INT", None, False, None, None) for name in ("a", "b")
    )
    mapping = from_yaml(f"{{tables: {{t: {{column_actions: {rules}}}}}}}")
    routes = Routes(prefix="aq", mapping=mapping, keys=MaskingKeys((("k", KEY),)))
    return Columns.of(Shape("shop", "t", columns, ("a",)), version, routes.of(("shop", "t")))


def described(**columns: str) -> Described:
    kinds = tuple(columns.values())
    return Described(
        columns=tuple(columns),
        types=kinds,
        charsets=tuple(None for _ in kinds),
        primary_key=("a",),
        topic="aq.shop.t",
    )


def test_columns_are_compared_under_the_names_and_masks_that_are_published() -> None:
    found = compared("{a: {hmac: k}, b: {rename: c}}", names=True)
    assert found is not None
    assert (found.names, found.shown, found.key) == (("a", "c"), ("a", "c"), ("a",))
    assert found.same[0] is not None
    assert found.same[0](b"5", digest("5"))
    assert found.same[1] is not None
    assert found.same[1](b"5", 5)
    dropped = compared("{b: drop}", names=True)
    assert dropped is not None
    assert dropped.shown == ("a",)


def test_a_binlog_without_names_shows_too_little_of_masked_columns() -> None:
    found = compared("{a: {hmac: k}}", names=False, version=described(a="varchar(66)", b="int"))
    assert found is not None
    assert [same is None for same in found.same] == [True, False]
    assert compared("{b: drop}", names=False, version=described(a="int")) is None
