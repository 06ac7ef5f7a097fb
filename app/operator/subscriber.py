"""`subscriber`: the groups that read tables' topics, the position of each group, and how to move it.

Invariant: without the name of a topic, only topics of tables are listed and moved: those that table versions
name, and those below the prefix, but for Aqueduct's own, whose names begin with ``<prefix>.__``, and those of
another installation whose prefix begins with this one's. A move is planned and shown first; it is refused while
the group has clients, because they would continue from their own positions and overwrite the move.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from app.operator.arguments import add_format, parse_time
from app.operator.terminal import (
    aligned_table,
    ask_for_name,
    print_answer,
    run_operation,
)
from app.settings.model import Settings, load
from app.worker.wiring import kafka_client
from aqueduct_client.errors import (
    BrokersDenied,
    BrokersLost,
    InvalidSubscription,
    MalformedRecord,
    SubscriberError,
)
from aqueduct_client.kafka import kafka_append, kafka_log
from aqueduct_client.notes import Notes
from aqueduct_client.protocol import Log
from aqueduct_client.records import Partition, Record
from aqueduct_client.start_positions import (
    AfterGtids,
    AfterSeq,
    AtTime,
    Earliest,
    Latest,
    Start,
    start_offsets,
)
from aqueduct_client.table_topics import topic_of
from connectors.errors import KafkaDenied, KafkaLost, TopicPositionUnknown, UsageError
from connectors.kafka.group_positions import (
    Offsets,
    delete_offsets,
    group_names,
    group_offsets,
    group_state,
    refuse_active,
    store_offsets,
)
from connectors.kafka.reading import StoredRecord, read_all
from connectors.kafka.topics import Topics
from wire.text import utc
from wire.topics import installations, merged_topic, schemas_topic, subscribers_topic, tag_topics


async def list_groups(settings: Settings) -> list[dict[str, Any]]:
    """Return all groups that have a position in a table's topic, as JSON."""
    options = kafka_client(settings).options()
    found, is_of_table = [], await _table_topics(settings)
    for name in await group_names(options):
        offsets = await group_offsets(options, name)
        topics = {topic for topic, _ in offsets if is_of_table(topic)}
        if topics:
            state = await group_state(options, name)
            found.append(
                {
                    "group": name,
                    "state": state.state,
                    "clients": list(state.members),
                    "topics": sorted(topics),
                }
            )
    return found


async def offsets_of(settings: Settings, group: str, topic: str | None = None) -> Offsets:
    """Return a group's offsets in one topic, or in the topics of tables."""
    offsets = await group_offsets(kafka_client(settings).options(), group)
    if topic is not None:
        return {each: at for each, at in offsets.items() if each[0] == topic}
    is_of_table = await _table_topics(settings)
    return {each: at for each, at in offsets.items() if is_of_table(each[0])}


async def partitions_of(
    settings: Settings, group: str, offsets: Offsets, topic: str | None, only: int | None
) -> list[tuple[str, int]]:
    """Return the partitions of a topic, or of all topics in which a group has one of these offsets."""
    existing = await Topics(kafka_client(settings).options()).counts()
    wanted = sorted({each for each, _ in offsets}) if topic is None else [topic]
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


async def _table_topics(settings: Settings) -> Callable[[str], bool]:
    """Return a function that determines whether a topic, by its name, is one of this installation's tables.

    A topic that a table version names is one, though ``row_topics`` may place it outside the prefix.
    """
    options, prefix = kafka_client(settings).options(), settings.prefix
    existing = await Topics(options).counts()
    named = set[str]()

    def take(_topic: str, _partition: int, record: StoredRecord) -> None:
        if record.value:
            version = json.loads(record.value)
            named.add(merged_topic(prefix, version["destination"], version["topic"]))

    if schemas_topic(prefix) in existing:
        await read_all(options, [(schemas_topic(prefix), 0)], take)
    others = [f"{one}." for one in installations(existing) if one.startswith(f"{prefix}.")]
    omitted = (f"{prefix}.__", *others)

    def is_of_table(topic: str) -> bool:
        if topic in named or topic.startswith(tag_topics(prefix)):
            return True
        return topic.startswith(f"{prefix}.") and not topic.startswith(omitted)

    return is_of_table


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Take the output format."""
    add_format(parser)


def run_list(options: argparse.Namespace) -> int:
    """List the groups."""
    found = run_operation(list_groups(load()))
    rows = [
        [each["group"], each["state"], str(len(each["clients"])), ", ".join(each["topics"])]
        for each in found
    ]
    lines = aligned_table(["group", "state", "clients", "topics"], rows)
    print_answer(options.format, found, lines if rows else ["no group reads a table's topic"])
    return 0


@contextmanager
def _as_aqueducts() -> Iterator[None]:
    """Raise the client's errors within the block as AqueductErrors."""
    try:
        yield
    except BrokersLost as error:
        raise KafkaLost(_said(error)) from error
    except BrokersDenied as error:
        raise KafkaDenied(_said(error)) from error
    except SubscriberError as error:
        raise TopicPositionUnknown(_said(error)) from error


