"""The commit conflicts of Delta."""

from __future__ import annotations

import re
from typing import Final

from spark_sink.warehouse.common.conflict import Conflicts

_CONFLICTS: Final = Conflicts(
    re.compile(r"DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED")
)
again_on_conflict: Final = _CONFLICTS.again
conflicts_by_name: Final = _CONFLICTS.by_name
