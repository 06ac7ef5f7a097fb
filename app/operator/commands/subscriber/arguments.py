"""Arguments of the commands about a group, and the report of a move."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from app.operator.commands.arguments import add_format
from app.operator.commands.confirmation import ask_for_name
from app.operator.commands.event_loop import run_operation
from app.operator.commands.output import aligned_table, print_answer
from app.operator.operations.subscriber.move import GroupMove, PartitionMove, make_move
from app.settings.model import Settings
from aqueduct_client import topics
from aqueduct_client.errors import InvalidSubscription
from connectors.errors import UsageError

_MOST_SHOWN = 8
"""Partitions that a question lists."""


def add_group(parser: argparse.ArgumentParser) -> None:
    """Add the group, a table or topic, and the output format."""
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


def topic_of(options: argparse.Namespace, settings: Settings) -> str | None:
    """Return the topic that the options name; None for all."""
    if options.table is None or options.topic is not None:
        topic: str | None = options.topic
        return topic
    try:
        return topics.topic_of(options.table, prefix=settings.prefix)[0]
    except InvalidSubscription as error:
        raise UsageError(error.detail) from None


def add_confirmation(parser: argparse.ArgumentParser) -> None:
    """Add the choices to change nothing, and not to ask."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--dry-run", action="store_true", help="print the change, and do not make it"
    )
    choice.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def make_and_report(options: argparse.Namespace, move: GroupMove) -> int:
    """Make the move once it is confirmed, unless only its report is wanted.

    Raises NotConfirmed. A move that leaves each offset as it is needs no confirmation.
    """
    moved = [each for each in move.partitions if each.after != each.before]
    if moved and not options.dry_run and not options.yes:
        effects = "; ".join(
            f"{each.topic}:{each.partition} from {_text(each.before)} to {_text(each.after)}"
            f"{_comma(_effect(each))}"
            for each in moved[:_MOST_SHOWN]
        )
        more = len(moved) - _MOST_SHOWN
        others = f"; and {more} more, which --dry-run lists" if more > 0 else ""
        ask_for_name(
            move.group,
            f"the group {move.group} moves: {effects}{others}",
            remedy="Type the group's name where it asks, or add --yes.",
            group=move.group,
        )
    if not options.dry_run:
        run_operation(make_move(move))
    rows = [
        [each.topic, str(each.partition), _text(each.before), _text(each.after), _effect(each)]
        for each in move.partitions
    ]
    lines = aligned_table(["topic", "partition", "before", "after", "effect"], rows)
    value = {"group": move.group, "partitions": [asdict(each) for each in move.partitions]}
    print_answer(options.format, value, lines if rows else [f"{move.group} has no position there"])
    return 0


def _comma(effect: str) -> str:
    return f", {effect}" if effect else ""


def _text(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def _effect(each: PartitionMove) -> str:
    if each.after is None:
        return "begins at its start position"
    if each.before is None or each.after == each.before:
        return ""
    count = abs(each.after - each.before)
    kind = "not delivered" if each.after > each.before else "delivered again"
    return f"up to {count} records are {kind}"
