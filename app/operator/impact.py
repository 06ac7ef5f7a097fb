"""`schema impact`: the effect of statements on subscribers, before they are run.

Invariant: nothing is run and nothing is written; statements are judged one after the other, each on the tables
as the previous statement left them. A statement ends at a delimiter outside strings, names and comments;
``DELIMITER`` lines apply. Exit 0 if the statements may be run; 3 if they break subscribers (or, on request, if
subscribers must be careful), so that a pipeline of changes can stop there.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from app.operator import arguments
from app.operator.journal_access import check_destination
from app.operator.mapping import with_mapping_in_force
from app.operator.schema import ReadByName, ReadHistory, from_journal
from app.operator.terminal import print_answer, run_operation, shortened
from app.settings.model import Settings, load
from app.settings.statement_filter import shadow_rules
from app.worker.destination.background import in_its_own_thread
from app.worker.wiring import routes_of, source_address
from connectors.errors import DdlUnresolved, SettingsError, UsageError
from connectors.mysql.binlog import query_session
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session, Table, TableName
from connectors.mysql.ddl.online import ShadowRules, logical
from connectors.mysql.ddl.parsed_statement import ParsedStatement, parse_statement
from connectors.mysql.schema.baseline import Baseline, read_baseline
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import read_facts
from tables.history.impact.findings import Severity
from tables.history.impact.impact import Impact, as_text, impact, rows_changed, severest, truncated
from tables.history.resolved_statement import fill, resolved
from tables.rules.routes.routes import Routes
from wire.text import printed

_COMMENT = r"/\*(?!!|M!).*?\*/|(?:--(?=\s|$)|#)[^\n]*"
"""A comment that no server executes."""
# Possessive, so that a comment never gives back its end for more to match.
_BLANK = rf"(?:\s|{_COMMENT})*+"
_DELIMITER = re.compile(rf"{_BLANK}delimiter[ \t]+(\S+)[ \t]*(?:\n|$)", re.IGNORECASE | re.DOTALL)
_USE = re.compile(
    rf"{_BLANK}use\s+(?:`((?:[^`]|``)+)`|([^\s;`]+)){_BLANK}", re.IGNORECASE | re.DOTALL
)
_WHOLE = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|/\*.*?\*/|(?:--(?=\s|$)|\#)[^\n]*"""


def statements(text: str) -> Iterator[str]:
    """Yield each statement, without its delimiter; empty ones are skipped."""
    at, delimiter = 0, ";"
    while at < len(text):
        while found := _DELIMITER.match(text, at):
            delimiter, at = found[1], found.end()
        end = _end(text, at, delimiter)
        if not _is_empty(text[at:end]):
            yield text[at:end].strip()
        at = end + len(delimiter)


def used_database(statement: str) -> str | None:
    """Return the database that a USE statement selects; None for any other statement."""
    found = _USE.fullmatch(statement)
    return found and (found[1] or found[2]).replace("``", "`")


def _end(text: str, at: int, delimiter: str) -> int:
    for found in re.finditer(f"({re.escape(delimiter)})|{_WHOLE}|.", text[at:], re.DOTALL):
        if found[1]:
            return at + found.start()
    return len(text)


def _is_empty(statement: str) -> bool:
    """Return whether a statement has only comments; an executable comment is a statement."""
    return re.fullmatch(_BLANK, statement, re.DOTALL) is not None


_FORMS = {
    "USE": "Write `USE name` and end it with the delimiter, as any other statement.",
    "DELIMITER": "Write `DELIMITER` and the new delimiter on a line of their own.",
}
"""The form of each command of the client that is known."""


def _parsed(sql: str, server: Server, session: Session) -> ParsedStatement:
    """Parse a statement; raise DdlUnresolved if it is a command of the client in a form that is not known.

    The statements after it would be cut, or their tables looked up, in another way than the client's.
    """
    statement = parse_statement(sql, server, session)
    if statement.type in _FORMS:
        raise DdlUnresolved(
            f"{statement.type} is not understood in: {shortened(sql)}",
            remedy=f"Nothing was run. {_FORMS[statement.type]}",
        )
    return statement


_FILE_SERVER = Server(version=(9, 7, 4))


