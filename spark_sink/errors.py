"""Every error of the sink, each reported by name on one line with what to do.

The docstring of a class is its message; the text given when it is raised is the location.
A TableError concerns one table: its changes wait in Kafka while all other tables are applied. Any other
error stops the sink and leaves its tables and its checkpoint unchanged, so that a start after the
cause is removed resumes from there.

Invariant: what reloads, comparisons, logs and the exit code make of an error is in attributes of its class,
so that a new error needs this file and the one that raises it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar

from spark_sink.text.secrets import hidden
from wire.text import printed


class OwnRows(Enum):
    """Whether a reload may begin with the rows that a waiting table has."""

    KEPT = "kept"
    """They are as the last batch left them."""
    SUSPECT = "suspect"
    """Another program may have changed them; a reload verifies them first."""
    REPLACED = "replaced"
    """As SUSPECT; and where there are none, they were removed."""
    UNDATED = "undated"
    """It is not known which changes are applied to them."""
    MOVED = "moved"
    """They are those of another name."""
    UNPLACED = "unplaced"
    """As MOVED; but a reload begins with the rows that were built for the table, if there are any."""


class SinkError(Exception):
    """The sink stopped."""

    # No remedy: it is the base class of all errors, and never reported itself.
    exit_code: ClassVar[int] = 1
    of_one_table: ClassVar[bool] = False
    """Whether a comparison continues with other tables."""

    def __init__(self, where: str = "", *, advice: str = "") -> None:
        self.where = where
        self.advice = advice
        super().__init__(str(self))

    def __str__(self) -> str:
        """`Name: what: where. What to do.` on one line, with any name in it."""
        what = " ".join((inspect.getdoc(type(self)) or "").split())
        text = f"{type(self).__name__}: {what.rstrip('.')}"
        if self.where:
            text += f": {self.where}"
        if self.advice:
            text += f". {self.advice}"
        return printed(hidden(text))


class TableError(SinkError):
    """A table's changes cannot be applied; this table waits, the others are applied."""

    # No remedy: it is the base class of the errors of single tables, and never reported itself.
    of_one_table = True
    own_rows: ClassVar[OwnRows] = OwnRows.KEPT
    ends_by_itself: ClassVar[bool] = False
    """Whether the wait ends without an operator, once the table's existing rows are all published again."""


def table_error(name: str) -> type[TableError]:
    """Return the class of a stored error; TableError itself if this version has none of that name."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, TableError) else TableError


class BadSettings(SinkError):
    """The settings cannot be used."""

    exit_code = 2


class MalformedRecord(TableError):
    """A record does not follow the wire contract."""

    reasons: Mapping[tuple[str, int, int], str] = {}
    """All records that were found with it among the rows of one table, each with its reason."""


class ForeignFormat(TableError):
    """A record is in a format that the sink does not read."""


class UnsupportedWire(TableError):
    """A record follows a version of the wire contract other than 1."""


class UnsupportedPartialImage(TableError):
    """A record lacks columns (its row image is partial) that no row of the table has."""

    places: Sequence[tuple[str, int, int]] = ()
    """All such records."""


class RowNotInRecord(TableError):
    """A record came without its row, which was too large for the topic (oversize: key_only)."""


class UnusableLimitReached(TableError):
    """More records cannot be used than unusable_limit allows in an hour."""


class ClaimLost(TableError):
    """The value of a record too large for its topic is not in the claim store."""

    reasons: Mapping[tuple[str, int, int], str] = {}
    """As MalformedRecord's."""


class ClaimStoreUnreachable(SinkError):
    """The claim store, which has the values of records too large for their topics, cannot be read."""


class UnknownSchema(TableError):
    """A record uses a table version that the schemas topic does not hold."""


class ForeignRecords(TableError):
    """A topic has records of a table version that is of another topic: another installation writes there."""


class UnsupportedType(TableError):
    """A column has a MySQL type for which the sink has no warehouse type."""


class ColumnClash(TableError):
    """Two columns of a table have names that are the same to the warehouse."""


class ReservedName(TableError):
    """A column has the name of one of the sink's bookkeeping columns."""


class UnsupportedName(TableError):
    """A table has a name that the warehouse's catalog does not allow."""


class TypeConflict(TableError):
    """A column's type changed in a way that the warehouse table cannot follow."""


class ValuesChanged(TableError):
    """A statement changed rows of a table in a way that only the source shows."""


class KeyChanged(TableError):
    """A table's primary key changed."""


class RowsPublishedAgain(TableError):
    """A table's existing rows are being published again; until all have come, it keeps those from before."""

    ends_by_itself = True


class RenamedWhileWaiting(TableError):
    """A table was renamed or dropped at the source while it waited."""

    own_rows = OwnRows.MOVED


