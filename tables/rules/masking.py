"""Masking of columns: the keys of a key file, the rules that replace a column's values, and what they make.

Invariant: no text contains a key. Each HMAC contains its key's id, so that a rotation shows. A rule depends
on the value alone. So equal values of a column have equal replacements in all shards, images and keys, and
on every worker with the same key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from connectors.errors import MappingError
from connectors.mysql.rows.decoder import ColumnRule, Value
from tables.rules.mapping.rules import ColumnAction
from wire.table_version import Column

MIN_BYTES = 32
"""The least length of a key: the length of a SHA-256 digest, by RFC 2104."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_SEAL = b"aqueduct seal 1"
"""The salt of sealing keys, so that no HMAC of a value is a sealing key."""


@dataclass(frozen=True, slots=True)
class MaskingKeys:
    """Keys by id, in the file's order; the first seals."""

    _keys: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)

    @classmethod
    def from_text(cls, text: str) -> MaskingKeys:
        """Read lines ``id: base64``; empty lines and lines that begin with ``#`` are ignored.

        Raise MappingError with all faults, by line and without any content of the file.
        """
        found: dict[str, bytes] = {}
        faults: list[str] = []
        for number, line in enumerate(map(str.strip, text.splitlines()), 1):
            if line and not line.startswith("#"):
                faults += (f"line {number}: {fault}" for fault in _read(line, found))
        if faults:
            raise MappingError.listed(faults)
        if not found:
            raise MappingError("the key file has no key")
        return cls(tuple(found.items()))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def key(self, name: str) -> bytes:
        """The key of an id; raise KeyError if there is none."""
        return dict(self._keys)[name]

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids, in the file's order."""
        return tuple(name for name, _ in self._keys)

    def sealing_key(self, name: str) -> bytes:
        """The key, of 32 bytes, that seals raw rows with an id; raise KeyError if there is none."""
        return hmac.digest(_SEAL, self.key(name), "sha256")


NO_KEYS = MaskingKeys()
"""The empty set of keys, used without a key file."""


def _read(line: str, found: dict[str, bytes]) -> Iterator[str]:
    name, separator, encoded = line.partition(":")
    if not separator or not _ID.fullmatch(name):
        yield "write `id: key`, the id with up to 32 letters, digits, - and _"
        return
    try:
        key = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        yield "the key is not base64"
        return
    if len(key) < MIN_BYTES:
        yield f"the key has {len(key)} bytes; it needs {MIN_BYTES}"
    if name in found:
        yield f"the id {name} is given twice"
    found[name] = key


# Raw bytes of masked tables, sealed: without the key file, a reader of the topic cannot read them.
#
# Invariant: sealed bytes are opened unchanged and for the same table, or refused. Source:
# AES-256-GCM, NIST SP 800-38D, with a random nonce before the sealed bytes.


_NONCE = 12
"""Bytes of a nonce. With random nonces a key may seal 2^32 times, more often than rows are quarantined."""


def sealed(keys: MaskingKeys, plain: bytes, about: bytes) -> tuple[str, bytes]:
    """Seal bytes with the first key; return its id, and the sealed bytes.

    ``about``: what the bytes belong to; it is not hidden. Raise MappingError if there is no key.
    """
    if not keys:
        raise MappingError("raw rows of a masked table cannot be sealed; name mapping.key_file")
    name, nonce = keys.ids[0], os.urandom(_NONCE)
    return name, nonce + AESGCM(keys.sealing_key(name)).encrypt(nonce, plain, about)


def opened(keys: MaskingKeys, name: str, raw: bytes, about: bytes) -> bytes:
    """Open what ``sealed`` returned; raise MappingError if the key is missing or has changed."""
    try:
        key = keys.sealing_key(name)
    except KeyError:
        raise MappingError(
            f"rows are sealed with the key {name!r}, which mapping.key_file lacks; add it again"
        ) from None
    try:
        return AESGCM(key).decrypt(raw[:_NONCE], raw[_NONCE:], about)
    except (InvalidTag, ValueError):
        raise MappingError(
            f"rows are sealed with another key than {name!r} of mapping.key_file; give that id its old key"
        ) from None


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
