"""`python -m app shards show`: the logical tables, how far their shards agree, and what each shard lacks."""

from __future__ import annotations

import argparse
from typing import Any

from app.operator.arguments import add_format, parse_table
from app.operator.event_loop import run_operation
from app.operator.operations.shards.view import published_table, published_tables
from app.operator.output import aligned_table, print_answer, time_text
from app.settings.model import load
from tables.history.logical_schemas.published import PublishedSchema

_HEAD = ("TABLE", "STATE", "SINCE", "SHARDS", "DIFFERENCES")


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a table, or none for all."""
    parser.epilog = "A shard's change is seen with its first row after the change."
    add_logical_table(parser, nargs="?")
    add_format(parser)
    parser.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )


def add_logical_table(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    """Add a logical table."""
    parser.add_argument(
        "table",
        metavar="TABLE",
        type=parse_table,
        nargs=nargs,
        help="a logical table, as trade.orders",
    )


def run(options: argparse.Namespace) -> int:
    """Print them."""
    settings = load()
    if options.table is not None:
        found = run_operation(published_table(settings, options.table))
        print_answer(options.format, _value(found), table_lines(found))
        return 0
    tables = run_operation(published_tables(settings))
    rows = [_row(one) for _, one in sorted(tables.items())]
    value = [_value(one) for _, one in sorted(tables.items())]
    lines = aligned_table(_HEAD, rows) if rows else ["no rows of a logical table are published yet"]
    print_answer(options.format, value, lines)
    return 0


def table_lines(found: PublishedSchema) -> list[str]:
    """Return one logical table as text."""
    content = found.content
    since = f"since {time_text(found.since_ms)}"
    key = content["primary_key"]
    lines = [
        f"{'.'.join(found.name)}  {found.state.value} {since}  version {found.version}",
        "",
        *aligned_table(["column", "type", "null", "charset"], map(_column, content["columns"])),
        "the shards have different keys" if key is None else f"key  ({', '.join(key)})",
    ]
    if content["changes"]:
        lines += ["", "differences"]
    for one in content["changes"]:
        kind = "settled" if one["settled"] else "conflict" if one["conflict"] else "in progress"
        lines.append(f"  {one['text']}  ({kind})")
        lines += [
            f"    {what}  {', '.join(one[what])}" for what in ("done", "lacking") if one[what]
        ]
    lines += ["", *aligned_table(["shard", "version", "lacks"], map(_shard, content["shards"]))]
    if content["decisions"]:
        lines += ["", "decisions"]
    for one in content["decisions"]:
        lines.append(
            f"  {one['decision']}  by {one['by']}, {time_text(one['ts_ms'])}: {one['why']}"
        )
    return lines


def _row(one: PublishedSchema) -> tuple[str, ...]:
    changes = "; ".join(change["text"] for change in one.content["changes"])
    count = str(len(one.content["shards"]))
    return ".".join(one.name), one.state.value, time_text(one.since_ms), count, changes


def _column(one: dict[str, Any]) -> tuple[str, ...]:
    null = "null" if one["nullable"] else "not null"
    return one["name"], one["type"] or "(no common type)", null, one["charset"] or ""


def _shard(one: dict[str, Any]) -> tuple[str, ...]:
    lacks = "; ".join(one["lacks"]) or "nothing"
    if one["dropped_ms"] is not None:
        lacks = f"dropped {time_text(one['dropped_ms'])}"
    elif one["excluded"]:
        lacks = "excluded"
    return one["name"], str(one["version"]), lacks


def _value(one: PublishedSchema) -> dict[str, Any]:
    numbers = {"version": one.version, "since_ms": one.since_ms, "ts_ms": one.ts_ms}
    return {**one.content, **numbers}
