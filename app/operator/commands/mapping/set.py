"""`python -m app mapping set`: store a mapping as the newest version, which all workers follow."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.operator.arguments import add_format
from app.operator.commands.mapping.changed import stored_lines, stored_value
from app.operator.event_loop import run_operation
from app.operator.operations.mapping.versions import NewVersion, mapping_store, store_mapping
from app.operator.output import print_answer
from app.operator.terminal import operator
from app.settings.mapping import read_mapping
from app.settings.model import Settings, load


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the mapping, the reason, and the version that it was made from."""
    parser.epilog = "A mapping with any fault is refused whole, and the newest version stays."
    parser.add_argument(
        "mapping", type=Path, metavar="FILE", help="YAML, or a folder of the four JSON documents"
    )
    add_reason(parser)
    parser.add_argument(
        "--after",
        type=int,
        metavar="N",
        help="the version that this one was made from; refused if there is a newer one. In a store that was "
        "emptied: the last version before that",
    )
    add_format(parser)


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the reason, which is stored with the version."""
    parser.add_argument(
        "--why", required=True, metavar="TEXT", help="the reason, shown by `mapping history`"
    )


def run(options: argparse.Namespace) -> int:
    """Store it."""
    new = run_operation(_stored(load(), options, operator()))
    print_answer(options.format, stored_value(new), stored_lines(new))
    return 0


async def _stored(settings: Settings, options: argparse.Namespace, by: str) -> NewVersion:
    mapping = read_mapping(options.mapping)
    async with mapping_store(settings) as store:
        return await store_mapping(
            settings, store, mapping, by=by, why=options.why, after=options.after
        )
