"""Sealed bytes: opened by their key, for their table, and by nothing else."""

from __future__ import annotations

import pytest

from connectors.errors import MappingError
from tables.rules.masking import NO_KEYS, MaskingKeys, opened, sealed

ONE, OTHER = bytes(32), bytes(range(32))
KEYS = MaskingKeys((("new", ONE), ("old", OTHER)))


def test_the_first_key_seals_and_every_key_opens() -> None:
    name, raw = sealed(KEYS, b"canary", b"table")
    assert name == "new"
    assert b"canary" not in raw
    assert sealed(KEYS, b"canary", b"table")[1] != raw
    rotated = MaskingKeys((("newest", bytes(40)), ("new", ONE)))
    assert opened(rotated, name, raw, b"table") == b"canary"


@pytest.mark.parametrize(
    ("keys", "about", "cut", "fault"),
    [
        (MaskingKeys((("old", OTHER),)), b"table", None, "lacks; add it again"),
        (MaskingKeys((("new", OTHER),)), b"table", None, "another key than 'new'"),
        (KEYS, b"another table", None, "another key than 'new'"),
        (KEYS, b"table", -1, "another key than 'new'"),
        (KEYS, b"table", 3, "another key than 'new'"),
    ],
)
def test_what_does_not_fit_is_refused(
    keys: MaskingKeys, about: bytes, cut: int | None, fault: str
) -> None:
    name, raw = sealed(KEYS, b"canary", b"table")
    with pytest.raises(MappingError, match=fault):
        opened(keys, name, raw[:cut], about)


def test_without_a_key_nothing_is_sealed() -> None:
    with pytest.raises(MappingError, match=r"name mapping\.key_file"):
        sealed(NO_KEYS, b"canary", b"table")
