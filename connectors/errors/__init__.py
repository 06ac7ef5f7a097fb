"""Why Aqueduct stopped, in one tree, so that one function can decide what happens next.

The law: an error has one class, here or in a family's own file, and is asked for here. ``errors_base`` says
what each is made of.
"""

from __future__ import annotations

from collections.abc import Iterable

from connectors.errors.base import AqueductError as AqueductError
from connectors.errors.base import Faults as Faults
from connectors.errors.base import Retry as Retry
from connectors.errors.base import printed as printed
from connectors.errors.claims import ClaimBucketGone as ClaimBucketGone
from connectors.errors.claims import ClaimGone as ClaimGone
from connectors.errors.claims import ClaimStoreDenied as ClaimStoreDenied
from connectors.errors.claims import ClaimStoreLost as ClaimStoreLost
from connectors.errors.claims import ClaimStoreRefused as ClaimStoreRefused
from connectors.errors.coordination import AnotherWorkerLeads as AnotherWorkerLeads
from connectors.errors.coordination import CoordinationLost as CoordinationLost
from connectors.errors.coordination import CoordinationRefused as CoordinationRefused
from connectors.errors.coordination import LeadershipLost as LeadershipLost
from connectors.errors.coordination import NodeUnfit as NodeUnfit
from connectors.errors.coordination import NotApplied as NotApplied
from connectors.errors.coordination import RequestReplaced as RequestReplaced
from connectors.errors.coordination import WorkerIdTaken as WorkerIdTaken
from connectors.errors.failover import LostInReplication as LostInReplication
from connectors.errors.failover import NoAlignment as NoAlignment
from connectors.errors.failover import NoSourceFits as NoSourceFits
from connectors.errors.failover import SourceSilent as SourceSilent
from connectors.errors.failover import StandbyFiltered as StandbyFiltered
from connectors.errors.failover import StandbyLags as StandbyLags
from connectors.errors.position import AlreadyBehind as AlreadyBehind
from connectors.errors.position import AnonymousTransaction as AnonymousTransaction
from connectors.errors.position import BinlogFileMissing as BinlogFileMissing
from connectors.errors.position import EndPositionUnknown as EndPositionUnknown
from connectors.errors.position import NotConfirmed as NotConfirmed
from connectors.errors.position import PositionAhead as PositionAhead
from connectors.errors.position import PositionGone as PositionGone
from connectors.errors.position import PositionPurged as PositionPurged
from connectors.errors.position import PositionWithin as PositionWithin
from connectors.errors.position import PreparedRowsGone as PreparedRowsGone
from connectors.errors.position import ResumeMismatch as ResumeMismatch
from connectors.errors.position import SourceDiverged as SourceDiverged
from connectors.errors.position import SourceReset as SourceReset
from connectors.errors.position import SourceUnproven as SourceUnproven
from connectors.errors.position import StartIncomplete as StartIncomplete
from connectors.errors.position import TimeInFuture as TimeInFuture
from connectors.errors.record import BatchTooLarge as BatchTooLarge
from connectors.errors.record import PoisonLimitReached as PoisonLimitReached
from connectors.errors.record import RecordTooLarge as RecordTooLarge


class SettingsError(AqueductError):
    """The settings are not usable."""


class UsageError(AqueductError):
    """The command's arguments are not usable."""

    remedy = "Correct them; --help says what the command takes."


class PreflightError(AqueductError):
    """The source server is not set up for change data capture."""

    remedy = "Run the statements named above on the server, then restart this destination."


# --- the source ---------------------------------------------------------------------------------


class SourceLost(AqueductError):
    """The connection to MySQL was lost or could not be made."""

    retry = Retry.TIMED
    remedy = "Aqueduct reconnects from its cursor by itself; check the server and the network."


class SourceRefused(AqueductError):
    """MySQL refused the connection or a statement."""

    retry = Retry.TIMED
    remedy = "Check the account, its password and its grants; Aqueduct tries again by itself."


class ServerIdConflict(AqueductError):
    """Another replica uses this destination's server_id."""

    remedy = "Give the destination a server_id that no other replica of this server has."


class CorruptEvent(AqueductError):
    """An event from the binlog is damaged."""

    retry = Retry.TIMED
    remedy = "Aqueduct reads it again from its cursor; if it stays, check the server's disk with mysqlbinlog."