def _said(error: SubscriberError) -> str:
    """Return the detail and the location of a client's error as text."""
    return ", ".join([error.detail, *(f"{name} {value}" for name, value in error.where.items())])


async def read_position(settings: Settings, group: str, topic: str | None) -> list[dict[str, Any]]:
    """Return a group's position, by topic and partition, as JSON.

    ``offset`` is None if the group has no offset, and so begins at its start position. ``end`` is the end of
    the committed records. ``lag`` counts the offsets up to ``end``, including transaction markers. ``next`` is
    the change that the group reads next; None at the end, and without an offset. ``unreadable`` is the reason
    why the next record does not follow the wire contract, if it does not.
    """
    offsets = await offsets_of(settings, group, topic)
    partitions = await partitions_of(settings, group, offsets, topic, None)
    with _as_aqueducts():
        async with kafka_log(kafka_client(settings).options()) as log:
            return [
                await _position(log, Partition(*each), offsets.get(each)) for each in partitions
            ]


async def _position(log: Log, partition: Partition, offset: int | None) -> dict[str, Any]:
    _, end = await log.bounds(partition)
    change, unreadable = None, None
    try:
        change = None if offset is None else await _next(log, partition, offset)
    except MalformedRecord as error:
        unreadable = str(error)
    return {
        "topic": partition.topic,
        "partition": partition.number,
        "offset": offset,
        "end": end,
        "next": change,
        "unreadable": unreadable,
        "lag": None if offset is None else max(0, end - offset),
    }


async def _next(log: Log, partition: Partition, offset: int) -> dict[str, Any] | None:
    found = await log.read(partition, offset)
    if not found:
        return None
    record = Record(found[0])
    return {
        "destination": record.destination,
        "epoch": record.epoch,
        "seq": record.seq,
        "gtid": record.gtid,
        "ts_ms": record.ts_ms,
        "table": record.logical_table,
    }


_HEAD = ["topic", "partition", "offset", "end", "lag", "epoch", "seq", "committed", "gtid"]


def configure_position(parser: argparse.ArgumentParser) -> None:
    """Take a group, and a table."""
    _add_group(parser)


def run_position(options: argparse.Namespace) -> int:
    """Print the position, and the next change that the group reads."""
    settings = load()
    topic = _topic_of(options, settings)
    found = run_operation(read_position(settings, options.group, topic))
    lines = aligned_table(_HEAD, [_position_row(each) for each in found])
    print_answer(options.format, found, lines)
    return 0


