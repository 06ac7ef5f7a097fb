"""`python -m app schema impact`: what a statement would mean to subscribers, before anybody runs it.

The law: nothing is run and nothing is written. Exit 0 where it may be run, 3 where it breaks subscribers (or,
if asked for, where they must be careful), so that a pipeline of changes can stop there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from app.commands import arguments
from app.commands.output import answer
from app.commands.schema.statement_text import statements, used_database
from app.commands.schema_history import Tell, check_destination, told
from app.pipeline.statement_filter import shadow_rules
from app.pipeline.table_filter import TableFilter
from app.settings.model import Settings, load
from connectors.errors import DdlUnresolved, SettingsError, UsageError, printed
from connectors.mysql.binlog import sql_modes
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.column_renames import renamed_columns
from connectors.mysql.ddl.definition import Server, Session, Table, TableName
from connectors.mysql.ddl.online.cut_over import logical
from connectors.mysql.ddl.online.shadow_rules import ShadowRules
from connectors.mysql.ddl.summary import summary
from tables.impact.finding import Severity
from tables.impact.impact import Impact, Subscribers, impact, severest, truncated
from tables.impact.text import as_text
from tables.schema_history.statement_effect import effect_of, fill

BREAKS = 3
"""The exit code of a statement that is not to be run just so."""
_FAIL_ON = {"breaking": Severity.BREAKING, "careful": Severity.CAREFUL}
_PLACEHOLDER = "<prefix>"
_SERVER = Server(version=(9, 7, 4))


def configure(parser: argparse.ArgumentParser) -> None:
    """Take statements, and say what they are judged by."""
    parser.epilog = (
        "Without --live or --input the definitions are those of the schema history, as it ends. "
        "Exit code: 0, or 3 where the worst is as bad as --fail-on says, or worse; 1 where it cannot be told."
    )
    arguments.add_destination(parser)
    parser.add_argument(
        "statement",
        nargs="+",
        metavar="STATEMENT",
        help='such as "ALTER TABLE orders DROP note"; several in one, with ; between; - reads them from input',
    )
    parser.add_argument("--database", metavar="DB", help="of names without one")
    parser.add_argument(
        "--sql-mode",
        type=_modes,
        default=sql_modes.DEFAULT,
        metavar="MODES",
        help="they are run under; without it, MySQL's default",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--live", action="store_true", help="ask the server for its definitions now"
    )
    source.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="take them from a file: what `schema rebuild --format json` printed, or statements, as "
        "mysqldump --no-data writes them; neither server nor Kafka is asked",
    )
    parser.add_argument(
        "--fail-on", choices=(*_FAIL_ON, "never"), default="breaking", help="(%(default)s)"
    )
    arguments.add_format(parser)


def _modes(text: str) -> frozenset[str]:
    try:
        return sql_modes.of_text(text)
    except sql_modes.UnknownSqlMode as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One statement, and what it means."""

    sql: str
    type: str
    impacts: tuple[Impact, ...]


def live(settings: Settings, destination: str) -> Catalog:
    """What the server says now."""
    # Only here is a server asked.
    from app.wiring import source_address
    from connectors.mysql.schema.baseline import read_baseline
    from connectors.mysql.server.facts import read_facts

    address = source_address(settings, destination)
    baseline = read_baseline(address, read_facts(address))
    catalog = Catalog(baseline.server, logged=False)
    for database, definition in baseline.databases.items():
        catalog.put_database(database, definition)
    for name, table in baseline.tables.items():
        catalog.put(name, table)
    return catalog


def run(
    options: argparse.Namespace,
    tell: Tell = told,
    ask: Callable[[Settings, str], Catalog] = live,
) -> int:
    """Print what the statements mean; the exit code."""
    settings = _settings(options)
    catalog = _catalog(options, settings, tell, ask)
    judge = _Judge(catalog, _subscribers(settings, options.destination), _rules(settings))
    session = Session(database=options.database, sql_mode=options.sql_mode)
    found = list(judge.each(_given(options.statement), session))
    worst = severest(one for judged in found for one in judged.impacts)
    answer(options.format, _value(found, worst), _lines(found))
    least = _FAIL_ON.get(options.fail_on)
    return BREAKS if least is not None and worst.rank >= least.rank else 0


def _settings(options: argparse.Namespace) -> Settings | None:
    """The settings; with a file, there need be none."""
    try:
        settings = load()
        check_destination(settings, options.destination)
    except (SettingsError, UsageError):
        if options.input is None:
            raise
        return None
    return settings


