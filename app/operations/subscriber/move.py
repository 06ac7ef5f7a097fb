"""A group moved to another position, or back to none.

Invariant: the move is planned and shown first; it is refused while the group has clients, because they would
continue where they are and overwrite it.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.operations.subscriber.client_errors import as_aqueducts
from app.operations.subscriber.groups import offsets_of, partitions_of
from app.settings.model import Settings
from app.wiring import kafka_client
from aqueduct_client.kafka import kafka_log
from aqueduct_client.records import Partition
from aqueduct_client.start import Start, offset_of
from connectors.kafka.group_positions import delete_offsets, refuse_active, store_offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """A group's change of offset in one partition."""

    topic: str
    partition: int
    before: int | None
    after: int | None
    """None: it begins at its start position again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """A planned move of a group."""

    settings: Settings
    group: str
    partitions: tuple[PartitionMove, ...]


async def plan_set(
    settings: Settings,
    group: str,
    target: Start | int,
    *,
    topic: str | None = None,
    only: int | None = None,
) -> GroupMove:
    """Plan to set a group to a position, or to an offset of one partition."""
    options = kafka_client(settings).options()
    await refuse_active(options, group)
    before = await offsets_of(settings, group)
    partitions = await partitions_of(settings, group, topic, only)
    moves = []
    with as_aqueducts():
        async with kafka_log(options) as log:
            for each in partitions:
                after = (
                    target
                    if isinstance(target, int)
                    else await offset_of(log, Partition(*each), target)
                )
                moves.append(_move(each, before.get(each), after))
    return GroupMove(settings=settings, group=group, partitions=tuple(moves))


async def plan_reset(settings: Settings, group: str, *, topic: str | None = None) -> GroupMove:
    """Plan to forget a group's positions, so that its start position applies again."""
    await refuse_active(kafka_client(settings).options(), group)
    before = await offsets_of(settings, group)
    partitions = await partitions_of(settings, group, topic, None)
    moves = tuple(_move(each, before[each], None) for each in partitions if each in before)
    return GroupMove(settings=settings, group=group, partitions=moves)


async def make_move(move: GroupMove) -> None:
    """Make a planned move; raise GroupActive if a client has joined meanwhile."""
    options = kafka_client(move.settings).options()
    stored = {
        (each.topic, each.partition): each.after
        for each in move.partitions
        if each.after is not None
    }
    deleted = [(each.topic, each.partition) for each in move.partitions if each.after is None]
    if stored:
        await store_offsets(options, move.group, stored)
    if deleted:
        await delete_offsets(options, move.group, deleted)


def _move(partition: tuple[str, int], before: int | None, after: int | None) -> PartitionMove:
    topic, number = partition
    return PartitionMove(topic=topic, partition=number, before=before, after=after)
