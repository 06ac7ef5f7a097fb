"""`python -m app journal abort`: end another producer's transaction that keeps a topic from being
read.

Without ``--topic`` it is the destination's partition of the journal.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from app.commands.arguments import add_destination, add_format
from app.commands.event_loop import completed
from app.commands.output import answer
from app.operations.journal.open_transactions import TopicPartition, end_transaction, open_in
from app.operations.journal_access import Journal
from app.settings.model import load
from connectors.errors import UsageError
from connectors.kafka.reading.open_transactions import OpenTransaction


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination, a partition and a transactional id."""
    add_destination(parser)
    parser.add_argument(
        "--transactional-id",
        metavar="ID",
        help="abort this one's transaction, which fences its producer; without it, all are listed",
    )
    parser.add_argument("--topic", help="a topic other than the journal")
    parser.add_argument(
        "--partition",
        type=int,
        metavar="N",
        help="partition of that topic; default: the destination's partition of the journal",
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """End or list them; 0 once it has ended, or if there is none."""
    asked = Journal.of(load(), options.destination)
    where, name = _where(asked, options), asked.plan.name
    if options.transactional_id is None:
        return _listed(name, where, completed(open_in(asked, where)), options.format)
    completed(end_transaction(asked, where, options.transactional_id))
    answer(
        options.format,
        {"destination": name, "aborted": options.transactional_id},
        [f"{name}: the transaction of {options.transactional_id!r} is aborted"],
    )
    return 0


def _where(asked: Journal, options: argparse.Namespace) -> TopicPartition:
    if (options.topic is None) != (options.partition is None):
        raise UsageError("give --topic and --partition together, or neither for the journal")
    if options.topic is None:
        return TopicPartition.of(asked)
    return TopicPartition(options.topic, options.partition)


def _listed(name: str, where: TopicPartition, found: Sequence[OpenTransaction], form: str) -> int:
    lines = []
    for one in found:
        command = one.ending(*where).replace("DEST", name)
        lines += [str(one), f"  to abort it: {command}"]
    if not found:
        lines.append(f"no transaction is open in partition {where.partition} of {where.topic}")
    value = {
        "destination": name,
        "topic": where.topic,
        "partition": where.partition,
        "open": [asdict(one) for one in found],
    }
    answer(form, value, lines)
    return 1 if found else 0