def _subscribers(settings: Settings | None, destination: str) -> Subscribers:
    if settings is None:
        return Subscribers(prefix=_PLACEHOLDER)
    chosen = settings.destinations[destination].filter
    captures = TableFilter(chosen.include, chosen.black).captures
    return Subscribers(prefix=settings.prefix, captured=lambda name: captures(*name))


def _rules(settings: Settings | None) -> ShadowRules:
    if settings is None:
        return shadow_rules()
    return shadow_rules(never=settings.ddl.never_online, also=settings.ddl.also_online)


def _catalog(
    options: argparse.Namespace,
    settings: Settings | None,
    tell: Tell,
    ask: Callable[[Settings, str], Catalog],
) -> Catalog:
    if options.input is not None:
        return _from_file(options.input, options.database)
    if options.live and settings is not None:
        return ask(settings, options.destination)
    found = tell(options.destination)
    server = found.history.checkpoints[-1].server
    catalog = Catalog(server, logged=False)
    fill(catalog, found.history.now())
    return catalog


def _from_file(path: Path, database: str | None) -> Catalog:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    with suppress(ValueError):
        text = _rebuilt(orjson.loads(text))
    catalog = Catalog(_SERVER, logged=False)
    session = Session(database=database, sql_mode=sql_modes.DEFAULT)
    if database is not None:
        # A dump of one database does not say its name.
        quoted = database.replace("`", "``")
        catalog.apply(f"CREATE DATABASE `{quoted}`", session)
    for sql in statements(text):
        if (used := used_database(sql)) is not None:
            session = replace(session, database=used)
            continue
        try:
            catalog.apply(sql, session)
        except DdlUnresolved as error:
            sys.stderr.write(f"schema impact: {path}: left out: {printed(error.detail)}\n")
    return catalog


def _rebuilt(value: Any) -> str:
    """The statements that ``schema rebuild`` printed."""
    databases = value.get("databases") if isinstance(value, dict) else None
    if not isinstance(databases, dict):
        raise UsageError("the file is JSON, and not what `schema rebuild --format json` prints")
    return "\n".join(
        f"{text}\n" for name, text in databases.items() if isinstance(text, str) and name
    )


def _given(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from statements(sys.stdin.read() if text == "-" else text)


class _Judge:
    """Takes statements one after the other, each where the last one left the tables."""

    def __init__(self, catalog: Catalog, subscribers: Subscribers, rules: ShadowRules) -> None:
        self._catalog = catalog
        self._subscribers = subscribers
        self._rules = rules
        self._last: dict[TableName, Table] = {}

    def each(self, given: Iterator[str], session: Session) -> Iterator[Judged]:
        for sql in given:
            if (database := used_database(sql)) is not None:
                session = replace(session, database=database)
            else:
                yield self._one(sql, session)

    def _one(self, sql: str, session: Session) -> Judged:
        server = self._catalog.server
        told = summary(sql, server, session)
        self._last |= dict(self._catalog.items())
        effect = effect_of(sql, session, self._catalog)
        if effect.reason is not None:
            raise DdlUnresolved(
                effect.reason,
                tables=sorted(effect.unresolved),
                remedy="Nothing was run. See that the statement and its --database are right, and that "
                "the definitions it is judged by are.",
            )
        if told.type == "TRUNCATE TABLE":
            emptied = [truncated(name, self._subscribers) for name in sorted(told.tables)]
            return Judged(sql=sql, type=told.type, impacts=sum(emptied, ()))
        meant = logical(effect.changes, self._rules, known=self._catalog, before=self._last.get)
        renames = renamed_columns(sql, server, session)
        impacts = impact(meant, self._subscribers, renames=renames)
        return Judged(sql=sql, type=told.type, impacts=impacts)


def _value(found: list[Judged], worst: Severity) -> dict[str, Any]:
    return {
        "severity": worst.value,
        "statements": [
            {
                "statement": judged.sql,
                "type": judged.type,
                "severity": severest(judged.impacts).value,
                "effects": [one.to_json() for one in judged.impacts],
            }
            for judged in found
        ],
    }


def _lines(found: list[Judged]) -> Iterator[str]:
    for number, judged in enumerate(found):
        if len(found) > 1:
            yield from ([""] if number else [])
            yield f"-- {' '.join(judged.sql.split())}"
        yield from as_text(judged.impacts).splitlines()
