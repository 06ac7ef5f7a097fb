"""The check of environment variables with our prefix.

Invariant: a misspelt variable would be a setting that is silently not set, so it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from connectors.errors import SettingsError

PREFIX = "AQUEDUCT_"
_OTHER_PREFIXES = ("AQUEDUCT_SINK_", "AQUEDUCT_SPARK_", "AQUEDUCT_TEST_")
"""Prefixes of other programs' variables."""


def refuse_unknown(settings: Iterable[str], *others: str) -> None:
    """Raise SettingsError for a variable that neither these settings nor the other programs have."""
    known = {f"{PREFIX}{name.upper()}" for name in settings} | {*others}
    unknown = [
        name
        for name in sorted(os.environ)
        if name.upper().startswith(PREFIX)
        and not name.upper().startswith(_OTHER_PREFIXES)
        and name.upper().split("__")[0] not in known
    ]
    if unknown:
        raise SettingsError(f"the environment sets {', '.join(unknown)}, which is no setting")
