"""Comparison of a masked value on the wire with the source's: both are masked, and only then compared.

Invariant: the value is written as docs/wire.md has it, by rules of its own; types whose text on the wire a
witness does not print exactly are not judged.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

from app.audit.character_sets import decoder_of
from app.audit.table_shape import Column
from app.audit.value_comparison import Same, comparison, unquoted
from tables.rules.masking.rules import Hmac, MaskingRule, Redact, Truncate

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"})
_TEXTS = frozenset({"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"})
_BYTES = frozenset({"VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})


class _Redacted:
    """The comparison of a column whose values are all replaced by one, which may be NULL."""

    may_be_null = True

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __call__(self, printed: bytes, value: Any) -> bool:  # noqa: ARG002 - as a Same
        return bool(value == self._text)


def masked_comparison(column: Column, rule: MaskingRule) -> Same | None:
    """Return the comparison of a masked column's values; None if there is none."""
    if isinstance(rule, Redact):
        return _Redacted(rule.text)
    text_of = _text_of(column)
    if text_of is None:
        return None
    if isinstance(rule, Truncate):
        length = rule.length
        return lambda printed, value: bool(text_of(printed)[:length] == value)
    if isinstance(rule, Hmac):
        key_id, key = rule.key_id, rule.key
        before = b"\xff" + rule.domain.encode() + b"\xff" if rule.domain else b""

        def same(printed: bytes, value: Any) -> bool:
            digest = hmac.new(key, before + text_of(printed).encode(), hashlib.sha256).hexdigest()
            return bool(value == f"{key_id}:{digest}")

        return same
    return None


def _text_of(column: Column) -> Callable[[bytes], str] | None:
    """The function from a printed value to its text on the wire."""
    kind = column.type
    if kind in _INTEGERS:
        return _unsigned if column.unsigned else _signed
    if kind in _TEXTS:
        decode = decoder_of(column.charset)
        return None if decode is None else lambda printed: decode(unquoted(printed))
    if kind in _BYTES:
        return lambda printed: base64.b64encode(unquoted(printed)).decode()
    if kind == "DECIMAL":
        return bytes.decode
    if kind == "DATE":
        return lambda printed: unquoted(printed).decode().replace(":", "-")
    if kind == "ENUM" and column.labels is not None and comparison(column) is not None:
        labels = ("", *column.labels)
        return lambda printed: labels[int(printed)]
    return None


def _signed(printed: bytes) -> str:
    return str(int(printed.partition(b" ")[0]))


def _unsigned(printed: bytes) -> str:
    number, _, more = printed.partition(b" (")
    return str(int(more[:-1] if more else number))
