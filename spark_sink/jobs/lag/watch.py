"""Looks at Kafka's ends beside the stream, so that a stall is seen though no batch ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from spark_sink.errors import KafkaUnreachable
from spark_sink.jobs.lag.completeness import Freshness
from spark_sink.metrics import Metrics
from spark_sink.source.offsets import Offsets

_log = logging.getLogger(__name__)
SECONDS: Final = 5.0


class Watch:
    """Keeps the metrics of lag and of Kafka's presence true."""

    def __init__(
        self,
        ends: Callable[[], Offsets],
        applied: Callable[[], Offsets],
        metrics: Metrics,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._ends = ends
        self._applied = applied
        self._metrics = metrics
        self._clock = clock
        self._freshness = Freshness()
        self._away = False
        self._ended = threading.Event()

    def begin(self, newest: float) -> None:
        """Starts from when the last batch was applied; without one, from now."""
        now = self._clock()
        self._freshness.complete_until = min(newest, now) if newest else now
        self._metrics.complete(until=self._freshness.complete_until, unapplied=0)

    def complete_until(self) -> float:
        """The time of which all that Kafka held is applied."""
        return self._freshness.complete_until

    def run(self, stop: threading.Event) -> None:
        """Looks every few seconds until a stop, or `end`."""
        while not (stop.is_set() or self._ended.is_set()):
            try:
                self.look()
            except Exception:
                # The JVM ends with the sink, and may do so during a request.
                if stop.is_set() or self._ended.is_set():
                    return
                _log.exception("Kafka's offsets were not read")
            self._ended.wait(SECONDS)

    def end(self) -> None:
        """Looks no more."""
        self._ended.set()

    def look(self) -> None:
        """Asks once."""
        at = self._clock()
        try:
            ends = self._ends()
        except KafkaUnreachable as fault:
            if not self._away:
                _log.error("%s. The sink continues once it answers", fault)
            self._away = True
        else:
            if self._away:
                _log.info("Kafka answers again")
            self._away = False
            self._freshness.seen(at, ends)
        applied = self._applied()
        self._metrics.complete(
            until=self._freshness.reached(applied), unapplied=self._freshness.unapplied(applied)
        )
        self._metrics.unapplied(self._freshness.unapplied_topics(applied))
        self._metrics.kafka(up=not self._away)
