"""`python -m app subscriber position`: where a group is, in Kafka and in the source."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from app.operator.commands.subscriber.arguments import add_group, topic_of
from app.operator.event_loop import run_operation
from app.operator.operations.subscriber.position import PartitionPosition, read_position
from app.operator.output import aligned_table, print_answer, time_text
from app.settings.model import load

_HEAD = ["topic", "partition", "offset", "end", "lag", "epoch", "seq", "committed", "gtid"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a group, and a table."""
    add_group(parser)


def run(options: argparse.Namespace) -> int:
    """Print it; the change is the next one that the group reads."""
    settings = load()
    topic = topic_of(options, settings)
    found = run_operation(read_position(settings, options.group, topic))
    lines = aligned_table(_HEAD, [_row(each) for each in found])
    value = [{**asdict(each), "lag": each.lag} for each in found]
    print_answer(options.format, value, lines)
    return 0


def _row(each: PartitionPosition) -> list[str]:
    offset = "none" if each.offset is None else str(each.offset)
    lag = "" if each.lag is None else str(each.lag)
    row = [each.topic, str(each.partition), offset, str(each.end), lag]
    if each.next is None:
        return [*row, "", "", "", each.unreadable or ""]
    change = each.next
    return [
        *row,
        str(change.epoch),
        str(change.seq),
        time_text(change.ts_ms),
        change.gtid or "",
    ]
