"""Several tables of a batch at a time, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

Part = TypeVar("Part")


def in_parallel(
    act: Callable[[Part], None], parts: Sequence[Part], *, session: SparkSession, threads: int
) -> None:
    """Run `act` on all parts; raise the first part's error after all have ended."""
    if len(parts) == 1:
        act(parts[0])
        return
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        # Each thread gets the batch's Spark properties, so a stop cancels its jobs too. Each gets a copy of its
        # own, since Spark writes into them.
        done = [pool.submit(inheritable_thread_target(session)(act), part) for part in parts]
    for outcome in done:
        outcome.result()
