"""Commit conflicts of Delta: retries, and their translation to CommitConflict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_sink.warehouse.protocol import CommitConflict

_CONFLICT: Final = re.compile(r"DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED")
_ATTEMPTS: Final = 5


def again_on_conflict(act: Callable[[], object]) -> None:
    """Retries `act`, which is idempotent, if another writer (for instance OPTIMIZE) committed first."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            act()
        # Spark's errors have classes in Python; Delta's conflicts arrive as raw Java errors.
        except (PySparkException, Py4JJavaError) as fault:
            if attempt == _ATTEMPTS or not _is_conflict(fault):
                raise
        else:
            return


@contextmanager
def conflicts_by_name() -> Iterator[None]:
    """Raises CommitConflict in place of Delta's own error."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as fault:
        if not _is_conflict(fault):
            raise
        raise CommitConflict(str(fault)) from fault


def _is_conflict(failure: PySparkException | Py4JJavaError) -> bool:
    """Whether a commit failed only because another commit was first."""
    return _CONFLICT.search(str(failure)) is not None
