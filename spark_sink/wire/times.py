"""Times as commands print them."""

from __future__ import annotations

import datetime


def utc(ms: int) -> str:
    """A time (ms since 1970) in UTC, by the second: 2026-11-22T15:02:11Z."""
    at = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