def _position_row(each: dict[str, Any]) -> list[str]:
    offset = "none" if each["offset"] is None else str(each["offset"])
    lag = "" if each["lag"] is None else str(each["lag"])
    row = [each["topic"], str(each["partition"]), offset, str(each["end"]), lag]
    change = each["next"]
    if change is None:
        return [*row, "", "", "", each["unreadable"] or ""]
    return [
        *row,
        str(change["epoch"]),
        str(change["seq"]),
        utc(change["ts_ms"]),
        change["gtid"] or "",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """A group's change of offset in one partition."""

    topic: str
    partition: int
    before: int | None
    after: int | None
    """None: the group begins at its start position again."""


async def plan_set(
    settings: Settings,
    group: str,
    target: Start | int,
    *,
    topic: str | None = None,
    only: int | None = None,
) -> tuple[PartitionMove, ...]:
    """Plan to set a group to a position, or to an offset of one partition."""
    options = kafka_client(settings).options()
    await refuse_active(options, group)
    before = await offsets_of(settings, group, topic)
    partitions = await partitions_of(settings, group, before, topic, only)
    wanted = [Partition(*each) for each in partitions]
    with _as_aqueducts():
        async with kafka_log(options) as log:
            if isinstance(target, int):
                for tp in wanted:
                    _refuse_outside(tp, target, await log.bounds(tp))
                found = dict.fromkeys(wanted, target)
            else:
                found = await start_offsets(log, wanted, target)
    after = {(tp.topic, tp.number): at for tp, at in found.items()}
    return tuple(_move(each, before.get(each), after[each]) for each in partitions)


def _refuse_outside(partition: Partition, offset: int, bounds: tuple[int, int]) -> None:
    first, end = bounds
    if not first <= offset <= end:
        raise UsageError(
            f"{partition.topic}:{partition.number} has the offsets {first} to {end}, and not {offset}"
        )


async def plan_reset(
    settings: Settings, group: str, *, topic: str | None = None
) -> tuple[PartitionMove, ...]:
    """Plan to forget a group's positions, so that its start position applies again."""
    await refuse_active(kafka_client(settings).options(), group)
    before = {**await _noted(settings, group), **await offsets_of(settings, group, topic)}
    wanted = sorted(each for each in before if topic in (None, each[0]))
    if not wanted:
        await partitions_of(
            settings, group, before, topic, None
        )  # raises if there is no such topic
    return tuple(_move(each, before[each], None) for each in wanted)


async def _noted(settings: Settings, group: str) -> Offsets:
    """Return the offsets in a group's notes, from which it continues even if Kafka has forgotten them."""
    with _as_aqueducts():
        notes = await notes_of(settings, group).read()
    return {
        (topic, number): note.reached[number].offset
        if number in note.reached
        else note.starts[number]
        for topic, note in notes.items()
        for number in sorted({*note.starts, *note.reached})
    }


async def make_move(settings: Settings, group: str, moves: Iterable[PartitionMove]) -> None:
    """Make a planned move; raise GroupActive if a client has joined meanwhile."""
    options = kafka_client(settings).options()
    after = {(each.topic, each.partition): each.after for each in moves}
    stored = {each: offset for each, offset in after.items() if offset is not None}
    deleted = [each for each, offset in after.items() if offset is None]
    notes = notes_of(settings, group)
    if stored:
        await store_offsets(options, group, stored)
    with _as_aqueducts():
        for topic in sorted({topic for topic, _ in stored}):
            offsets = {number: at for (name, number), at in stored.items() if name == topic}
            await notes.moved(topic, await Topics(options).id_of(topic), offsets)
    kept = await group_offsets(options, group) if deleted else {}
    if present := [each for each in deleted if each in kept]:
        await delete_offsets(options, group, present)
    with _as_aqueducts():
        await notes.forget(sorted({topic for topic, _ in deleted}))


def notes_of(settings: Settings, group: str) -> Notes:
    """Return the notes on a group, which are stored in addition to Kafka's offsets."""
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


_MOST_SHOWN = 8
"""The most partitions that a question lists."""


def _add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="a group of subscribers")
    parser.add_argument(
        "table",
        metavar="db.table",
        nargs="?",
        help="a logical table; default: all topics in which the group has a position",
    )
    parser.add_argument(
        "--topic", metavar="NAME", help="a topic, in place of the table whose mapping names it"
    )
    add_format(parser)


def _topic_of(options: argparse.Namespace, settings: Settings) -> str | None:
    """Return the topic that the options name; None for all."""
    if options.table is None or options.topic is not None:
        topic: str | None = options.topic
        return topic
    try:
        return topic_of(options.table, prefix=settings.prefix)[0]
    except InvalidSubscription as error:
        raise UsageError(error.detail) from None


