"""`python -m app mapping rollback`: store an earlier version of the mapping again, as the newest."""

from __future__ import annotations

import argparse

from app.operator.arguments import add_format
from app.operator.commands.mapping.changed import stored_lines, stored_value
from app.operator.commands.mapping.set import add_reason
from app.operator.event_loop import run_operation
from app.operator.operations.mapping.versions import (
    NewVersion,
    mapping_store,
    newest_of,
    store_mapping,
    version_of,
)
from app.operator.output import print_answer
from app.operator.terminal import operator
from app.settings.model import Settings, load


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the version to restore, and the reason."""
    parser.epilog = "Records that were published meanwhile stay as they are."
    parser.add_argument("version", type=int, metavar="VERSION", help="the version to restore")
    add_reason(parser)
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Store it again, under a new number."""
    new = run_operation(_stored(load(), options, operator()))
    print_answer(options.format, stored_value(new), stored_lines(new))
    return 0


async def _stored(settings: Settings, options: argparse.Namespace, by: str) -> NewVersion:
    async with mapping_store(settings) as store:
        newest, old = await newest_of(store), await version_of(store, options.version)
        return await store_mapping(
            settings,
            store,
            old.mapping(),
            by=by,
            why=options.why,
            after=newest,
            restores=old.number,
        )