class MalformedEvent(AqueductError):
    """An event of the binlog does not have the form its type demands."""

    # Lengths and types are looked at before any checksum, so it may have been damaged on its way.
    retry = Retry.TIMED
    remedy = "Aqueduct reads it again; if it stays, report it with these coordinates. Nothing was skipped."


class UnsupportedEvent(AqueductError):
    """The binlog holds something this version cannot carry without loss."""

    remedy = "Nothing was skipped: the destination stands before it."


class DefinitionMismatch(AqueductError):
    """A table's definition is not that of its rows."""

    remedy = (
        "Nothing of the table was published from there on. It was altered since those rows were written, or by "
        "a statement that the binlog does not hold; choose a start behind that and reload the table."
    )


class WitnessesDiffer(AqueductError):
    """A table's rows are not of the definition that its history has."""

    retry = Retry.TIMED
    remedy = (
        "The table is set aside by itself: its events wait in the quarantine topic while all others go on. "
        "Say what its columns were with `python -m app schema resolve`."
    )

    name_of_table: tuple[str, str] = ("", "")

    @classmethod
    def of(cls, table: tuple[str, str], detail: str) -> WitnessesDiffer:
        """The error of one table, by its database and name."""
        error = cls(detail, table=".".join(table))
        error.name_of_table = table
        return error


class RowUnreadable(WitnessesDiffer):
    """A row of a table cannot be published exactly."""

    remedy = (
        "The table is quarantined: its events wait in the quarantine topic while all others are published. "
        "Remove the cause, run `python -m app schema resolve DEST TABLE --give-up --yes-lose-rows` and then "
        "`… --server`, and reload the table. With `poison: dead_letter` such rows alone become dead letters."
    )


class NotSetAside(AqueductError):
    """The table is not set aside."""

    remedy = "Nothing waits for it. `python -m app schema quarantine` lists the tables that are set aside."


class StateUnknown(AqueductError):
    """The journal knows nothing of the destination."""

    remedy = "It appears once a worker has led it; check the prefix in the settings."


class BeginsAnew(AqueductError):
    """The run has ended so that the next one begins with more."""

    retry = Retry.TIMED
    remedy = "Nothing is to be done."


class DdlUnresolved(AqueductError):
    """What a statement does to a table cannot be told."""

    remedy = (
        "The tables named above are set aside, all others go on. "
        "Give their definition with `python -m app schema resolve`."
    )

    def __init__(
        self,
        detail: str = "",
        /,
        *,
        tables: Iterable[tuple[str, str]] = (),
        remedy: str = "",
        **where: object,
    ) -> None:
        super().__init__(detail, remedy=remedy, **where)
        self.tables = tuple(tables)
        """Database and name of each."""


class StatementBasedChange(AqueductError):
    """A change was written as a statement, not as rows."""

    remedy = (
        "Set binlog_format=ROW for every session (SET PERSIST binlog_format = 'ROW'). "
        "The change named above cannot be carried; nothing after it was published."
    )


class IncidentInBinlog(AqueductError):
    """The server says that its binlog may lack changes."""

    remedy = (
        "Find out what the server lost (its error log tells), then reload the tables concerned."
    )


# --- Kafka --------------------------------------------------------------------------------------


class KafkaLost(AqueductError):
    """Kafka did not answer, or its answer was not definite."""

    retry = Retry.TIMED
    remedy = "Aqueduct begins anew from the journal by itself; check the brokers."


class KafkaSlow(KafkaLost):
    """Kafka did not take a transaction in time."""

    remedy = (
        "Aqueduct begins anew from the journal with half as much at once; if it stays, check the brokers, "
        "their disks and the network."
    )


class TooFewBrokers(KafkaLost):
    """Too few brokers are alive for a topic's replication."""

    remedy = (
        "Aqueduct tries again by itself: start the brokers that are away. A cluster that has no more brokers "
        "needs a smaller topics.replication_factor, and min.insync.replicas of its topics no greater."
    )


