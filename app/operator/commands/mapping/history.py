"""`python -m app mapping history`: the stored versions of the mapping: who, when, and why."""

from __future__ import annotations

import argparse

from app.operator.arguments import add_format
from app.operator.commands.mapping.changed import version_value
from app.operator.event_loop import run_operation
from app.operator.operations.mapping.versions import all_versions, mapping_store
from app.operator.output import aligned_table, print_answer, time_text
from app.settings.model import Settings, load
from tables.rules.mapping.stored_version import StoredVersion

_HEAD = ("VERSION", "TIME", "BY", "DIGEST", "WHY")
_DEFAULT = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Take how many."""
    parser.add_argument(
        "--last", type=int, default=_DEFAULT, metavar="N", help="versions (default: %(default)s)"
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Print them, the newest first."""
    found = run_operation(_versions(load(), max(1, options.last)))
    lines = aligned_table(_HEAD, [_row(one) for one in found])
    print_answer(options.format, [version_value(one) for one in found], lines)
    return 0


def _row(one: StoredVersion) -> tuple[str, ...]:
    why = one.why if one.restores is None else f"{one.why} (restores version {one.restores})"
    return str(one.number), time_text(one.ts_ms), one.by, one.digest[:12], why


async def _versions(settings: Settings, most: int) -> list[StoredVersion]:
    async with mapping_store(settings) as store:
        return await all_versions(store, most)
