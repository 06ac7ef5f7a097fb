"""Key files: read whole or refused whole, and never shown."""

from __future__ import annotations

import base64
import hmac

import pytest

from connectors.errors import MappingError
from tables.rules.masking import MaskingKeys

ONE, OTHER = bytes(range(32)), bytes(range(32, 72))
TEXT = f"# ours\n\nk2: {base64.b64encode(ONE).decode()}\nk1:{base64.b64encode(OTHER).decode()}\n"


def test_a_file_has_its_keys_in_order_and_shows_none() -> None:
    keys = MaskingKeys.from_text(TEXT)
    assert keys
    assert (keys.ids, keys.key("k2"), keys.key("k1")) == (("k2", "k1"), ONE, OTHER)
    assert repr(keys) == "MaskingKeys()"
    assert not MaskingKeys()


def test_a_sealing_key_is_no_hmac_of_any_value() -> None:
    keys = MaskingKeys.from_text(TEXT)
    sealing = keys.sealing_key("k2")
    assert len(sealing) == 32
    # An account that may write rows can have any text hashed with the key itself.
    assert sealing != hmac.digest(ONE, b"aqueduct seal 1", "sha256")
    assert sealing != keys.sealing_key("k1")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "has no key"),
        ("k1 secret", "line 1: write `id: key`"),
        ("ä: secret", "line 1: write `id: key`"),
        ("k1: sec~ret", "line 1: the key is not base64"),
        ("k1: c2VjcmV0", "the key has 6 bytes; it needs 32"),
        (f"{TEXT}k1: {base64.b64encode(ONE).decode()}", "line 5: the id k1 is given twice"),
    ],
)
def test_a_fault_is_named_by_its_line_without_the_content(text: str, fault: str) -> None:
    with pytest.raises(MappingError, match=fault) as caught:
        MaskingKeys.from_text(text)
    assert "sec" not in str(caught.value)
    assert "c2V" not in str(caught.value)
