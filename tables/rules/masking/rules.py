"""The rules that replace a column's values, and the columns that they make.

Invariant: a rule depends on the value alone. So equal values of a column have equal replacements in all
shards, images and keys, and on every worker with the same key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import orjson

from connectors.mysql.rows.decoder import ColumnRule, Value
from tables.rules.mapping.rules import ColumnAction
from tables.rules.masking.keys import MaskingKeys
from wire.table_version import Column

_HEX = 2 * hashlib.sha256().digest_size
_CHARSET = "utf8mb4"


class MaskingRule(ColumnRule, Protocol):
    """A rule that hides values."""

    @property
    def reads(self) -> int | None:
        """The count of a value's first characters that its replacement depends on; None: on all of them."""

    def column(self, column: Column) -> Column:
        """Return the column of its replacements."""


@dataclass(frozen=True, slots=True)
class Hmac:
    """``<key id>:<HMAC-SHA256 in hexadecimal>`` of a value's text (RFC 2104).

    The text is as in the record: a string in UTF-8, a number as in JSON. In a domain, the domain's name
    precedes the text, between two bytes 0xff. UTF-8 never contains such a byte, so no value of a row has an
    HMAC of another domain.
    """

    key_id: str
    key: bytes = field(repr=False)
    domain: str = ""
    reads: ClassVar[None] = None

    def __call__(self, value: Value) -> Value:
        """Return the HMAC."""
        raw = value.encode() if isinstance(value, str) else orjson.dumps(value)
        if self.domain:
            raw = b"\xff%b\xff%b" % (self.domain.encode(), raw)
        return f"{self.key_id}:{hmac.digest(self.key, raw, 'sha256').hex()}"

    def column(self, column: Column) -> Column:
        """A text of fixed length."""
        return _text(column, len(self.key_id) + 1 + _HEX)


@dataclass(frozen=True, slots=True)
class Truncate:
    """The first characters of a text."""

    length: int
    """In characters (code points)."""

    @property
    def reads(self) -> int:
        """The part that is shown."""
        return self.length

    def __call__(self, value: Value) -> Value:
        """Return the beginning."""
        return value[: self.length] if isinstance(value, str) else value

    def column(self, column: Column) -> Column:
        """A text of at most this length, in the column's own character set."""
        return replace(_text(column, self.length), charset=column.charset)


@dataclass(frozen=True, slots=True)
class Redact:
    """A fixed text, or NULL, for every value."""

    text: str | None
    reads: ClassVar[int] = 0

    def __call__(self, value: Value) -> Value:  # noqa: ARG002 - of every rule
        """Return the text."""
        return self.text

    def column(self, column: Column) -> Column:
        """The column itself made nullable, if values become NULL; otherwise a text."""
        if self.text is None:
            return replace(column, nullable=True)
        return _text(column, len(self.text))


_RULES: dict[str, Callable[[ColumnAction, MaskingKeys], MaskingRule]] = {
    "hmac": lambda one, keys: Hmac(one.argument, keys.key(one.argument), one.domain),
    "truncate": lambda one, _: Truncate(int(one.argument)),
    "redact": lambda one, _: Redact(one.argument or None),
}


def column_rules(actions: Iterable[ColumnAction], keys: MaskingKeys) -> dict[str, MaskingRule]:
    """The rules by column, in lower case; raise KeyError if a key is not among ``keys``."""
    replacing = (one for one in actions if one.kind.hides and not one.kind.removes)
    return {one.column.lower(): _RULES[one.action](one, keys) for one in replacing}


def masks(actions: Iterable[ColumnAction]) -> bool:
    """Whether any of the actions hides values."""
    return any(one.kind.hides for one in actions)


def _text(column: Column, length: int) -> Column:
    return replace(column, type=f"varchar({length})", charset=_CHARSET, column_type=None)