def file_catalog(text: str, database: str | None) -> tuple[Catalog, list[DdlUnresolved]]:
    """Return the tables that a file's statements make, and the errors of the statements that were skipped.

    The file is a dump, or the JSON output of `schema rebuild`; raise UsageError if it is JSON of another kind.
    """
    with suppress(ValueError):
        text = _rebuild_output(orjson.loads(text))
    catalog, skipped = Catalog(_FILE_SERVER, logged=False), list[DdlUnresolved]()
    session = Session(database=database, sql_mode=query_session.DEFAULT)
    if database is not None:
        # A dump of one database does not contain its name.
        quoted = database.replace("`", "``")
        catalog.apply(f"CREATE DATABASE `{quoted}`", session)
    for sql in statements(text):
        if (used := used_database(sql)) is not None:
            session = replace(session, database=used)
            continue
        try:
            catalog.apply_parsed(_parsed(sql, catalog.server, session))
        except DdlUnresolved as error:
            skipped.append(error)
    return catalog, skipped


def _rebuild_output(value: Any) -> str:
    databases = value.get("databases") if isinstance(value, dict) else None
    if not isinstance(databases, dict):
        raise UsageError("the file is JSON, but not an output of `schema rebuild --format json`")
    return "\n".join(
        f"{text}\n" for name, text in databases.items() if isinstance(text, str) and name
    )


async def read_first_source_catalog(settings: Settings, destination: str) -> Catalog:
    """Return the tables of a destination's first source, to apply statements to; the journal is not
    read."""
    address = source_address(settings, destination)
    baseline = await in_its_own_thread(partial(_baseline, address))
    catalog = Catalog(baseline.server, logged=False)
    for database, definition in baseline.databases.items():
        catalog.put_database(database, definition)
    for name, table in baseline.tables.items():
        catalog.put(name, table)
    return catalog


def _baseline(address: SourceAddress) -> Baseline:
    return read_baseline(address, read_facts(address))


