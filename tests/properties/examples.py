"""How many random examples a property is tried on."""

from __future__ import annotations

import os

_SHARE = 3


def examples(whole: int) -> int:
    """All of them in ``make test SUITE=long``; a third in ``make test``, where each run draws others."""
    return whole if os.environ.get("LONG") == "all" else max(1, whole // _SHARE)
