"""The groups that have offsets in the topics of an installation's tables.

Invariant: it only reads, and leaves out Aqueduct's own topics, whose names begin with ``<prefix>.__``, and
those of another installation, with a journal of its own, whose prefix begins with this one's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from app.settings.model import Settings
from app.wiring import kafka_client
from connectors.errors import UsageError
from connectors.kafka.group_positions import Offsets, group_names, group_offsets, group_state
from connectors.kafka.reading.topic_reader import topics


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
    existing, found = await topics(options), []
    for name in await group_names(options):
        offsets = _of_tables(settings, await group_offsets(options, name), existing)
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
    return _of_tables(settings, await group_offsets(options, group), await topics(options))


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


def _of_tables(settings: Settings, offsets: Offsets, existing: Collection[str]) -> Offsets:
    own = f"{settings.prefix}."
    others = [
        name.removesuffix("__journal")
        for name in existing
        if name.startswith(own) and name.endswith(".__journal") and name != f"{own}__journal"
    ]
    return {
        (topic, number): at
        for (topic, number), at in offsets.items()
        if topic.startswith(own) and not topic.startswith((f"{own}__", *others))
    }
