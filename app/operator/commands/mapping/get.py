"""`python -m app mapping get`: print a stored version of the mapping, as `mapping set` takes it."""

from __future__ import annotations

import argparse
import sys

from app.operator.commands.arguments import add_format
from app.operator.commands.event_loop import run_operation
from app.operator.commands.mapping.changed import version_value
from app.operator.commands.output import print_answer, time_text
from app.operator.operations.mapping.versions import mapping_store, version_of
from app.settings.model import Settings, load
from tables.rules.mapping.stored_version import StoredVersion
from wire.text import printed


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the number of a version."""
    parser.add_argument(
        "version", type=int, nargs="?", metavar="VERSION", help="a number; default: the newest"
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Print its YAML, or all of it as JSON; who, when and why are comments of the YAML."""
    found = run_operation(_version(load(), options.version))
    if options.format == "json":
        print_answer("json", version_value(found) | {"mapping": found.to_yaml()}, ())
        return 0
    head = f"version {found.number} by {found.by}, {time_text(found.ts_ms)}: {found.why}"
    # One line, whatever the reason holds: the rest is YAML.
    sys.stdout.write(f"# {printed(head)}\n{found.to_yaml()}")
    return 0


async def _version(settings: Settings, number: int | None) -> StoredVersion:
    async with mapping_store(settings) as store:
        return await version_of(store, number)
