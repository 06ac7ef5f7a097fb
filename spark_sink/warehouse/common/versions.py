"""Versions of a table that a format no longer has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_sink.warehouse.protocol import VersionGone


@contextmanager
def gone_by_name(place: str, said: Collection[str]) -> Iterator[None]:
    """Raise VersionGone in place of an error with one of the texts `said`, by which a format reports this."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as fault:
        if any(words in str(fault) for words in said):
            raise VersionGone(place) from fault
        raise
