"""mysql-replication as a witness: for hosts without MySQL's own programs.

Invariant: what it would silently skip is TruthUnreadable here; rows that it cannot read, and values
that it decodes differently from MySQL, are counted as not judged. It reads servers, not files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from app.audit.errors import TruthUnreadable, remedy_of
from app.audit.table_shape import Shape
from app.audit.truth.printed_events import (
    Before,
    Event,
    FileBegins,
    Row,
    Transactions,
    UnreadableRows,
)
from app.audit.truth.replicated_values import image_of, shape_of
from app.audit.truth.witness import WitnessName
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.server.facts import SourceAddress, read_facts
from connectors.mysql.stream import second_reader

_REMEDY = "Audit with --witness mysqlbinlog, or begin in a later binlog file with --from."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationBinlog:
    """The binlog as a running server sends it to mysql-replication."""

    address: SourceAddress
    server_uuid: str
    names: tuple[str, ...]
    charsets: Charsets

    @property
    def name(self) -> WitnessName:
        """See Witness."""
        return WitnessName.MYSQL_REPLICATION

    @classmethod
    def of(cls, address: SourceAddress) -> ReplicationBinlog:
        """Read the server's list of files; TruthUnreadable if the package cannot judge its binlog."""
        facts = read_facts(address)
        if facts.is_mariadb:
            raise TruthUnreadable(
                "the source is a MariaDB, whose binlog the audit does not read", source=address
            )
        for variable, wanted in (("binlog_row_metadata", "FULL"), ("binlog_checksum", "CRC32")):
            found = facts.variables.get(variable, "not set").upper()
            if found != wanted:
                raise TruthUnreadable(
                    f"mysql-replication needs {variable} = {wanted}, the server's is {found}",
                    source=address,
                    remedy="Set it, or audit with --witness mysqlbinlog.",
                )
        names = tuple(name for name, _ in facts.binlogs)
        if not names:
            raise TruthUnreadable("the server lists no binlog files", source=address)
        return cls(
            address=address, server_uuid=facts.server_uuid, names=names, charsets=facts.charsets
        )

    def files(self) -> Sequence[str]:
        """See Witness."""
        return self.names

    def events(self, first: str) -> Generator[Event]:
        """See Witness."""
        reading, events = second_reader.read(self.address, first, self._charset), _AuditEvents()
        try:
            for each in reading:
                yield from events.take(each)
        except second_reader.Unreadable as error:
            raise TruthUnreadable(
                f"mysql-replication stops: {error}",
                source=self.address,
                remedy=remedy_of(str(error), _REMEDY),
            ) from error
        finally:
            reading.close()

    def _charset(self, collation: int) -> str | None:
        try:
            return self.charsets.name(collation)
        except KeyError:
            return None


class _AuditEvents(Transactions):
    """Converts the package's events to the audit's."""

    def __init__(self) -> None:
        super().__init__()
        self._shapes: dict[second_reader.ReadTable, Shape] = {}

    def take(self, each: second_reader.Read) -> Iterator[Event]:
        self._pos, self._end = each.pos, each.end
        if not self._is_open:
            self._ts_ms = each.seconds * 1000
        match each.what:
            case second_reader.Changed():
                return self._rows(each.what)
            case second_reader.Unread(database, table, why):
                shape = Shape(database, table, (), None)
                return iter((UnreadableRows(shape, self._pos, why),))
            case second_reader.QueryRead(sql, database):
                self._database = database or self._database
                return self._statement(sql.rstrip("\n"))
            case second_reader.Prepared(xid, one_phase):
                return self._xa(f"XA COMMIT {xid} ONE PHASE" if one_phase else f"XA PREPARE {xid}")
            case second_reader.Started(gtid):
                return iter((self._transaction(None if gtid is None else gtid.encode()),))
            case second_reader.Committed():
                return iter((self._ended(),))
            case second_reader.FileBegins(file):
                return iter((FileBegins(file),))
            case second_reader.Previous(gtids):
                return iter((Before(gtids),))

    def _rows(self, changed: second_reader.Changed) -> Iterator[Event]:
        table = changed.table
        shape = self._shapes.get(table)
        if shape is None:
            shape = self._shapes[table] = shape_of(table)
        for before, after in changed.rows:
            images = image_of(before, table.columns), image_of(after, table.columns)
            yield Row(changed.kind, shape, self._pos, *images)
