"""Records whose images are in the claim-check store, completed for an audit.

Invariant: a stored value is checked against the pointer's length and digest, and then against the
source like any other row; an inaccessible one is counted, and no fault.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson

from connectors.errors import ClaimGone
from connectors.store.claims import ClaimStore, name_of
from wire.records import is_claimed


class Claims:
    """Resolves pointers, and counts those that it cannot resolve."""

    def __init__(self, store: ClaimStore | None, unjudged: Counter[str]) -> None:
        self._store = store
        self._unjudged = unjudged

    def redeem(self, value: dict[str, Any]) -> str | None:
        """Replace the pointer by the images; return what is wrong with them, or None."""
        if "left_out" in value:
            self._unjudged["rows without images (key_only)"] += 1
        claim = value.get("claim_check")
        if claim is None:
            return None
        if self._store is None:
            self._unjudged["rows in a claim store that the settings do not name"] += 1
            return None
        try:
            stored = self._store.get(name_of(claim["location"]))
        except ClaimGone:
            return "its images are not in the claim store"
        if not is_claimed(claim, stored):
            return "its images in the claim store differ from those stored"
        del value["claim_check"]
        value.update(orjson.loads(stored))
        return None


def is_whole(value: dict[str, Any]) -> bool:
    """Whether a record has all of its row."""
    return "claim_check" not in value and "left_out" not in value
