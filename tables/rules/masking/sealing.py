"""Raw bytes of masked tables, sealed: without the key file, a reader of the topic sees none of them.

Invariant: what was sealed is opened unchanged, for the same table, or refused.
Source: AES-256-GCM, NIST SP 800-38D, with a random nonce before the sealed bytes.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from connectors.errors import MappingError
from tables.rules.masking.keys import MaskingKeys

_NONCE = 12
"""Bytes. A key may seal 2^32 times with random ones; so often nothing waits in quarantine."""


def sealed(keys: MaskingKeys, plain: bytes, about: bytes) -> tuple[str, bytes]:
    """Seal bytes with the first key; return its id, and the sealed bytes.

    ``about``: what the bytes belong to, which is not hidden. Raises MappingError if there is no key.
    """
    if not keys:
        raise MappingError("raw rows of a masked table cannot be sealed; name mapping.key_file")
    name, nonce = keys.ids[0], os.urandom(_NONCE)
    return name, nonce + AESGCM(keys.sealing_key(name)).encrypt(nonce, plain, about)


def opened(keys: MaskingKeys, name: str, raw: bytes, about: bytes) -> bytes:
    """Open what ``sealed`` returned; raise MappingError if the key is missing, or another."""
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
