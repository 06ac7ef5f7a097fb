"""The wait for a merge: until the merged topic has what a destination has published of it.

Invariant: a merge copies the records of each partition in their order, so once the last one of a share is in
the merged topic, all before it are.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from app.operator.validation.rows.errors import PublishingStalled
from app.operator.validation.rows.folded_topic import FoldedTopic, Order
from app.operator.validation.rows.published_position import STALLED_SECONDS
from connectors.kafka.reading.follower import Follower, Partition, Take, read_some

Goals = Mapping[int, Order]
"""The numbers of the last record of each partition of a share."""


class MergeWait:
    """Waits for the merge of one topic, while it is folded."""

    def __init__(
        self,
        folded: FoldedTopic,
        follower: Follower,
        partitions: Sequence[Partition],
        *,
        newest: Callable[[], Awaitable[Goals]],
        take: Take,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        """``partitions``: those of the merged topic; ``newest``: reads the goals of now."""
        self._folded, self._follower, self._partitions = folded, follower, partitions
        self._newest, self._take, self._stalled_seconds = newest, take, stalled_seconds

    async def caught_up(self) -> None:
        """Wait until all that the destination has published by now is merged, and folded.

        Raises PublishingStalled if none of its records is merged for long.
        """
        goals, reached = await self._newest(), self._folded.reached
        missing, moved = self._missing(goals), time.monotonic()
        while missing:
            before = dict(reached)
            await read_some(self._follower, self._partitions, self._take)
            if reached != before:
                moved = time.monotonic()
            missing = self._missing(goals)
            if missing and time.monotonic() - moved > self._stalled_seconds:
                topic, part = self._partitions[0][0], missing[0]
                raise PublishingStalled(
                    f"for {self._stalled_seconds:.0f} s no record of it is merged, and {topic} [{part}] ends "
                    f"before seq {goals[part][1]}: the merge does not run, or waits",
                    destination=self._folded.destination,
                )

    def _missing(self, goals: Goals) -> list[int]:
        """The partitions whose goal is not reached."""
        reached = self._folded.reached
        return [part for part, goal in sorted(goals.items()) if reached.get(part, (0, 0)) < goal]
