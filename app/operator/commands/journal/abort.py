"""`python -m app journal abort`: end another producer's transaction that keeps a topic from being
read.

Without ``--topic`` it is the destination's partition of the journal.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from app.operator.commands.arguments import add_destination, add_format
from app.operator.commands.event_loop import run_operation
from app.operator.commands.output import print_answer
from app.operator.operations.journal.open_transactions import (
    TopicPartition,
    end_transaction,
    list_open,
)
from app.operator.operations.journal_access import journal_of
from app.settings.model import load
from connectors.errors import UsageError
from connectors.kafka.reading.open_transactions import OpenTransaction
from tables.state.journal.state import JournalPartition


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination, a partition and a transactional id."""
    parser.epilog = "DEST may be a merge, as merge.NAME, or logical.schemas."
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
    journal = journal_of(load(), options.destination)
    partition, name = _partition_of(journal, options), journal.destination
    if options.transactional_id is None:
        return _listed(
            name, partition, run_operation(list_open(journal, partition)), options.format
        )
    run_operation(end_transaction(journal, partition, options.transactional_id))
    print_answer(
        options.format,
        {"destination": name, "aborted": options.transactional_id},
        [f"{name}: the transaction of {options.transactional_id!r} is aborted"],
    )
    return 0


def _partition_of(journal: JournalPartition, options: argparse.Namespace) -> TopicPartition:
    if (options.topic is None) != (options.partition is None):
        raise UsageError("give --topic and --partition together, or neither for the journal")
    if options.topic is None:
        return TopicPartition(journal.topic, journal.number)
    return TopicPartition(options.topic, options.partition)


def _listed(
    name: str, partition: TopicPartition, found: Sequence[OpenTransaction], form: str
) -> int:
    lines = []
    for one in found:
        command = one.ending(*partition).replace("DEST", name)
        lines += [str(one), f"  to abort it: {command}"]
    if not found:
        lines.append(
            f"no transaction is open in partition {partition.partition} of {partition.topic}"
        )
    value = {
        "destination": name,
        "topic": partition.topic,
        "partition": partition.partition,
        "open": [asdict(one) for one in found],
    }
    print_answer(form, value, lines)
    return 1 if found else 0
