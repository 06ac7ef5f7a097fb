"""`shards`: the logical tables as they were last published, and decisions on the differences of their shards.

Invariant: only the journal is changed here. The worker applies a decision or refuses it; a decision in the
journal alone does not count as success.
"""

from __future__ import annotations

import argparse
import logging
import time
import uuid
from dataclasses import replace
from functools import partial
from typing import Any

from app.operator.arguments import add_format, parse_table
from app.operator.journal_access import UnitJournal, wait_for_record
from app.operator.terminal import aligned_table, operator, print_answer, run_operation
from app.operator.worker_answer import add_timeout, done_text, not_applied
from app.settings.model import Settings, load
from app.worker.wiring import is_mapped, kafka_client, topic_plans
from connectors.errors import RequestReplaced, UsageError
from connectors.kafka.reading import StoredRecord, read_to_end
from connectors.kafka.topics import Topics
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import (
    UNIT,
    Decided,
    Decision,
    Verb,
    decided_in,
    decision_in,
    note_of_decision,
    outcome_key,
    table_of,
)
from tables.history.logical_schemas.published import PublishedSchema, key_name
from wire.text import utc

log = logging.getLogger(__name__)


async def published_tables(settings: Settings) -> dict[TableName, PublishedSchema]:
    """Return the last record of each logical table; empty before the first is published.

    A record that is not a logical schema is skipped, as the publication does, and logged. Raise UsageError if
    the settings have no mapping.
    """
    if not is_mapped(settings):
        raise UsageError("the settings have no mapping, so there are no logical tables")
    options, plan = kafka_client(settings).options(), topic_plans(settings).logical_schemas()
    if not await Topics(options).has(plan):
        return {}
    found: dict[TableName, PublishedSchema] = {}
    for record in await read_to_end(options, plan.name, 0):
        try:
            if record.value:
                one = PublishedSchema.from_record(record.value)
                found[one.name] = one
            else:
                found.pop(key_name(record.key), None)
        except ValueError as error:
            log.warning("offset %d of %s is skipped: %s", record.offset, plan.name, error)
    return found


async def published_table(settings: Settings, name: TableName) -> PublishedSchema:
    """Return the last record of a logical table; raise UsageError if there is no such table."""
    found = (await published_tables(settings)).get(name)
    if found is None:
        raise UsageError(
            f"{'.'.join(name)} is no logical table with published rows; `python -m app shards show` lists them"
        )
    return found


_HEAD = ("TABLE", "STATE", "SINCE", "SHARDS", "DIFFERENCES")


def configure_show(parser: argparse.ArgumentParser) -> None:
    """Take a table; without a table, all are shown."""
    parser.epilog = "A shard's change is seen with its first row after the change."
    _add_logical_table(parser, nargs="?")
    add_format(parser)
    parser.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )


