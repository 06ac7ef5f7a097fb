"""Commit conflicts of a format: retries, and their translation to CommitConflict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_sink.warehouse.protocol import CommitConflict

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The conflicts of one format, recognized by their text."""

    pattern: re.Pattern[str]

    def again(self, act: Callable[[], object]) -> None:
        """Retry `act`, which is idempotent, if another writer (for instance a compaction) committed first."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                act()
            # Spark's errors have classes in Python; a format's conflicts arrive as raw Java errors.
            except (PySparkException, Py4JJavaError) as fault:
                if attempt == _ATTEMPTS or not self._is_one(fault):
                    raise
            else:
                return

    @contextmanager
    def by_name(self) -> Iterator[None]:
        """Raise CommitConflict in place of the format's own error."""
        try:
            yield
        except (PySparkException, Py4JJavaError) as fault:
            if not self._is_one(fault):
                raise
            raise CommitConflict(str(fault)) from fault

    def _is_one(self, failure: PySparkException | Py4JJavaError) -> bool:
        """Whether a commit failed only because another commit was first."""
        return self.pattern.search(str(failure)) is not None
