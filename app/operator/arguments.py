"""Arguments that several commands take: a destination, a table, a binlog position, the output
format.

Invariant: a position has a form that an operator can copy from a log: a GTID, a GTID set, file:pos, or a time.
Nothing is guessed: a time without a zone is UTC.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from app.settings.start_position import milliseconds
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates, Gtids, SourceOffset, parse_gtids
from tables.history.position import AtGtid, AtTime, PositionQuery

_UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ONE_GTID = re.compile(rf"{_UUID}(:[a-z_]\w*)?:\d+")
_GTIDS = re.compile(rf"{_UUID}:|\d+-\d+-\d+(,|$)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ].+)?")


@dataclass(frozen=True, slots=True)
class GivenPosition:
    """A position as given; the history supplies the server of file and offset."""

    value: Coordinates | Gtids | str | int
    """A set of GTIDs; one GTID as text; a time in milliseconds."""

    @classmethod
    def parse(cls, text: str) -> GivenPosition:
        """Parse a position; raise ValueError if the text is not one."""
        text = text.strip()
        if _TIME.fullmatch(text):
            found = datetime.fromisoformat(text)
            return cls(
                round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
            )
        if _ONE_GTID.fullmatch(text):
            # As the server prints it.
            return cls(text.lower())
        if _GTIDS.match(text):
            # A single GTID of MariaDB is also a position: all transactions of its domain up to this GTID.
            return cls(parse_gtids(text))
        return cls(Coordinates.parse(text))

    def history_query(self, server_uuid: str, coordinates: Coordinates) -> PositionQuery:
        """Return the query for a history of this server, which was read up to these coordinates."""
        match self.value:
            case Coordinates():
                return SourceOffset(server_uuid=server_uuid, coordinates=self.value)
            case str():
                return AtGtid(self.value)
            case int():
                return AtTime(self.value)
        return SourceOffset(server_uuid=server_uuid, coordinates=coordinates, gtid_set=self.value)


_QUOTED = re.compile(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")
POSITION_FORMS = "a GTID, a GTID set, file:pos, or a time such as 2026-11-21T10:00:00Z"


def parse_position(text: str) -> GivenPosition:
    """Parse a position; for argparse."""
    text = text.strip()
    try:
        return GivenPosition.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a position; write {POSITION_FORMS}"
        ) from None


def parse_time(text: str) -> int:
    """Parse a time of ISO 8601 with a zone, or milliseconds since 1970; for argparse."""
    try:
        return milliseconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_table(text: str) -> TableName:
    """Parse ``database.table``, or both names in backticks as MySQL writes them; for argparse."""
    if quoted := _QUOTED.fullmatch(text):
        database, name = (part.replace("``", "`") for part in quoted.groups())
        return database, name
    database, dot, name = text.partition(".")
    if not (dot and database and name):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a table; write database.table, or `database`.`table` if a name has a dot"
        )
    return database, name


def add_destination(parser: argparse.ArgumentParser) -> None:
    """Add the destination."""
    parser.add_argument("destination", metavar="DEST", help="name of a destination in the settings")


def add_table(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the table."""
    parser.add_argument(
        "table",
        metavar="db.table",
        type=parse_table,
        nargs="?" if optional else None,
        help="a table",
    )


def add_tables(parser: argparse.ArgumentParser) -> None:
    """Add any number of tables."""
    parser.add_argument(
        "tables",
        metavar="db.table",
        type=parse_table,
        nargs="*",
        help="tables, by their real names",
    )


def add_position(
    parser: argparse.ArgumentParser, name: str, meaning: str, *, required: bool = False
) -> None:
    """Add a binlog position."""
    help_text = f"{meaning}: {POSITION_FORMS}"
    parser.add_argument(
        name, metavar="POSITION", type=parse_position, required=required, help=help_text
    )


def add_gtid_or_file(
    parser: argparse.ArgumentParser, *, metavar: str, gtid: str, file: str, pos: str
) -> None:
    """Add ``--gtid``, ``--file`` and ``--pos`` with their help texts; ``metavar`` is for ``--gtid``."""
    parser.add_argument("--gtid", metavar=metavar, help=gtid)
    parser.add_argument("--file", metavar="FILE", help=file)
    parser.add_argument("--pos", type=int, metavar="N", help=pos)


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the server of a file:pos."""
    parser.add_argument(
        "--server",
        metavar="UUID",
        help="the server_uuid that file:pos belongs to; default: the server that is read now",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the central store for reading the history."""
    parser.add_argument(
        "--from-store",
        action="store_true",
        help="read the central store named by schema_history.mysql instead of the journal",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the output format, text or JSON."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="output format (default: %(default)s)",
    )
