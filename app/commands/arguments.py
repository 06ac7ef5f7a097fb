"""Arguments that several commands take: a destination, a table, a place of the binlog, the form of the answer.

The law: a place is what an operator can copy from a log: a GTID, a set of them, file:pos, or a time. Nothing is
guessed: a time without a zone is UTC.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates, Gtids, SourceOffset, parse_gtids
from tables.schema_history.position import Asked, AtGtid, AtTime

_UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ONE_GTID = re.compile(rf"{_UUID}(:[a-z_]\w*)?:\d+")
_GTIDS = re.compile(rf"{_UUID}:|\d+-\d+-\d+(,|$)")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ].+)?")
PLACES = "a GTID, a GTID set, file:pos, or a time such as 2026-11-21T10:00:00Z"


@dataclass(frozen=True, slots=True)
class GivenPlace:
    """A place as it was given; whose file and offset are meant, the history tells."""

    value: Coordinates | Gtids | str | int
    """A set of GTIDs; one GTID as text; a time in milliseconds."""

    def asked(self, server_uuid: str, coordinates: Coordinates) -> Asked:
        """What to ask a history that is of this server, and read to there."""
        match self.value:
            case Coordinates():
                return SourceOffset(server_uuid=server_uuid, coordinates=self.value)
            case str():
                return AtGtid(self.value)
            case int():
                return AtTime(self.value)
        return SourceOffset(server_uuid=server_uuid, coordinates=coordinates, gtid_set=self.value)


def place(text: str) -> GivenPlace:
    """Read a place; for argparse."""
    text = text.strip()
    try:
        if _TIME.fullmatch(text):
            return GivenPlace(_milliseconds(text))
        if _ONE_GTID.fullmatch(text):
            return GivenPlace(text)
        if _GTIDS.match(text):
            # Of MariaDB one GTID is a position as well: all of its domain up to it.
            return GivenPlace(parse_gtids(text))
        return GivenPlace(Coordinates.parse(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is none of: {PLACES}") from None


def _milliseconds(text: str) -> int:
    found = datetime.fromisoformat(text)
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def table(text: str) -> TableName:
    """Read ``database.table``, or both names in backticks as MySQL writes them; for argparse."""
    if quoted := _QUOTED.fullmatch(text):
        database, name = (part.replace("``", "`") for part in quoted.groups())
        return database, name
    database, dot, name = text.partition(".")
    if not (dot and database and name):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no table: write database.table, or `database`.`table` where a name has a dot"
        )
    return database, name


def add_destination(parser: argparse.ArgumentParser) -> None:
    """Which source's history is asked."""
    parser.add_argument("destination", metavar="DEST", help="a destination of the settings")


def add_table(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Which table."""
    parser.add_argument(
        "table", metavar="db.table", type=table, nargs="?" if optional else None, help="a table"
    )


def add_place(
    parser: argparse.ArgumentParser, name: str, meaning: str, *, required: bool = False
) -> None:
    """A place of the binlog."""
    told = f"{meaning}: {PLACES}"
    parser.add_argument(name, metavar="PLACE", type=place, required=required, help=told)


def add_server(parser: argparse.ArgumentParser) -> None:
    """Whose file:pos is meant."""
    parser.add_argument(
        "--server",
        metavar="UUID",
        help="the server that file:pos is of; without it, the one that is read now",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Where the history is read."""
    parser.add_argument(
        "--from-store",
        action="store_true",
        help="read the central store that schema_history.mysql names, instead of the journal",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """Text or JSON."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the answer")
