"""A group moved to another position, or back to none.

Invariant: the move is planned and shown first; it is refused while the group has clients, because they would
continue where they are and overwrite it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from app.operator.operations.subscriber.client_errors import as_aqueducts
from app.operator.operations.subscriber.groups import offsets_of, partitions_of
from app.settings.model import Settings
from app.worker.wiring import kafka_client
from aqueduct_client.kafka import kafka_append, kafka_log
from aqueduct_client.notes import Notes
from aqueduct_client.records import Partition
from aqueduct_client.start_positions import Start, start_offsets
from aqueduct_client.topics import subscribers_topic
from connectors.errors import UsageError
from connectors.kafka.group_positions import Offsets, delete_offsets, refuse_active, store_offsets
from connectors.kafka.topics.topics import Topics


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
    wanted = [Partition(*each) for each in partitions]
    with as_aqueducts():
        async with kafka_log(options) as log:
            if isinstance(target, int):
                for tp in wanted:
                    _refuse_outside(tp, target, await log.bounds(tp))
                found = dict.fromkeys(wanted, target)
            else:
                found = await start_offsets(log, wanted, target)
    after = {(tp.topic, tp.number): at for tp, at in found.items()}
    moves = tuple(_move(each, before.get(each), after[each]) for each in partitions)
    return GroupMove(settings=settings, group=group, partitions=moves)


def _refuse_outside(partition: Partition, offset: int, bounds: tuple[int, int]) -> None:
    first, end = bounds
    if not first <= offset <= end:
        raise UsageError(
            f"{partition.topic}:{partition.number} has the offsets {first} to {end}, and not {offset}"
        )


async def plan_reset(settings: Settings, group: str, *, topic: str | None = None) -> GroupMove:
    """Plan to forget a group's positions, so that its start position applies again."""
    await refuse_active(kafka_client(settings).options(), group)
    before = {**await _noted(settings, group), **await offsets_of(settings, group)}
    wanted = sorted(each for each in before if topic in (None, each[0]))
    if not wanted:
        await partitions_of(settings, group, topic, None)  # which raises if there is no such topic
    moves = tuple(_move(each, before[each], None) for each in wanted)
    return GroupMove(settings=settings, group=group, partitions=moves)


async def _noted(settings: Settings, group: str) -> Offsets:
    """Return where a group continues although Kafka may have forgotten its offsets."""
    with as_aqueducts():
        notes = await notes_of(settings, group).read()
    return {
        (topic, number): note.reached[number].offset
        if number in note.reached
        else note.starts[number]
        for topic, note in notes.items()
        for number in sorted({*note.starts, *note.reached})
    }


async def make_move(move: GroupMove) -> None:
    """Make a planned move; raise GroupActive if a client has joined meanwhile."""
    options = kafka_client(move.settings).options()
    stored = {
        (each.topic, each.partition): each.after
        for each in move.partitions
        if each.after is not None
    }
    deleted = [(each.topic, each.partition) for each in move.partitions if each.after is None]
    notes = notes_of(move.settings, move.group)
    if stored:
        await store_offsets(options, move.group, stored)
    with as_aqueducts():
        for topic in sorted({topic for topic, _ in stored}):
            offsets = {number: at for (name, number), at in stored.items() if name == topic}
            await notes.moved(topic, await Topics(options).id_of(topic), offsets)
    kept = await offsets_of(move.settings, move.group) if deleted else {}
    if present := [each for each in deleted if each in kept]:
        await delete_offsets(options, move.group, present)
    with as_aqueducts():
        await notes.forget(sorted({topic for topic, _ in deleted}))


def notes_of(settings: Settings, group: str) -> Notes:
    """Return what is noted of a group beside Kafka's offsets."""
    options = kafka_client(settings).options()
    return Notes(
        logs=partial(kafka_log, options),
        appends=partial(kafka_append, options),
        topic=subscribers_topic(settings.prefix),
        group=group,
    )


def _move(partition: tuple[str, int], before: int | None, after: int | None) -> PartitionMove:
    topic, number = partition
    return PartitionMove(topic=topic, partition=number, before=before, after=after)
