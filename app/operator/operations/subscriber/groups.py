"""The groups that have offsets in the topics of an installation's tables.

Invariant: it only reads, and leaves out Aqueduct's own topics, whose names begin with ``<prefix>.__``, but for
those of tags, and the topics of an installation whose prefix begins with this one's.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from app.settings.model import Settings
from app.worker.wiring import kafka_client
from connectors.errors import UsageError
from connectors.kafka.group_positions import Offsets, group_names, group_offsets, group_state
from connectors.kafka.reading.partition_reader import StoredRecord, read_all, topics
from connectors.wire import merged_topic, schemas_topic, shard_topics, tag_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group of subscribers."""

    name: str
    state: str
    members: tuple[str, ...]
    topics: tuple[str, ...]
    offsets: Offsets


async def list_groups(settings: Settings) -> tuple[ListedGroup, ...]:
    """Return all groups that have a position in a table's topic."""
    options = kafka_client(settings).options()
    found, foreign = [], await _foreign_topics(settings)
    for name in await group_names(options):
        offsets = _of_tables(settings, await group_offsets(options, name), foreign)
        if offsets:
            state = await group_state(options, name)
            found.append(
                ListedGroup(
                    name=name,
                    state=state.state,
                    members=state.members,
                    topics=tuple(sorted({topic for topic, _ in offsets})),
                    offsets=offsets,
                )
            )
    return tuple(found)


async def offsets_of(settings: Settings, group: str) -> Offsets:
    """Return a group's offsets in the topics of tables."""
    options = kafka_client(settings).options()
    offsets = await group_offsets(options, group)
    return _of_tables(settings, offsets, await _foreign_topics(settings))


async def partitions_of(
    settings: Settings, group: str, topic: str | None, only: int | None
) -> list[tuple[str, int]]:
    """Return the partitions of a topic, or of all topics in which a group has a position."""
    existing = await topics(kafka_client(settings).options())
    known = sorted({topic for topic, _ in await offsets_of(settings, group)})
    wanted = known if topic is None else [topic]
    found = [
        (each, number)
        for each in wanted
        for number in range(existing.get(each, 0))
        if only is None or number == only
    ]
    if not found:
        raise UsageError(
            f"the group {group!r} has no position in a table's topic; name the table"
            if topic is None
            else f"there is no topic {topic}, or no such partition of it"
        )
    return found


def _of_tables(settings: Settings, offsets: Offsets, foreign: Collection[str]) -> Offsets:
    own, of_tags = f"{settings.prefix}.__", tag_topics(settings.prefix)
    return {
        (topic, number): at
        for (topic, number), at in offsets.items()
        if topic.startswith(f"{settings.prefix}.")
        and (not topic.startswith(own) or topic.startswith(of_tags))
        and topic not in foreign
    }


async def _foreign_topics(settings: Settings) -> set[str]:
    """The topics below the prefix of another installation that no table version of this one names."""
    options = kafka_client(settings).options()
    existing = await topics(options)
    below = [
        name.removesuffix("__journal")
        for name in existing
        if name.startswith(f"{settings.prefix}.") and name.endswith(".__journal")
    ]
    found = {name for name in existing for other in below if name.startswith(other)}
    found -= {name for name in found if name.startswith(f"{settings.prefix}.__")}
    if not found or schemas_topic(settings.prefix) not in existing:
        return found

    def take(_topic: str, _partition: int, record: StoredRecord) -> None:
        if record.value:
            version = json.loads(record.value)
            shares = shard_topics(settings.prefix, version["destination"])
            topic = version["topic"]
            if topic.startswith(shares):
                topic = merged_topic(settings.prefix, version["destination"], topic)
            found.discard(topic)

    await read_all(options, [(schemas_topic(settings.prefix), 0)], take)
    return found