def _add_confirmation(parser: argparse.ArgumentParser) -> None:
    """Add the choices to change nothing, and not to ask."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--dry-run", action="store_true", help="print the change, and do not make it"
    )
    choice.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _make_and_report(
    options: argparse.Namespace, settings: Settings, moves: Sequence[PartitionMove]
) -> int:
    """Make the move once it is confirmed, unless only its report is requested.

    Raise NotConfirmed if it is not. A move that changes no offset needs no confirmation.
    """
    group = options.group
    moved = [each for each in moves if each.after != each.before]
    if moved and not options.dry_run and not options.yes:
        effects = "; ".join(
            f"{each.topic}:{each.partition} from {_offset_text(each.before)} to {_offset_text(each.after)}"
            f"{_comma(_effect(each))}"
            for each in moved[:_MOST_SHOWN]
        )
        more = len(moved) - _MOST_SHOWN
        others = f"; and {more} more, which --dry-run lists" if more > 0 else ""
        ask_for_name(
            group,
            f"the group {group} moves: {effects}{others}",
            remedy="Type the group's name where it asks, or add --yes.",
            group=group,
        )
    if not options.dry_run:
        run_operation(make_move(settings, group, moves))
    rows = [
        [
            each.topic,
            str(each.partition),
            _offset_text(each.before),
            _offset_text(each.after),
            _effect(each),
        ]
        for each in moves
    ]
    lines = aligned_table(["topic", "partition", "before", "after", "effect"], rows)
    value = {"group": group, "partitions": [asdict(each) for each in moves]}
    print_answer(options.format, value, lines if rows else [f"{group} has no position there"])
    return 0


def _comma(effect: str) -> str:
    return f", {effect}" if effect else ""


def _offset_text(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def _effect(each: PartitionMove) -> str:
    if each.after is None:
        return "begins at its start position"
    if each.before is None or each.after == each.before:
        return ""
    count = abs(each.after - each.before)
    kind = "not delivered" if each.after > each.before else "delivered again"
    return f"up to {count} records are {kind}"


def configure_set(parser: argparse.ArgumentParser) -> None:
    """Take a group, a table and a position."""
    parser.epilog = (
        "It is refused while the group has clients. Set back, changes are delivered again: counters and "
        "billing need deduplication. Set forward, the group never gets the changes between."
    )
    _add_group(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--earliest", action="store_true", help="the oldest record of the topic")
    where.add_argument("--latest", action="store_true", help="the end of the topic")
    where.add_argument(
        "--time",
        metavar="T",
        type=parse_time,
        help="the first change committed then or later: ISO 8601 with a zone, or milliseconds since 1970",
    )
    where.add_argument("--gtid", metavar="SET", help="after these transactions, as gtid_executed")
    where.add_argument("--seq", type=int, metavar="N", help="after the change with this number")
    where.add_argument("--offset", type=int, metavar="N", help="an offset; needs --partition")
    parser.add_argument("--partition", type=int, metavar="P", help="only this partition")
    parser.add_argument(
        "--destination", metavar="DEST", help="whose numbers --seq means, in a topic of several"
    )
    _add_confirmation(parser)


def run_set(options: argparse.Namespace) -> int:
    """Set the position; return 0 once Kafka has stored it."""
    target, settings = _target(options), load()
    topic = _topic_of(options, settings)
    plan = plan_set(settings, options.group, target, topic=topic, only=options.partition)
    return _make_and_report(options, settings, run_operation(plan))


def _target(options: argparse.Namespace) -> Start | int:
    if options.offset is not None:
        if options.partition is None:
            raise UsageError("--offset is of one partition; give --partition too")
        return int(options.offset)
    if options.seq is not None:
        return AfterSeq(options.seq, options.destination)
    if options.time is not None:
        return AtTime(options.time)
    if options.gtid is not None:
        try:
            return AfterGtids(options.gtid)
        except InvalidSubscription as error:
            raise UsageError(error.detail) from None
    return Earliest() if options.earliest else Latest()


def configure_reset(parser: argparse.ArgumentParser) -> None:
    """Take a group, and a table."""
    parser.epilog = "It is refused while the group has clients."
    _add_group(parser)
    _add_confirmation(parser)


def run_reset(options: argparse.Namespace) -> int:
    """Reset the group; return 0 once Kafka has deleted the offsets."""
    settings = load()
    plan = plan_reset(settings, options.group, topic=_topic_of(options, settings))
    return _make_and_report(options, settings, run_operation(plan))
