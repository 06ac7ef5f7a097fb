"""Topics that may lose records with a broker, as /status and a metric show them.

Invariant: a weak topic is written to all the same; it is named for as long as this worker has seen it so.
"""

from __future__ import annotations

from app import metrics
from app.service.status import DestinationStatus

_MOST_SHOWN = 20


class WeakTopics:
    """Takes what ``Topics`` reports of each topic that a destination uses."""

    def __init__(self, status: DestinationStatus) -> None:
        self._status = status
        self._found: dict[str, tuple[str, ...]] = {}

    def __call__(self, topic: str, weak: tuple[str, ...]) -> None:
        """A topic was looked at, and is weak for these reasons; none where it is not."""
        if weak:
            self._found[topic] = weak
        else:
            self._found.pop(topic, None)
        told = [f"topic {name}: {why}" for name, all_ in self._found.items() for why in all_]
        more = [f"{len(told) - _MOST_SHOWN} more of this kind"] if len(told) > _MOST_SHOWN else []
        self._status.warnings["topics"] = told[:_MOST_SHOWN] + more
        metrics.WEAK_TOPICS.labels(self._status.name).set(len(self._found))
