"""`python -m app subscriber set`: set the position from which a group continues."""

from __future__ import annotations

import argparse

from app.operator.commands.event_loop import run_operation
from app.operator.commands.subscriber.arguments import (
    add_confirmation,
    add_group,
    make_and_report,
    topic_of,
)
from app.operator.operations.subscriber.move import plan_set
from app.settings.model import load
from app.settings.start_position import milliseconds
from aqueduct_client.errors import InvalidSubscription
from aqueduct_client.start_positions import AfterGtids, AfterSeq, AtTime, Earliest, Latest, Start
from connectors.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a group, a table and a position."""
    parser.epilog = (
        "It is refused while the group has clients. Set back, changes are delivered again: counters and "
        "billing need deduplication. Set forward, the group never gets the changes between."
    )
    add_group(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--earliest", action="store_true", help="the oldest record of the topic")
    where.add_argument("--latest", action="store_true", help="the end of the topic")
    where.add_argument(
        "--time",
        metavar="T",
        type=_time,
        help="the first change committed then or later: ISO 8601 with a zone, or milliseconds since 1970",
    )
    where.add_argument("--gtid", metavar="SET", help="after these transactions, as gtid_executed")
    where.add_argument("--seq", type=int, metavar="N", help="after the change with this number")
    where.add_argument("--offset", type=int, metavar="N", help="an offset; needs --partition")
    parser.add_argument("--partition", type=int, metavar="P", help="only this partition")
    parser.add_argument(
        "--destination", metavar="DEST", help="whose numbers --seq means, in a topic of several"
    )
    add_confirmation(parser)


def run(options: argparse.Namespace) -> int:
    """Set it; 0 once Kafka has stored it."""
    target, settings = _target(options), load()
    topic = topic_of(options, settings)
    plan = plan_set(settings, options.group, target, topic=topic, only=options.partition)
    return make_and_report(options, run_operation(plan))


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


def _time(text: str) -> int:
    try:
        return milliseconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
