"""`python -m app mapping diff`: the differences of two versions of the mapping, or of a version and a file."""

from __future__ import annotations

import argparse

from app.operator.commands.arguments import add_format
from app.operator.commands.event_loop import run_operation
from app.operator.commands.mapping.changed import difference_lines, difference_values
from app.operator.commands.output import print_answer
from app.operator.operations.mapping.versions import given_mapping, mapping_store
from app.settings.model import Settings, load
from tables.rules.mapping.mapping import Difference, differences

_FORMS = "a version's number, `newest`, or a file or folder"


def configure(parser: argparse.ArgumentParser) -> None:
    """Take both sides."""
    parser.add_argument("old", metavar="OLD", help=_FORMS)
    parser.add_argument(
        "new", metavar="NEW", nargs="?", default="newest", help=f"the same: {_FORMS}"
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Print the differences."""
    found = run_operation(_differences(load(), options.old, options.new))
    print_answer(options.format, difference_values(found), difference_lines(found))
    return 0


async def _differences(settings: Settings, old: str, new: str) -> tuple[Difference, ...]:
    async with mapping_store(settings) as store:
        return differences(await given_mapping(store, old), await given_mapping(store, new))