def _add_logical_table(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    parser.add_argument(
        "table",
        metavar="TABLE",
        type=parse_table,
        nargs=nargs,
        help="a logical table, as trade.orders",
    )


def run_show(options: argparse.Namespace) -> int:
    """Print the logical tables."""
    settings = load()
    if options.table is not None:
        found = run_operation(published_table(settings, options.table))
        print_answer(options.format, _table_value(found), _table_lines(found))
        return 0
    tables = run_operation(published_tables(settings))
    rows = [_table_row(one) for _, one in sorted(tables.items())]
    value = [_table_value(one) for _, one in sorted(tables.items())]
    lines = aligned_table(_HEAD, rows) if rows else ["no rows of a logical table are published yet"]
    print_answer(options.format, value, lines)
    return 0


def _table_lines(found: PublishedSchema) -> list[str]:
    content = found.content
    since = f"since {utc(found.since_ms)}"
    key = content["primary_key"]
    lines = [
        f"{'.'.join(found.name)}  {found.state.value} {since}  version {found.version}",
        "",
        *aligned_table(["column", "type", "null", "charset"], map(_column_row, content["columns"])),
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
    lines += ["", *aligned_table(["shard", "version", "lacks"], map(_shard_row, content["shards"]))]
    if content["decisions"]:
        lines += ["", "decisions"]
    for one in content["decisions"]:
        lines.append(f"  {one['decision']}  by {one['by']}, {utc(one['ts_ms'])}: {one['why']}")
    return lines


def _table_row(one: PublishedSchema) -> tuple[str, ...]:
    changes = "; ".join(change["text"] for change in one.content["changes"])
    count = str(len(one.content["shards"]))
    return ".".join(one.name), one.state.value, utc(one.since_ms), count, changes


def _column_row(one: dict[str, Any]) -> tuple[str, ...]:
    null = "null" if one["nullable"] else "not null"
    return one["name"], one["type"] or "(no common type)", null, one["charset"] or ""


def _shard_row(one: dict[str, Any]) -> tuple[str, ...]:
    lacks = "; ".join(one["lacks"]) or "nothing"
    if one["dropped_ms"] is not None:
        lacks = f"dropped {utc(one['dropped_ms'])}"
    elif one["excluded"]:
        lacks = "excluded"
    return one["name"], str(one["version"]), lacks


def _table_value(one: PublishedSchema) -> dict[str, Any]:
    numbers = {"version": one.version, "since_ms": one.since_ms, "ts_ms": one.ts_ms}
    return {**one.content, **numbers}


async def resolve(
    settings: Settings,
    table: TableName,
    verb: Verb,
    *,
    name: str = "",
    value: str = "",
    by: str,
    why: str,
    wait: float,
) -> tuple[Decided, float]:
    """Send a decision, and wait up to ``wait`` seconds for a worker to apply or refuse it.

    Return the worker's outcome, and the seconds taken.

    ``name`` is a real table, with or without its destination, or a column. ``value`` is the type to take. Raise
    UsageError if there is no such logical table or shard, NotApplied if no worker answered in time,
    RequestReplaced if another decision on the same subject came first.
    """
    published = await published_table(settings, table)
    decision = Decision(
        table=table,
        id=uuid.uuid4().hex[:12],
        verb=verb,
        name=_decided_name(published, verb, name),
        value=published.content["difference"] if verb is Verb.ACCEPT else value,
        by=by,
        why=why,
        ts_ms=time.time_ns() // 1_000_000,
    )
    journal = UnitJournal.of(settings, UNIT)
    began = time.monotonic()
    offset = await journal.write(note_of_decision(decision))
    try:
        sent = replace(decision, offset=offset)
        decided = await wait_for_record(journal.partition, offset, partial(_decided, sent), wait)
    except TimeoutError:
        unreadable = (await journal.latest_state()).unreadable
        of_table = [one for key, one in unreadable.items() if table_of(key) == table]
        error = await not_applied(
            journal, str(decision), wait, why=of_table[0].in_one_line if of_table else None
        )
        error.context["table"] = ".".join(table)
        raise error from None
    return decided, time.monotonic() - began


def _decided_name(published: PublishedSchema, verb: Verb, name: str) -> str:
    """The shard or column as decisions name it; raise UsageError if the table has no such shard."""
    if verb is Verb.TAKE_TYPE:
        return name.lower()
    if verb not in (Verb.EXCLUDE, Verb.INCLUDE):
        return ""
    found = [
        one["name"]
        for one in published.content["shards"]
        if name in (one["name"], f"{one['database']}.{one['table']}")
    ]
    if len(found) == 1:
        return str(found[0])
    known = ", ".join(one["name"] for one in published.content["shards"])
    what = "is in several destinations; name one" if found else "is no real table of it"
    raise UsageError(f"{name} {what}. {'.'.join(published.name)} has {known}")


def _decided(decision: Decision, record: StoredRecord) -> Decided | None:
    """Return a worker's outcome of a decision; raise RequestReplaced if the record is a later decision."""
    if record.key == note_of_decision(decision)[0]:
        other = decision_in(record)
        raise RequestReplaced(f"{other}, requested by {other.by}", table=".".join(other.table))
    if record.key != outcome_key(decision.table, decision.subject):
        return None
    decided = decided_in(record)
    return decided if decided.id == decision.id else None


def configure_resolve(parser: argparse.ArgumentParser) -> None:
    """Take a table, a decision, and its reason."""
    parser.epilog = "Whatever is decided, each row is published with the columns of its own shard."
    _add_logical_table(parser)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument(
        "--exclude", metavar="REAL",
        help="do not count this shard: database.table, or destination:database.table",
    )  # fmt: skip
    verb.add_argument("--include", metavar="REAL", help="count an excluded shard again")
    verb.add_argument("--accept", action="store_true", help="let the shards differ as they do now")
    verb.add_argument(
        "--take-type", metavar="COLUMN=TYPE", type=_column_type,
        help="take a type for a column whose types cannot be joined",
    )  # fmt: skip
    verb.add_argument(
        "--reopen", action="store_true", help="no longer accept differences, nor take types"
    )
    parser.add_argument("--why", required=True, metavar="TEXT", help="the reason, for the record")
    add_timeout(parser)
    add_format(parser)


def run_resolve(options: argparse.Namespace) -> int:
    """Send a decision; return 0 once it is in force, 1 if it is refused. Raise NotApplied without answer."""
    column, type_text = options.take_type or ("", "")
    verbs = {
        Verb.EXCLUDE: options.exclude,
        Verb.INCLUDE: options.include,
        Verb.ACCEPT: options.accept,
        Verb.TAKE_TYPE: column,
        Verb.REOPEN: options.reopen,
    }
    ((verb, given),) = ((one, given) for one, given in verbs.items() if given)
    decided, seconds = run_operation(
        resolve(
            load(),
            options.table,
            verb,
            name=given if isinstance(given, str) else "",
            value=type_text,
            by=operator(),
            why=options.why,
            wait=options.timeout,
        )
    )
    name = ".".join(options.table)
    if decided.refused:
        text = f"refused by worker {decided.worker}: {decided.refused}"
    else:
        text = f"{decided.state}{done_text(decided.worker, seconds)}"
    value = {
        "table": name,
        "decision": decided.id,
        "state": decided.state or None,
        "refused": decided.refused or None,
        "worker": decided.worker,
        "seconds": round(seconds, 3),
    }
    print_answer(options.format, value, [f"{name}: {text}"])
    return 1 if decided.refused else 0


def _column_type(text: str) -> tuple[str, str]:
    column, equals, type_text = text.partition("=")
    if not (equals and column and type_text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=TYPE, such as amount=varchar(80)")
    return column, type_text.strip()
