"""The commit conflicts of Iceberg."""

from __future__ import annotations

import re
from typing import Final

from spark_sink.warehouse.common.conflict import Conflicts

_PARTIAL: Final = "is true but [0-9]+ rewrite commits failed"
"""Some commits of a rewrite have failed: because other commits came first, or for any other reason."""
# Not every ValidationException is a conflict, so the messages of conflicts are listed.
_CONFLICTS: Final = Conflicts(
    re.compile(
        r"CommitFailedException|Found conflicting files|Found new conflicting delete|"
        r"Found conflicting deleted files|missing data files|"
        r"found new (position )?deletes? for replaced data file|Missing required files to delete|"
        rf"{_PARTIAL}"
    )
)
again_on_conflict: Final = _CONFLICTS.again
conflicts_by_name: Final = _CONFLICTS.by_name


def is_partial(failure: Exception) -> bool:
    """Whether some of the commits of a rewrite have failed."""
    return re.search(_PARTIAL, str(failure)) is not None
