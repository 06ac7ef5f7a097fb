"""`python -m app mapping check`: a mapping's faults, or what it states about tables; no server is asked."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app.operator.arguments import add_format, parse_table
from app.operator.operations.mapping.check import CheckedMapping, checked_mapping
from app.operator.output import print_answer
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.mapping import MappedTable


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the mapping, and tables to ask for."""
    parser.add_argument(
        "mapping", type=Path, metavar="FILE", help="YAML, or a folder of the four JSON documents"
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        type=parse_table,
        metavar="DB.TABLE",
        help="print what the mapping states about this real table; may be repeated",
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Check it; a mapping with faults is an error that lists them all."""
    found = checked_mapping(options.mapping, options.table)
    lines = [
        f"{found.databases} logical databases, {found.tables} logical tables, no fault",
        f"sha256 {found.digest}",
        *(_line(table, mapped) for table, mapped in found.asked),
    ]
    print_answer(options.format, _value(found), lines)
    return 0


def _line(table: TableName, mapped: MappedTable | None) -> str:
    name = ".".join(table)
    if mapped is None:
        return f"{name}: not mapped; it is published under its own name"
    tags = ", ".join(one.label for one in mapped.tags) or "none"
    topic = f"<prefix>.{mapped.topic}" if mapped.topic else "that of its logical name"
    return f"{name}: {'.'.join(mapped.logical)}, topic {topic}, tags {tags}"


def _value(found: CheckedMapping) -> dict[str, Any]:
    return {
        "databases": found.databases,
        "tables": found.tables,
        "digest": found.digest,
        "asked": {".".join(table): mapped and _mapped(mapped) for table, mapped in found.asked},
    }


def _mapped(one: MappedTable) -> dict[str, Any]:
    return {
        "logical": ".".join(one.logical),
        "topic": one.topic or None,
        "tags": {tag.column: tag.name for tag in one.tags},
    }
