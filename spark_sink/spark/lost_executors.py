"""A batch whose executors were lost is applied again.

A batch is held by executors as a local checkpoint, without the plan that it came from: Spark cannot compute
again what a lost executor held of it.

Invariant: only the loss of executors is answered in this way, and only some times for a batch. A batch that is
applied twice changes nothing the second time.
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
    """Do `act`, and do it again if executors were lost meanwhile; raise what else it raises.

    A stop ends this after the attempt in hand.
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
