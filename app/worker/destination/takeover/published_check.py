"""Comparison of the published records in a destination's topics with its cursor.

Invariant: rows, table versions and cursor are committed together, so no topic has more than the
newest cursor counts. If a topic has more, the journal is an older copy or has lost its newest records,
and numbers would be assigned twice. A topic that takes no records now is not compared: it may not be
readable either, and the destination must not wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.worker.destination.background import beside
from connectors.errors import JournalOutdated, JournalUnreadable, MergeUnfinished
from connectors.kafka.reading import (
    Away,
    Partition,
    StoredRecord,
    newest,
    read_each,
    source_of,
)
from connectors.kafka.topics import Topics
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from tables.state.merge_cursor import MERGE, MergeCursor, MergeCursors
from wire.records import HEADER_CHANGE_ID
from wire.topics import (
    ddl_topic,
    journal_topic,
    merged_topic,
    schemas_topic,
    shard_owner,
    shard_topics,
)

_SKEW_MS = 3_600_000
"""The maximum difference of workers' clocks; partitions without newer records are not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The topics of one destination."""

    destination: str
    prefix: str
    options: Mapping[str, Any]

    async def check(self, state: DestinationState) -> None:
        """Raise JournalOutdated if the topics hold more than the cursor counts."""
        if state.cursor is None:
            return
        async with beside(self._versions(state.cursor)) as versions:
            rows = await self.newest(state, away=Topics(self.options).unwritable)
            news = await versions
        for one, record in rows.items():
            source = source_of(record)
            if (source["epoch"], source["seq"]) > (state.cursor.epoch, state.cursor.seq) or (
                source["seq"] > state.cursor.seq
            ):
                what = f"epoch {source['epoch']} seq {source['seq']}"
                raise self._outdated(one, record, what, cursor=state.cursor)
        for one, record in news.items():
            version = self._version(record)
            if version is not None and not _is_known(version, state):
                what = f"version {version.version} of {version.database}.{version.table}"
                raise self._outdated(one, record, what, cursor=state.cursor)

    async def check_merged(
        self,
        state: DestinationState,
        partitions: int,
        *,
        destinations: Collection[str] = (),
        merges: Collection[str] = (),
    ) -> None:
        """Raise MergeUnfinished if a merge that the destination has left did not publish all records.

        ``partitions``: the number of the journal's partitions; one of them has the cursors of that merge.
        ``destinations``: all of the settings, and ``merges``, the units of all their merges. The records of a
        destination that the settings no longer have, which was in the same merge, count too: no other part of
        a worker reads them. Without ``destinations``, the records of this destination count alone.
        """
        own = {
            one.topic
            for one in state.published
            if one.topic.startswith(shard_topics(self.prefix, self.destination))
        }
        if not own:
            return
        last = await newest(self.options, own, since_ms=None, wanted=bool)
        removed = await self._removed(destinations) if destinations else set()
        if not last and not removed:
            return
        cursors = await self._merge_cursors(partitions)
        self._check_merged(last, cursors)
        if left := self._of_same_merge(removed, own, cursors, merges):
            last = await newest(self.options, left, since_ms=None, wanted=bool)
            self._check_merged(last, cursors)

    def _check_merged(
        self, last: Mapping[Partition, StoredRecord], cursors: Collection[MergeCursor]
    ) -> None:
        """Raise MergeUnfinished if one of the newest records of shares' topics was not merged."""
        for (topic, partition), record in last.items():
            until = [one.offsets.get(str(partition), 0) for one in cursors if one.topic == topic]
            if record.offset >= max(until, default=0):
                owner = shard_owner(self.prefix, topic)
                gone = (
                    f", and the settings have no destination {owner}"
                    if owner != self.destination
                    else ""
                )
                raise MergeUnfinished(
                    f"{topic} has records that {merged_topic(self.prefix, owner, topic)} lacks{gone}",
                    destination=self.destination,
                    topic=topic,
                    partition=partition,
                    offset=record.offset,
                )

    async def _removed(self, destinations: Collection[str]) -> set[str]:
        """The topics of shares of destinations that the settings no longer have."""
        every = shard_topics(self.prefix)
        return {
            topic
            for topic in await Topics(self.options).counts()
            if topic.startswith(every) and shard_owner(self.prefix, topic) not in destinations
        }

    def _of_same_merge(
        self,
        removed: Collection[str],
        own: Collection[str],
        cursors: Collection[MergeCursor],
        merges: Collection[str],
    ) -> set[str]:
        """The topics of removed destinations that were in a merge with this one.

        A merge that the settings still have looks for them itself. Of a destination of which nothing was merged
        yet, the topics count that were to be merged into the same topics.
        """

        def owner(topic: str) -> str:
            return shard_owner(self.prefix, topic)

        ended = {one.merge for one in cursors if one.topic in own} - {*merges}
        kept = {owner(one.topic) for one in cursors if one.merge in merges}
        others = {owner(one.topic) for one in cursors if one.merge in ended} - kept
        targets = {merged_topic(self.prefix, self.destination, topic) for topic in own}
        return {
            topic
            for topic in removed
            if owner(topic) in others
            or (
                owner(topic) not in kept
                and merged_topic(self.prefix, owner(topic), topic) in targets
            )
        }

    async def _merge_cursors(self, partitions: int) -> list[MergeCursor]:
        """How far topics were merged, by all merges, also by those whose names the settings no longer have."""
        found: dict[tuple[str, str], MergeCursor] = {}

        def take(record: StoredRecord) -> None:
            if MERGE.is_of(record.key) and record.value:
                one = MergeCursors()
                one.take(MERGE.name, [], record)
                found.update(((each.merge, each.topic), each) for each in one.by_topic.values())

        for number in range(partitions):
            await read_each(
                self.options, journal_topic(self.prefix), number, take=take, waits_for_open=False
            )
        return [*found.values()]

    def _has_row(self, record: StoredRecord) -> bool:
        """Whether a record is the destination's; other programs may write to its topics, too."""
        try:
            source = source_of(record)
        except (KeyError, TypeError, ValueError):
            return False
        numbers = source.get("epoch"), source.get("seq")
        return source.get("name") == self.destination and all(
            isinstance(one, int) for one in numbers
        )

    async def newest(
        self, state: DestinationState, *, away: Away | None = None
    ) -> dict[Partition, StoredRecord]:
        """The destination's newest row or DDL in each partition that may have one since the cursor.

        ``away``: see ``connectors.kafka.reading.newest``.
        """
        assert state.cursor is not None
        topics = {version.topic for version in state.versions.values()}
        return await newest(
            self.options,
            {*topics, ddl_topic(self.prefix, self.destination)},
            since_ms=_since(state.cursor),
            wanted=self._has_row,
            away=away,
        )

    async def _versions(self, cursor: Cursor) -> dict[Partition, StoredRecord]:
        return await newest(
            self.options,
            [schemas_topic(self.prefix)],
            since_ms=_since(cursor),
            wanted=lambda record: self._version(record) is not None,
        )

    async def all_versions(self) -> list[TableVersion]:
        """Every table version that was published, in order."""
        found: list[TableVersion] = []

        def take(record: StoredRecord) -> None:
            if (version := self._version(record)) is not None:
                found.append(version)

        await read_each(self.options, schemas_topic(self.prefix), 0, take=take)
        return found

    def _version(self, record: StoredRecord) -> TableVersion | None:
        """The destination's version in a record; None for any other, as other programs may write there, too."""
        if not record.value:
            return None
        try:
            if orjson.loads(record.key)["destination"] != self.destination:
                return None
            return TableVersion.from_json(orjson.loads(record.value))
        except (KeyError, TypeError, ValueError, JournalUnreadable):
            return None

    def _outdated(
        self, one: Partition, record: StoredRecord, what: str, *, cursor: Cursor
    ) -> JournalOutdated:
        return JournalOutdated(
            f"the cursor is at epoch {cursor.epoch} seq {cursor.seq}, and {one[0]} has {what}",
            destination=self.destination,
            topic=one[0],
            partition=one[1],
            offset=record.offset,
            change_id=dict(record.headers).get(HEADER_CHANGE_ID, b"").decode() or None,
        )


def _since(cursor: Cursor) -> int | None:
    return None if cursor.written_ms is None else max(0, cursor.written_ms - _SKEW_MS)


def _is_known(version: TableVersion, state: DestinationState) -> bool:
    known = state.versions.get((version.database, version.table))
    return known is not None and known.version >= version.version