_PLACEHOLDER = "<prefix>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactRules:
    """The rules for judging statements: the routes of their tables, and which tables are shadows of
    others."""

    routes: Routes = field(default_factory=lambda: Routes(prefix=_PLACEHOLDER))
    shadows: ShadowRules = field(default_factory=shadow_rules)

    @classmethod
    def of(cls, settings: Settings, destination: str) -> ImpactRules:
        """Return the rules of a destination."""
        return cls(
            routes=routes_of(settings, destination),
            shadows=shadow_rules(never=settings.ddl.never_online, also=settings.ddl.also_online),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementImpact:
    """One statement, and its impact."""

    sql: str
    type: str
    impacts: tuple[Impact, ...]


async def history_catalog(read: ReadHistory) -> Catalog:
    """Return the tables at the end of a history, to apply statements to."""
    found = await read()
    catalog = Catalog(found.history.checkpoints[-1].server, logged=False)
    fill(catalog, found.history.now())
    return catalog


async def judge(
    statements: Iterable[str], catalog: Catalog, session: Session, *, rules: ImpactRules
) -> tuple[StatementImpact, ...]:
    """Return the impact of statements on tables; raise DdlUnresolved if one cannot be judged.

    The statements are applied to the catalog.
    """
    judged, last = [], dict[TableName, Table]()
    route_of = rules.routes.of
    for sql in statements:
        if (database := used_database(sql)) is not None:
            session = replace(session, database=database)
            continue
        statement = _parsed(sql, catalog.server, session)
        last |= dict(catalog.items())
        found = resolved(statement, catalog)
        if found.reason is not None:
            raise DdlUnresolved(
                found.reason,
                tables=sorted(found.unresolved),
                remedy="Nothing was run. Check the statement, its --database, and the definitions that it "
                "is judged by.",
            )
        if statement.type == "TRUNCATE TABLE":
            emptied = [truncated(name, route_of) for name in sorted(statement.tables)]
            impacts: tuple[Impact, ...] = sum(emptied, ())
        else:
            changes = logical(found.changes, rules.shadows, known=catalog, before=last.get)
            impacts = impact(changes, route_of, renames=found.renames)
            for name, what in found.unlogged:
                impacts += rows_changed(name, what, route_of)
        judged.append(StatementImpact(sql=sql, type=statement.type, impacts=impacts))
    return tuple(judged)


BREAKS = 3
"""The exit code of a statement that needs preparation before it is run."""
_FAIL_ON = {"breaking": Severity.BREAKING, "careful": Severity.CAREFUL}

Ask = Callable[[Settings, str], Coroutine[Any, Any, Catalog]]
"""Returns a server's tables, by the settings and a destination's name."""


def configure_impact(parser: argparse.ArgumentParser) -> None:
    """Add statements, and what they are judged by."""
    parser.epilog = (
        "Without --live or --input, the definitions are those at the end of the schema history. "
        "Exit code: 0; 3 if the worst severity reaches --fail-on; 1 if the impact cannot be determined."
    )
    arguments.add_destination(parser)
    parser.add_argument(
        "statement",
        nargs="+",
        metavar="STATEMENT",
        help='such as "ALTER TABLE orders DROP note"; several are separated by ; and - reads standard input',
    )
    parser.add_argument("--database", metavar="DB", help="default database of the statements")
    parser.add_argument(
        "--sql-mode",
        type=_modes_of_text,
        default=query_session.DEFAULT,
        metavar="MODES",
        help="SQL mode of the statements; default: MySQL's",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--live", action="store_true", help="use the server's present definitions")
    source.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="use the definitions in a file: output of `schema rebuild --format json`, or statements as "
        "mysqldump --no-data writes them; needs neither server nor Kafka, unless mapping.store is zookeeper",
    )
    parser.add_argument(
        "--fail-on",
        choices=(*_FAIL_ON, "never"),
        default="breaking",
        help="least severity with exit code 3 (default: %(default)s)",
    )
    arguments.add_format(parser)


def _modes_of_text(text: str) -> frozenset[str]:
    try:
        return query_session.of_text(text)
    except query_session.UnknownSqlMode as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run_impact(
    options: argparse.Namespace,
    read_by_name: ReadByName = from_journal,
    ask: Ask = read_first_source_catalog,
) -> int:
    """Print the impact of the statements; return the exit code."""
    settings = _settings(options)
    if settings is not None:
        settings = run_operation(with_mapping_in_force(settings, options.destination))
    catalog = _catalog(options, settings, read_by_name, ask)
    rules = ImpactRules() if settings is None else ImpactRules.of(settings, options.destination)
    session = Session(database=options.database, sql_mode=options.sql_mode)
    found = run_operation(judge(list(_given(options.statement)), catalog, session, rules=rules))
    print_answer(options.format, _impact_value(found), _impact_lines(found))
    least = _FAIL_ON.get(options.fail_on)
    return BREAKS if least is not None and _severity(found).rank >= least.rank else 0


def _settings(options: argparse.Namespace) -> Settings | None:
    """Return the settings; None if they cannot be used, which is allowed if a file gives the definitions."""
    try:
        settings = load()
        check_destination(settings, options.destination)
    except (SettingsError, UsageError):
        if options.input is None:
            raise
        return None
    return settings


def _catalog(
    options: argparse.Namespace, settings: Settings | None, read_by_name: ReadByName, ask: Ask
) -> Catalog:
    """Return the tables by which the statements are judged."""
    if options.input is not None:
        path = options.input
        database = options.database
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from None
        catalog, skipped = file_catalog(text, database)
        for fault in skipped:
            sys.stderr.write(f"schema impact: {path}: ignored: {printed(fault.detail)}\n")
        return catalog
    if options.live and settings is not None:
        return run_operation(ask(settings, options.destination))
    return run_operation(history_catalog(partial(read_by_name, options.destination)))


def _given(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from statements(sys.stdin.read() if text == "-" else text)


def _severity(found: Iterable[StatementImpact]) -> Severity:
    return severest(one for each in found for one in each.impacts)


def _impact_value(found: Sequence[StatementImpact]) -> dict[str, Any]:
    return {
        "severity": _severity(found).value,
        "statements": [
            {
                "statement": one.sql,
                "type": one.type,
                "severity": severest(one.impacts).value,
                "effects": [each.to_json() for each in one.impacts],
            }
            for one in found
        ],
    }


def _impact_lines(found: Sequence[StatementImpact]) -> Iterator[str]:
    for number, one in enumerate(found):
        if len(found) > 1:
            yield from ([""] if number else [])
            yield f"-- {' '.join(one.sql.split())}"
        yield from as_text(one.impacts).splitlines()
