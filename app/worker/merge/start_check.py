"""Check that a merge begins after the records that were already merged, and that it forgets no records.

Invariant: the newest record of a merged partition is compared with the record at which its shard is to
continue. The cursor after a merged record is in the same Kafka transaction. An older copy of the journal lacks
that cursor, so the shard would continue with a record that the merged topic already contains. A merge has no
lane for a destination that was removed from the settings; its topics are compared with the cursors, so that
records in them are not forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

import orjson

from app.worker.merge.plan import MergePlan
from connectors.errors import (
    JournalOutdated,
    KafkaDenied,
    MergeUnfinished,
    RecordForeign,
    TooFewBrokers,
    TransactionOpen,
)
from connectors.kafka.reading import Partition, StoredRecord, firsts, newest
from connectors.kafka.topics import Topics
from tables.state.merge_cursor import MergeCursors
from wire.records import HEADER_SEQ, Origin, origin_in
from wire.topics import journal_topic, merged_topic, shard_owner, shard_topic, shard_topics

_REMEDY = (
    "The journal is an older copy, or has lost its newest records; or the merge was removed from the settings "
    "before it had merged all. Restore a newer copy of the journal; or name new topics in the mapping."
)


def origin_of(value: bytes, headers: Iterable[tuple[str, bytes]]) -> Origin:
    """Return the origin of a record with a value; formats other than the envelope have it in headers.

    Raise KeyError, TypeError or ValueError if it has none.
    """
    found = dict(headers)
    if HEADER_SEQ in found:
        return origin_in(found)
    source: dict[str, Any] = orjson.loads(value)["source"]
    return Origin(str(source["name"]), int(source["epoch"]), int(source["seq"]))


async def check_starts(plan: MergePlan, starts: Mapping[Partition, int]) -> None:
    """Raise JournalOutdated if the merge would begin with a record that was already merged.

    ``starts`` has its offsets in the shards' topics. Raise RecordForeign if a compared record has no origin.
    """
    topics = {
        merged_topic(plan.prefix, one, topic)
        for topic, _ in starts
        for one in plan.destinations
        if topic.startswith(shard_topics(plan.prefix, one))
    }
    options = plan.kafka_options
    found = await newest(options, topics, since_ms=None, wanted=_has_value)
    merged: dict[Partition, tuple[str, Origin]] = {}
    for (topic, number), record in found.items():
        last = _origin(plan, (topic, number), record)
        share = shard_topic(plan.prefix, last.destination, topic), number
        if share in starts:
            merged[share] = topic, last
    begins = {share: starts[share] for share in merged}
    for share, record in (await firsts(options, begins, wanted=_has_value)).items():
        topic, last = merged[share]
        following = _origin(plan, share, record)
        if following[1:] <= last[1:]:
            raise JournalOutdated(
                f"its cursor is at seq {following.seq} of {last.destination}, and {topic} has {last.seq}",
                merge=plan.name, topic=journal_topic(plan.prefix), offset=record.offset, remedy=_REMEDY,
            )  # fmt: skip


async def left_unmerged(plan: MergePlan, cursors: MergeCursors) -> dict[str, str]:
    """Return the merged topics that lack records of destinations that the settings no longer have, and why.

    A topic of such a destination that cannot be read now may have records, so its merged topic is among them.
    """

    owner = partial(shard_owner, plan.prefix)

    def lacks(
        topic: str, why: KafkaDenied | MergeUnfinished | TooFewBrokers | TransactionOpen
    ) -> None:
        found.setdefault(merged_topic(plan.prefix, owner(topic), topic), why.in_one_line)

    async def away(names: list[str]) -> Collection[str]:
        unfit = await topics.unwritable(names)
        for name, why in unfit.items():
            assert isinstance(why, KafkaDenied | TooFewBrokers)
            lacks(name, why)
        return unfit

    found: dict[str, str] = {}
    every, topics = shard_topics(plan.prefix), Topics(plan.kafka_options)
    removed = {owner(topic) for topic in cursors.by_topic} - plan.all_destinations
    if not removed:
        return found
    left = {
        name for name in await topics.counts() if name.startswith(every) and owner(name) in removed
    }
    last: dict[Partition, StoredRecord] = {}
    while left:
        try:
            last = await newest(plan.kafka_options, left, since_ms=None, wanted=bool, away=away)
            break
        except (KafkaDenied, TooFewBrokers, TransactionOpen) as error:
            if (topic := str(error.context.get("topic"))) not in left:
                raise
            lacks(topic, error)
            left.remove(topic)
    for (topic, number), record in last.items():
        if record.offset >= (cursors.offset(topic, number) or 0):
            lacks(
                topic,
                MergeUnfinished(
                    f"{topic} has records that {merged_topic(plan.prefix, owner(topic), topic)} lacks",
                    destination=owner(topic), topic=topic, partition=number, offset=record.offset,
                ),
            )  # fmt: skip
    return found


def _origin(plan: MergePlan, of: Partition, record: StoredRecord) -> Origin:
    try:
        return origin_of(record.value, record.headers)
    except (KeyError, TypeError, ValueError):
        raise RecordForeign(
            "it has no destination, epoch and seq",
            merge=plan.name, topic=of[0], partition=of[1], offset=record.offset,
        ) from None  # fmt: skip


def _has_value(record: StoredRecord) -> bool:
    """Whether a record is not a tombstone."""
    return bool(record.value)
