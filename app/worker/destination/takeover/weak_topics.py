"""Topics that may lose records if a broker fails, for /status and a metric.

Invariant: a weak topic is written to nevertheless; it is listed while its last check found it weak.
"""

from __future__ import annotations

from app import metrics
from app.worker.status import DestinationStatus

_MOST_SHOWN = 20


class WeakTopics:
    """Receives the report of ``Topics`` on each topic that a destination uses."""

    def __init__(self, status: DestinationStatus) -> None:
        self._status = status
        self._found: dict[str, tuple[str, ...]] = {}

    def __call__(self, topic: str, weak: tuple[str, ...]) -> None:
        """Record the reasons for which a topic is weak; empty if it is not."""
        if weak:
            self._found[topic] = weak
        else:
            self._found.pop(topic, None)
        lines = [f"topic {name}: {why}" for name, all_ in self._found.items() for why in all_]
        more = [f"{len(lines) - _MOST_SHOWN} more of this kind"] if len(lines) > _MOST_SHOWN else []
        self._status.warnings["topics"] = lines[:_MOST_SHOWN] + more
        metrics.WEAK_TOPICS.labels(self._status.name).set(len(self._found))