class RenameFailed(TableError):
    """A table was renamed or dropped at the source, and the warehouse's rows could not be moved."""

    own_rows = OwnRows.UNPLACED


class TableFailed(TableError):
    """Spark cannot read or write a table in the warehouse."""

    own_rows = OwnRows.SUSPECT


class ForeignTable(TableError):
    """The folder of a table holds something that the sink did not create."""


class TableReplaced(TableError):
    """A table is not the one that the sink left in the warehouse."""

    own_rows = OwnRows.REPLACED


class LedgerLost(TableError):
    """The ledger is gone, so it is not known up to where a table is applied, and Kafka has removed records."""

    own_rows = OwnRows.UNDATED


class HistoryReplaced(TableError):
    """The history of a table is not the one that the sink left in the warehouse."""


class ColumnsChanged(TableError):
    """Another program changed a table's columns."""

    own_rows = OwnRows.REPLACED


class PartitionUnfit(TableError):
    """A value of a partitioning column cannot be the value of a partition."""


class TopicReplaced(TableError):
    """A topic was deleted and made again, so changes of the table that were not read may be missing."""


class ChangesLost(TableError):
    """Kafka no longer has changes of the table that were not read."""


class ReloadRequested(TableError):
    """A table is being reloaded on request."""


class ReloadRefused(SinkError):
    """A table cannot be reloaded as requested."""


class LoadRefused(SinkError):
    """Rows cannot be loaded from the source."""


class RowsRefused(LoadRefused):
    """Rows of a table cannot be read from the source exactly."""

    of_one_table = True


class LoadStale(SinkError):
    """The source, or what is published of it, has changed in a way that a load cannot continue."""


class TablesDiffer(SinkError):
    """Tables differ from their source."""


class ComparisonIncomplete(SinkError):
    """Not all rows were judged, and those that were are equal."""

    exit_code = 3


class NotComparable(SinkError):
    """A table cannot be compared with its source."""

    of_one_table = True


class TableUnreadable(SinkError):
    """MySQL does not return the rows of a table."""

    of_one_table = True
    code: int = 0
    """MySQL's number of the error."""


class SourceUnreachable(SinkError):
    """The source does not answer, or refuses."""


class MaintenanceIncomplete(SinkError):
    """Not all tables were maintained."""


class TablesWaiting(SinkError):
    """Some tables wait for an operator; all others are up to date."""


class UnknownTable(SinkError):
    """The warehouse holds no such table."""

    of_one_table = True


class CutUnknown(SinkError):
    """No consistent cut is known."""


class CutIncomplete(SinkError):
    """The transaction is not yet complete in the warehouse."""


class CutGone(SinkError):
    """The warehouse cannot be read as of that transaction."""


class CutAmbiguous(SinkError):
    """The moment of the cut is not understood."""


class TableNotInCut(SinkError):
    """The table has no state as of that transaction."""


class SnapshotUnusable(SinkError):
    """The folder of snapshots cannot be used."""


class DataLost(SinkError):
    """Kafka no longer holds records that the sink has not read."""


class NoTopics(SinkError):
    """No topic in Kafka matches."""


class ForeignTopic(SinkError):
    """A topic that matches is not one of this installation, and none of its records is applied."""


class WarehouseUnusable(SinkError):
    """The warehouse's or the checkpoint's folder cannot be used."""


class ForeignWarehouse(SinkError):
    """The warehouse's tables are in another format or catalog."""


class LogDamaged(SinkError):
    """Files of the sink's own log are missing or damaged."""


class JarMissing(SinkError):
    """Spark lacks a jar that the warehouse's format needs."""


class JavaMissing(SinkError):
    """Spark needs Java 17 or later, which could not be started."""


class ForeignCheckpoint(SinkError):
    """The warehouse or checkpoint belongs to another prefix or Kafka cluster."""


class CheckpointPastLedger(SinkError):
    """The checkpoint is past the warehouse's ledger, so records would be skipped."""


class CheckpointDamaged(SinkError):
    """The checkpoint cannot be read."""


class CheckpointShared(SinkError):
    """Another sink uses the same checkpoint."""


class WarehouseShared(SinkError):
    """Two sinks of one warehouse are not apart."""


class MetastoreIncomplete(SinkError):
    """Not all tables are registered in the metastore."""


class NameTaken(SinkError):
    """The metastore has another table or view of that name."""


class MetastoreUnreachable(SinkError):
    """The metastore does not answer."""


class KafkaUnreachable(SinkError):
    """Kafka does not answer."""


class MemoryExhausted(SinkError):
    """Spark needs more memory than it has."""


class SparkFailed(SinkError):
    """Spark failed."""