class KafkaDenied(AqueductError):
    """Kafka does not let the account in, or not do what it must."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct tries again by itself; check kafka.sasl_username and its password, and the ACLs that "
        "SECURITY.md names. A setting that was changed is read with the worker's next start."
    )


class KafkaRefused(AqueductError):
    """Kafka refused a request."""

    remedy = "Change the settings, then restart the destination."


class Fenced(AqueductError):
    """Another worker has taken over this destination."""

    remedy = (
        "If two workers were started on purpose, configure ZooKeeper so that they take turns; "
        "else stop one and restart this one."
    )


class TransactionOpen(AqueductError):
    """Another producer's open transaction keeps a topic from being read to its end."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct tries again by itself until that transaction ends. Find who writes to the topic; or end it: "
        "python -m app journal abort DEST --transactional-id ID."
    )


class TopicUnfit(AqueductError):
    """A topic would lose or disorder what is written to it."""

    remedy = "Nothing was written. Change the topic or the settings as said above."


class TopicGone(AqueductError):
    """A topic that was written to is not there any more."""

    remedy = (
        "Nothing was written. Bring it back from a copy; or make it anew, empty, by that command, whereupon "
        "its readers never get what it held. Then: python -m app destination restart DEST."
    )


# --- state --------------------------------------------------------------------------------------


class JournalDamaged(AqueductError):
    """The journal does not fit together."""

    remedy = "Do not delete it: it holds the cursors. Restore it from a backup of the topic."


class JournalUnreadable(JournalDamaged):
    """A record of the journal cannot be read."""

    remedy = (
        "Somebody else wrote it, or changed it by hand: find who writes to the topic. The record before it "
        "under its key is written again by: python -m app journal mend DEST --why TEXT. Then: "
        "python -m app destination restart DEST."
    )


class JournalOutdated(AqueductError):
    """The journal's cursor is older than what was published."""

    remedy = (
        "The journal is an older copy, or has lost its newest records; going on would publish changes again "
        "under numbers that were used. Restore a newer copy of the topic; or find on the source where that "
        "transaction ends, and set the cursor there, which keeps all numbers: "
        "python -m app cursor set DEST --gtid SET --why TEXT (or --file FILE --pos N)."
    )


class JournalTooNew(AqueductError):
    """The journal was written by a newer version of Aqueduct."""

    remedy = "Run that version, or a later one."


class ForeignInstallation(AqueductError):
    """The journal's cursor belongs to another installation."""

    remedy = "Give each installation a prefix of its own."


class HistoryTooShort(AqueductError):
    """The schema history begins after this place."""

    remedy = (
        "Choose a place that it still has, or a new start with a new baseline; "
        "raise schema_history.snapshot_expire_hours to keep more of it from now on."
    )


class PlaceUnknown(AqueductError):
    """The schema history cannot tell where this place is."""

    remedy = "Name it by a GTID set, by file:pos of a server that was read then, or by a time."


# --- the central schema store -------------------------------------------------------------------


class StoreLost(AqueductError):
    """The central schema store cannot be reached."""

    retry = Retry.TIMED
    remedy = (
        "Capture goes on; what the store lacks is written when it is back. "
        "Check that server and the network."
    )


class StoreRefused(AqueductError):
    """The central schema store refused the account or a statement."""

    remedy = (
        "Capture goes on. Check the password in schema_history.mysql, and GRANT CREATE, SELECT, INSERT, "
        "UPDATE, DELETE on its database; Aqueduct sees it by itself."
    )


class StoreUnfit(AqueductError):
    """The central schema store cannot hold the history."""

    remedy = (
        "Capture goes on. Choose another database, mend the tables as docs/schema-history.md has them, or "
        "raise that server's max_allowed_packet; Aqueduct sees it by itself."
    )


# --- the worker ---------------------------------------------------------------------------------


class DecoderStalled(AqueductError):
    """A decoder process has work and does nothing."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct ends it, starts new ones and reads again from its cursor. It was stopped by a signal, or the "
        "system swaps: give it more memory, or run fewer decoders."
    )


class ReaderStalled(AqueductError):
    """The thread that reads the binlog is stuck in one statement."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct reads again from its cursor; after the third time at one place it waits for a person. "
        "Report it with the statement; python -m app cursor skip DEST leaves its transaction out."
    )


class DecoderLost(AqueductError):
    """A decoder process ended before its work was done."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct starts new ones and reads again from its cursor. If it was killed, the system may lack "
        "memory: see its log, give it more, or run fewer decoders."
    )
