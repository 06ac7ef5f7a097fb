"""`python -m app subscriber list`: the groups that read tables' topics."""

from __future__ import annotations

import argparse

from app.operator.arguments import add_format
from app.operator.event_loop import run_operation
from app.operator.operations.subscriber.groups import ListedGroup, list_groups
from app.operator.output import aligned_table, print_answer
from app.settings.model import load


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the output format."""
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """List them."""
    found = run_operation(list_groups(load()))
    rows = [
        [each.name, each.state, str(len(each.members)), ", ".join(each.topics)] for each in found
    ]
    lines = aligned_table(["group", "state", "clients", "topics"], rows)
    value = [_value(each) for each in found]
    print_answer(options.format, value, lines if rows else ["no group reads a table's topic"])
    return 0


def _value(each: ListedGroup) -> dict[str, object]:
    return {
        "group": each.name,
        "state": each.state,
        "clients": list(each.members),
        "topics": list(each.topics),
    }
