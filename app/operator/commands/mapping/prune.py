"""`python -m app mapping prune`: removes the oldest stored versions of the mapping."""

from __future__ import annotations

import argparse

from app.operator.arguments import add_format
from app.operator.event_loop import run_operation
from app.operator.operations.mapping.versions import mapping_store
from app.operator.output import print_answer
from app.settings.model import Settings, load


def configure(parser: argparse.ArgumentParser) -> None:
    """Take how many stay."""
    parser.epilog = (
        "A destination publishes on by a version that is removed: it has a copy of it in the journal. An audit "
        "cannot judge what was published by it before."
    )
    parser.add_argument(
        "--keep", type=int, required=True, metavar="N", help="the newest N versions stay"
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Remove all others."""
    removed = run_operation(_removed(load(), max(1, options.keep)))
    names = ", ".join(map(str, removed)) or "none"
    print_answer(options.format, {"removed": removed}, [f"removed versions: {names}"])
    return 0


async def _removed(settings: Settings, keep: int) -> list[int]:
    async with mapping_store(settings) as store:
        old = (await store.numbers())[:-keep]
        for number in old:
            await store.remove(number)
        return old
