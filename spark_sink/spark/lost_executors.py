"""A batch whose executors were lost is applied again.

Executors hold a batch as a local checkpoint, without the plan that computed it. So Spark cannot compute again
the part that a lost executor held.

Invariant: only after a loss of executors is a batch applied again, and only a few times. Applying a batch twice
changes nothing the second time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

_log = logging.getLogger(__name__)
_LOST: Final = re.compile(
    r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block rdd_\S+ not found"
    r"|ExecutorLostFailure|MetadataFetchFailedException|FetchFailed\b"
)
_ATTEMPTS: Final = 10


def again_if_lost(act: Callable[[], None], *, stopped: Callable[[], bool]) -> None:
    """Call `act`, and call it again if executors were lost meanwhile; raise its other errors.

    After a stop, or after 10 attempts, raise the error for lost executors too.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            act()
        except (PySparkException, Py4JJavaError) as fault:
            if attempt == _ATTEMPTS or stopped() or not is_loss(fault):
                raise
            _log.warning("executors lost: the batch is applied again attempt=%d", attempt + 1)
            _log.debug("details", exc_info=fault)
        else:
            return


def is_loss(failure: Exception) -> bool:
    """Whether a job failed only because executors were lost."""
    return _LOST.search(str(failure)) is not None
