"""The environment's variables that begin as ours do.

The law: a misspelt variable would be a setting that is silently not set, so it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from connectors.errors import SettingsError

PREFIX = "AQUEDUCT_"
_NOT_OURS = ("AQUEDUCT_SINK_", "AQUEDUCT_SPARK_", "AQUEDUCT_TEST_")
"""What variables of the other programs begin with."""


def refuse_unknown(settings: Iterable[str], *others: str) -> None:
    """Raise SettingsError for a variable that is none of these settings', nor one of the others."""
    known = {f"{PREFIX}{name.upper()}" for name in settings} | {*others}
    unknown = [
        name
        for name in sorted(os.environ)
        if name.upper().startswith(PREFIX)
        and not name.upper().startswith(_NOT_OURS)
        and name.upper().split("__")[0] not in known
    ]
    if unknown:
        raise SettingsError(f"the environment sets {', '.join(unknown)}, which is no setting")
