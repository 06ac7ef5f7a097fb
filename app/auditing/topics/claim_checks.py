"""Records whose images wait in the claim store, made whole again for an audit.

The law: what stands there is held to the pointer's length and digest, and then to the source like any other
row; what nobody can look at is counted, and no fault.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import orjson

from connectors.claims.store import ClaimStore, name_of
from connectors.errors import ClaimGone


class Claims:
    """Redeems pointers, and counts what it cannot."""

    def __init__(self, store: ClaimStore | None, unjudged: Counter[str]) -> None:
        self._store = store
        self._unjudged = unjudged

    def redeem(self, value: dict[str, Any]) -> str | None:
        """Put the images where the pointer is; what is wrong with them, or None."""
        if "left_out" in value:
            self._unjudged["rows without images (key_only)"] += 1
        told = value.get("claim_check")
        if told is None:
            return None
        if self._store is None:
            self._unjudged["rows in a claim store that the settings do not name"] += 1
            return None
        try:
            stored = self._store.get(name_of(told["location"]))
        except ClaimGone:
            return "its images are not in the claim store"
        if (len(stored), hashlib.sha256(stored).hexdigest()) != (told["size"], told["sha256"]):
            return "its images in the claim store differ from those stored"
        del value["claim_check"]
        value.update(orjson.loads(stored))
        return None


def is_whole(value: dict[str, Any]) -> bool:
    """Whether a record has all of its row."""
    return "claim_check" not in value and "left_out" not in value
