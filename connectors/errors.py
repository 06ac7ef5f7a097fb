"""Every reason to stop, in one tree, so that one function decides what follows.

Invariant: a class's docstring is its message; ``retry`` states whether the error can resolve by itself;
``remedy`` is what the operator does, with the exact command, in which DEST is replaced by the destination, and
TABLE after it by the table. The detail and the location are given when it is raised. An error prints as one
line, whatever a name contains; only ``Faults`` take several.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, Self

from wire.text import printed


class Retry(Enum):
    """Whether an error is retried without an operator."""

    TIMED = "timed"
    """It may resolve by itself: a new run from the cursor, with backoff."""
    MANUAL = "manual"
    """An operator must act first; nothing is lost meanwhile."""


class Faults(str):
    """Several faults as the end of an error's detail, each on a line of its own."""

    __slots__ = ()

    @classmethod
    def listed(cls, head: str, faults: Iterable[str]) -> Faults:
        """A heading, and the faults after it."""
        return cls("\n  - ".join(map(printed, (head, *faults))) + "\n")


class AqueductError(Exception):
    """Aqueduct stopped."""

    # No remedy: it is the base class of all errors, and never reported itself.
    retry: ClassVar[Retry] = Retry.MANUAL
    remedy: ClassVar[str] = ""

    def __init__(self, detail: str = "", /, *, remedy: str = "", **context: object) -> None:
        self.detail = detail
        self.context = {name: value for name, value in context.items() if value is not None}
        self.advice = remedy or self.remedy
        super().__init__(detail)

    @property
    def name(self) -> str:
        """The class's name, as metrics and status show it."""
        return type(self).__name__

    @property
    def in_one_line(self) -> str:
        """Its name and its text, as another error or an entry of the journal quotes it."""
        return " ".join(f"{self.name}: {self}".split())

    def __str__(self) -> str:
        headline = (type(self).__doc__ or "").strip().splitlines()[0].rstrip(".")
        detail = self.detail if isinstance(self.detail, Faults) else printed(self.detail)
        text = f"{headline}: {detail}" if detail else headline
        if self.context:
            text += (
                " ["
                + ", ".join(f"{name}={printed(value)}" for name, value in self.context.items())
                + "]"
            )
        # A list of faults ends with a newline, so the remedy gets a line of its own.
        end = "" if text.endswith("\n") else ". "
        return f"{text.rstrip('.')}{end}{self.action}".strip()

    @property
    def action(self) -> str:
        """What the operator does, with the names of this destination and table."""
        advice = self.advice
        if "table" in self.context:
            advice = advice.replace("DEST TABLE", f"DEST {shlex.quote(str(self.context['table']))}")
        return printed(advice.replace("DEST", str(self.context.get("destination", "DEST"))))


# Settings and command arguments that cannot be used.


class SettingsError(AqueductError):
    """The settings are not usable."""


class UsageError(AqueductError):
    """The command's arguments are not usable."""

    remedy = "Correct them; --help lists what the command accepts."


# Mappings that cannot be used.


class MappingError(AqueductError):
    """The mapping is not usable."""

    remedy = "Correct its documents; docs/mapping.md describes them."

    faults: tuple[str, ...] = ()
    """Each fault with its entry, if there is a list."""

    @classmethod
    def listed(cls, faults: Iterable[str]) -> MappingError:
        """The error of a mapping with these faults."""
        found = tuple(faults)
        error = cls(Faults.listed("these parts must change", found))
        error.faults = found
        return error


class MappingConflict(AqueductError):
    """Another author has stored a version of the mapping since the one that yours was made from."""

    remedy = (
        "See what it changed with `python -m app mapping history` and `mapping diff`, add your change to "
        "the newest version, and store that."
    )


# The source server: its connection, its setup, and events of its binlog that cannot be published.


class PreflightError(AqueductError):
    """The source server is not set up for change data capture."""

    remedy = "Run the statements named above on the server, then restart this destination."


class SourceLost(AqueductError):
    """The connection to MySQL was lost or could not be made."""

    retry = Retry.TIMED
    remedy = "Aqueduct reconnects and resumes from its cursor by itself; check the server and the network."


class SourceRefused(AqueductError):
    """MySQL refused the connection or a statement."""

    retry = Retry.TIMED
    remedy = "Check the account, its password and its grants; Aqueduct retries by itself."


class TableUnreadable(AqueductError):
    """MySQL does not return the rows of a table now."""

    retry = Retry.TIMED
    remedy = "Check the table's locks and the account's SELECT on it; its rows are read again by themselves."


class ServerIdConflict(AqueductError):
    """Another replica uses this destination's server_id."""

    remedy = "Give the destination a server_id that no other replica of this server has."


class CorruptEvent(AqueductError):
    """A binlog event is damaged."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct reads it again from its cursor; if this persists, check the server's disk with "
        "mysqlbinlog. To continue without its transaction: `python -m app cursor skip DEST --gtid GTID --why "
        "REASON` (without GTIDs --file and --pos); if its end cannot be found either, resume from the end of "
        "the binlog: `python -m app cursor set DEST --latest --why REASON`. Then reload the tables concerned."
    )


class MalformedEvent(AqueductError):
    """A binlog event does not have the format of its type."""

    # Lengths and types are read before any checksum, so it may have been damaged on its way.
    retry = Retry.TIMED
    remedy = (
        "Nothing was skipped: Aqueduct reads it again; if this persists, report it with these coordinates. To "
        "continue without its transaction: `python -m app cursor skip DEST --gtid GTID --why REASON` (without "
        "GTIDs --file and --pos); if its end cannot be found either, resume from the end of the binlog: "
        "`python -m app cursor set DEST --latest --why REASON`. Then reload the tables concerned."
    )


class UnsupportedEvent(AqueductError):
    """The binlog holds an event that this version cannot publish without loss."""

    remedy = (
        "Nothing was skipped: the cursor is before this event. If it is of one table, leave the table out with "
        "a filter. Otherwise continue without its transaction: `python -m app cursor skip DEST --gtid GTID "
        "--why REASON` (without GTIDs --file and --pos); and reload the tables that it changed."
    )


class StatementBasedChange(AqueductError):
    """A change was written as a statement, not as rows."""

    remedy = (
        "Set binlog_format=ROW for every session (SET PERSIST binlog_format = 'ROW'). The change named above "
        "cannot be published, and nothing after it was. To continue without it: `python -m app cursor skip "
        "DEST --gtid GTID --why REASON` (without GTIDs --file and --pos); and reload the tables that it "
        "changed."
    )


class IncidentInBinlog(AqueductError):
    """The server reports that its binlog may lack changes."""

    remedy = (
        "Nothing after it was published. Find out what the server lost (see its error log). To continue: "
        "`python -m app cursor skip DEST --gtid GTID --why REASON` (without GTIDs --file and --pos). If the "
        "message has ends_at, as of MariaDB, which gives it no GTID: `python -m app cursor set DEST --file "
        "FILE --pos POS --why REASON` with that position. Then reload the tables concerned."
    )


# Positions: why a destination cannot start or resume at a position of its source's binlog. A
# missing binlog is named by its cause, which determines the remedy; no destination skips to "now"
# unless an operator requests it.


class PreparedRowsGone(AqueductError):
    """The rows of a prepared XA transaction can no longer be read."""

    remedy = (
        "It was committed, and its rows are before the start, or in a binlog file that was purged. To continue "
        "without them: `python -m app cursor skip DEST --gtid GTID --why REASON`, with the GTID of its XA "
        "COMMIT (without GTIDs --file and --pos); and reload the tables that it changed."
    )


class PositionGone(AqueductError):
    """The server no longer has the binlog at the cursor."""

    is_gap = True
    """Whether changes are missing, so that publishing all rows again would help."""
    remedy = (
        "Put the binlog files back; or publish all rows again, and resume from the end: `python -m app cursor "
        "set DEST --latest --with-snapshot --why REASON`; or accept the gap, and resume from the oldest change "
        "available: --earliest."
    )


class PositionPurged(PositionGone):
    """The server has purged the binlog that comes next."""

    remedy = (
        "Put the binlog files back; or publish all rows again, and resume from the end: `python -m app cursor "
        "set DEST --latest --with-snapshot --why REASON`; or accept the gap, and resume from the oldest change "
        "available: --earliest. Then keep binlogs longer (binlog_expire_logs_seconds)."
    )


class BinlogFileMissing(PositionGone):
    """The server has no binlog file of that name."""

    remedy = (
        "If it was moved, put it back with its line in the index file; else publish all rows again: "
        "`python -m app cursor set DEST --latest --with-snapshot --why REASON`, or accept the gap: --earliest. "
        "A start in the settings may be misspelt."
    )


class PositionWithin(PositionGone):
    """The position is within a transaction."""

    is_gap = False
    remedy = "Use one of the two positions named above; nothing was read."


class AlreadyPast(AqueductError):
    """The cursor is already past this transaction."""

    remedy = (
        "It was published or skipped, so there is nothing to skip. See `python -m app cursor show`."
    )


class NotConfirmed(AqueductError):
    """Nothing was changed, since the effect was not confirmed."""

    remedy = "Type the destination's name where it asks, or add --yes-lose-changes."


class TimeInFuture(PositionGone):
    """The start is a time in the future."""

    is_gap = False
    remedy = (
        "Times are milliseconds since 1970, or ISO 8601 with a zone, as 2026-11-21T10:00:00Z. "
        "Without a start, reading begins at the end of the binlog."
    )


class StartIncomplete(AqueductError):
    """The binlog does not reach back to the server's beginning, so existing rows would be absent."""

    remedy = (
        "Load the tables into the warehouse by other means, then confirm the start: add incomplete_start to "
        "the destination's `accept` in the settings. Or begin with `start: latest`."
    )


class EndPositionUnknown(AqueductError):
    """The server does not report the end of its binlog."""

    remedy = (
        "The account lacks a privilege: GRANT REPLICATION CLIENT ON *.* TO it; or the server writes no binlog: "
        "start it with log_bin. Then repeat the command, or `python -m app destination restart DEST`."
    )


class SourceDiverged(AqueductError):
    """The server lacks transactions that were already published."""

    remedy = (
        "It was reset, restored from a backup, or is another server. "
        "Point the destination to the right server; or resume from the end of this one with "
        "`python -m app cursor set DEST --latest --why REASON`, and reload the tables."
    )


class PositionPastEnd(SourceDiverged):
    """The position is past the end of the server's binlog."""

    remedy = (
        "The server was reset or restored, or lost what it had not synced; or the position is misspelt. "
        "Resume from its first change with `python -m app cursor set DEST --earliest --why REASON`, or from "
        "its end: --latest; and reload the tables."
    )


class SourceReset(SourceDiverged):
    """The server's binlog was started again from nothing."""

    remedy = (
        "It was reset or restored, and what was published from it is no longer in its binlog. "
        "Resume from its first change with `python -m app cursor set DEST --earliest --why REASON`, or from "
        "its end: --latest; and reload the tables."
    )


class SourceUnproven(AqueductError):
    """Nothing shows that the server's binlog is the one that was read."""

    remedy = (
        "If the server was neither reset nor restored since, accept it: add unproven to the destination's "
        "`accept` in the settings, restart, and remove it again. Otherwise resume from the end with "
        "`python -m app cursor set DEST --latest --why REASON`, and reload the tables."
    )


class AnonymousTransaction(AqueductError):
    """The source has a transaction without GTID after the cursor, and sends none while gtid_mode is ON."""

    remedy = (
        "It was written while gtid_mode was not ON. To publish it: add anonymous_transactions to the "
        "destination's `accept` in the settings, SET GLOBAL gtid_mode = ON_PERMISSIVE on the source, restart "
        "the worker, and once it is past that position SET GLOBAL gtid_mode = ON. To resume without it: "
        "`python -m app cursor set DEST --latest --why REASON`, and reload the tables."
    )


class ResumeMismatch(AqueductError):
    """The binlog does not continue the transaction that the cursor is in."""

    remedy = (
        "The source is not the one the cursor was written for: restore it; or resume from the end of this one "
        "with `python -m app cursor set DEST --latest --why REASON`, and reload the tables."
    )


# Failover: why a destination cannot be read from another of its sources. A refused source is
# named, with what it lacks; no source is read where it is not proven that nothing is lost or
# repeated.


class SourceSilent(AqueductError):
    """The source does not answer the heartbeat."""

    retry = Retry.TIMED
    remedy = "Aqueduct fails over to the next fit source; check this one and the network."


class StandbyLags(AqueductError):
    """The source does not yet have all that was published."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct waits until it has: see SHOW REPLICA STATUS there. "
        "If it can never catch up, stop its replication; it is then refused."
    )


class NoSourceFits(AqueductError):
    """No source can be resumed from now."""

    retry = Retry.TIMED
    remedy = "Aqueduct checks all of them again by itself; correct what is stated above for each."


class LostInReplication(AqueductError):
    """The source lacks transactions that were published from another one, and has later ones."""

    remedy = (
        "Find them in the other source's binlog at those positions; repair the replica, or the warehouse. "
        "With failover.lost_in_replication: report Aqueduct continues without them."
    )


class NoAlignment(AqueductError):
    """The last published transactions are not found in the source in one sequence."""

    remedy = (
        "Without GTIDs the position cannot be found otherwise: point the destination to the server that was "
        "read; raise failover.fallback_seconds if it was too short. To resume from the end of this one: "
        "`python -m app cursor set DEST --latest --why REASON`, and reload the tables. For the next time, turn "
        "on GTIDs, or set failover.fingerprints to on."
    )


class StandbyFiltered(AqueductError):
    """The source replicates with a filter, so it may lack rows of captured tables."""

    remedy = (
        "Use another source, or remove the filter and rebuild the replica. If the filter leaves out no "
        "captured table, add replication_filters to the destination's `accept` in the settings."
    )


# Coordination: ZooKeeper, other workers, and requests that workers apply.


class CoordinationLost(AqueductError):
    """ZooKeeper does not answer, or the session has expired."""

    retry = Retry.TIMED
    remedy = (
        "This worker leads no destination until it has a session again, for which it retries by itself; "
        "check the ZooKeeper servers and the network."
    )


class CoordinationRefused(AqueductError):
    """ZooKeeper refused this worker."""

    retry = Retry.TIMED
    remedy = (
        "Check zookeeper.username and the password in the settings, and the ACLs of the nodes below "
        "zookeeper.root; Aqueduct retries by itself."
    )


class NodeUnfit(AqueductError):
    """A node in ZooKeeper was not written by a worker."""

    retry = Retry.TIMED
    remedy = "It was created or changed by hand. Delete it; a worker then takes over by itself."


class WorkerIdTaken(AqueductError):
    """Another worker has this worker's id."""

    retry = Retry.TIMED
    remedy = (
        "Give each worker a worker.id of its own. After a crash this is the previous session, which "
        "expires after zookeeper.session_timeout_seconds."
    )


class AnotherWorkerLeads(AqueductError):
    """Another running worker leads the destination, and the two are not coordinated."""

    retry = Retry.TIMED
    remedy = (
        "Stop one of the two, or configure ZooKeeper for both. Meanwhile this worker publishes nothing of the "
        "destination; it takes over by itself once the other is gone."
    )


class NotApplied(AqueductError):
    """No worker has applied the request."""

    remedy = (
        "It stays in the journal, and the next leader of the destination applies it. Start a worker, or see in "
        "/status of the workers why none leads it; `python -m app destination list` shows them."
    )


class RequestReplaced(AqueductError):
    """Another request has replaced this one before any worker applied it."""

    remedy = "Ask the person who made it; `python -m app destination list` shows the desired state."


class LeadershipLost(AqueductError):
    """This worker no longer leads the destination."""

    retry = Retry.TIMED
    remedy = "The new leader continues from the journal; nothing is lost or repeated."


# The worker itself: its reader, its decoders, and runs that end on purpose.


class RunRestarts(AqueductError):
    """The run ended so that the next one starts from something else."""

    # No remedy: it is never shown; the next run begins by itself.
    retry = Retry.TIMED
    remedy = "No action is needed."


class Unforeseen(AqueductError):
    """An error occurred that Aqueduct does not foresee."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct tries again by itself, and everything else continues. It is a bug: report it with the log, "
        "which has where it occurred. To end the attempts: python -m app destination pause DEST."
    )


class DecoderStalled(AqueductError):
    """A decoder process has work and makes no progress."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct ends it, starts new ones and reads again from its cursor. It was stopped by a signal, or the "
        "system swaps: give it more memory, or run fewer decoders."
    )


class ReaderStalled(AqueductError):
    """The thread that reads the binlog is stuck in one statement."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct reads again from its cursor; after the third time at one position it waits for an operator. "
        "Report it with the statement. To continue after it, with the tables' definitions as they are then: "
        "`python -m app cursor set DEST --latest --why REASON` (or --gtid SET), and reload the tables."
    )


class DecoderLost(AqueductError):
    """A decoder process ended before its work was done."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct starts new ones and reads again from its cursor. If it was killed, the system may lack "
        "memory: see its log, give it more, or run fewer decoders."
    )


# Table definitions: rows that do not match them, statements whose effect is not certain,
# quarantine.


class DefinitionMismatch(AqueductError):
    """A table's definition does not match its rows."""

    # No remedy: it is never shown itself; WitnessesDiffer quarantines the table, or SnapshotUnsupported is the
    # state of its snapshot.
    remedy = "The table is quarantined, or its snapshot refused, by an error that says what to do."


class WitnessesDiffer(AqueductError):
    """A table's rows do not match its definition in the schema history."""

    retry = Retry.TIMED
    remedy = (
        "The table is quarantined: its events wait in the quarantine topic while all others are published. "
        "Give its definition at the first of them. With binlog_row_metadata=FULL: python -m app schema resolve "
        "DEST TABLE --binlog; if nothing has altered the table since: python -m app schema resolve DEST TABLE "
        "--server; else, with a CREATE TABLE of then: python -m app schema resolve DEST TABLE --definition "
        "FILE.sql."
    )

    keeps_definition: ClassVar[bool] = False
    """Whether the cause is not in the table's rows: the definition in its history is that of waiting rows."""

    name_of_table: tuple[str, str] = ("", "")
    others: tuple[WitnessesDiffer, ...] = ()
    """Those of further tables that have the same cause."""

    @classmethod
    def of(cls, table: tuple[str, str], detail: str) -> Self:
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


class RuleImpossible(WitnessesDiffer):
    """A rule of the mapping does not fit a table."""

    keeps_definition = True
    remedy = (
        "The table is quarantined: its events wait in the quarantine topic while all others are published. "
        "Correct the mapping. In ZooKeeper, its new version is tried on the table when it comes into force; "
        "with a file, restart the worker, and run `python -m app schema resolve DEST TABLE --again`."
    )


class TopicUnusable(WitnessesDiffer):
    """The topic of a table cannot take its rows."""

    keeps_definition = True
    remedy = (
        "The tables are quarantined: their events wait in the quarantine topic while all others are published. "
        "Do what is described above; a table is published again, in order, within seconds after its topic can "
        "take its rows. `python -m app schema resolve DEST TABLE --again` tries it at once."
    )

    refused: Mapping[str, str] = MappingProxyType({})
    """The topics that exist and are fit, and whose brokers refused the rows, each with its settings' digest."""

    @classmethod
    def of_all(
        cls,
        tables: Mapping[tuple[str, str], str],
        refused: Mapping[tuple[str, str], Mapping[str, str]] = MappingProxyType({}),
    ) -> TopicUnusable:
        """The error of several tables, each with what its topic lacks; ``refused``: see the attribute."""
        found = []
        for name in sorted(tables):
            error = cls.of(name, tables[name])
            error.refused = refused.get(name, error.refused)
            found.append(error)
        found[0].others = tuple(found[1:])
        return found[0]


class SnapshotUnsupported(AqueductError):
    """The existing rows of a table cannot be read exactly."""

    remedy = (
        "Change the column, or leave the table out with a filter and load its rows by another way."
    )


class SpoolFull(SnapshotUnsupported):
    """There is no room for the rows of a table, which are kept in a file until they enter the stream."""

    remedy = (
        "Make room there, or name another folder in snapshot.spool_dir. The worker tries the table again for "
        "an hour; after that, start its snapshot again."
    )


class NotQuarantined(AqueductError):
    """The table is not quarantined."""

    remedy = (
        "No events wait for it. `python -m app schema quarantine` lists the quarantined tables."
    )


class DdlUnresolved(AqueductError):
    """The effect of a statement on a table is not certain."""

    remedy = (
        "The tables named above are quarantined, all others are published. "
        "Give their definition with `python -m app schema resolve`."
    )

    def __init__(
        self,
        detail: str = "",
        /,
        *,
        tables: Iterable[tuple[str, str]] = (),
        remedy: str = "",
        **context: object,
    ) -> None:
        super().__init__(detail, remedy=remedy, **context)
        self.tables = tuple(tables)
        """Database and name of each."""


class HistoryTooShort(AqueductError):
    """The schema history begins after this position."""

    remedy = (
        "Choose a position that it covers. If a worker reports this, set snapshot.mode to recovery and restart "
        "it: the history begins again at the cursor. "
        "Raise schema_history.snapshot_expire_hours to keep more of it in future."
    )


class PositionUnknown(AqueductError):
    """The schema history cannot locate this position."""

    remedy = "Give it as a GTID set, as file:pos of a server that was read then, or as a time."


# The central schema store, a copy: no error of it stops capture.


class StoreLost(AqueductError):
    """The central schema store cannot be reached."""

    retry = Retry.TIMED
    remedy = (
        "Capture continues; what the store lacks is written once it is reachable. "
        "Check that server and the network."
    )


class StoreRefused(AqueductError):
    """The central schema store refused the account or a statement."""

    remedy = (
        "Capture continues. Check the password in schema_history.mysql, and GRANT CREATE, SELECT, INSERT, "
        "UPDATE, DELETE on its database; no restart is needed."
    )


class StoreUnfit(AqueductError):
    """The central schema store cannot hold the history."""

    remedy = (
        "Capture continues. Choose another database, repair the tables as described in docs/schema-history.md, "
        "or raise that server's max_allowed_packet; no restart is needed."
    )


# The schema registry, which gives Avro schemas their ids.


class SchemaRegistryLost(AqueductError):
    """The schema registry did not answer, or reported a fault of its own."""

    retry = Retry.TIMED
    remedy = "Aqueduct retries by itself; check mapping.schema_registry.url and the registry."


class SchemaRegistryDenied(AqueductError):
    """The schema registry denied access."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself; check mapping.schema_registry.username and its password, and that the "
        "account may register schemas."
    )


class SchemaRefused(WitnessesDiffer):
    """The schema registry refused the schema of a table's records."""

    keeps_definition = True
    remedy = (
        "The table is quarantined: its events wait in the quarantine topic while all others are published. If "
        "the schema is not compatible with the subject's earlier ones, set the subject's compatibility to NONE "
        "or give the table another topic; then: python -m app schema resolve DEST TABLE --again."
    )


# The claim-check store: values of records too large for their topic that cannot be stored or
# read. A message names the bucket or path and the object, and never a secret; what can be
# repaired at the store itself is retried.


class ClaimStoreLost(AqueductError):
    """The claim store did not store or return the value of a record too large for its topic."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself; check claim_check_path: a folder must be mounted, writable and have free "
        "space; the endpoint of an S3 store must answer."
    )


class ClaimStoreDenied(AqueductError):
    """The claim store denied access."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself; check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE or the "
        "machine's role), that they allow s3:PutObject and s3:GetObject below claim_check_path, and this "
        "machine's clock. Renew them if they have expired: files are read again, the environment "
        "(AWS_SESSION_TOKEN) only at the worker's next start."
    )


class ClaimBucketGone(AqueductError):
    """The bucket of the claim store does not exist."""

    remedy = (
        "Check claim_check_path and claim_check_s3.endpoint. If the bucket was deleted, so were the "
        "values that published records point to: restore them, or create the bucket again; then restart this "
        "destination."
    )


class ClaimStoreRefused(AqueductError):
    """The claim store rejected a request."""

    remedy = (
        "Check claim_check_path, claim_check_s3.region and claim_check_s3.endpoint, or AWS_ENDPOINT_URL_S3: "
        "an endpoint is http:// or https:// and a host name without underscores; then restart this "
        "destination."
    )


class ClaimGone(AqueductError):
    """The claim store lacks a value that a record points to."""

    remedy = "Restore it from a copy of the store; claims must be kept as long as the records of their topic."


# Single records: too large for their topic, not possible in its format, or of a row that cannot
# be decoded. The row is named by table, position and ChangeId, so that it can be found at the
# source.


class RecordTooLarge(AqueductError):
    """A record is larger than its topic accepts."""

    remedy = (
        "Raise the topic's limit: kafka-configs.sh --alter --topic TOPIC --add-config max.message.bytes=BYTES; "
        "and its segment.bytes, topics.max_message_bytes in the settings, and message.max.bytes of brokers, if "
        "they are less. Or set the destination's oversize to claim_check or key_only."
    )


class BatchTooLarge(AqueductError):
    """A batch of records is larger than its topic now accepts, though no single record is."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct starts again with batches that fit; raise max.message.bytes of the topic for fewer and "
        "larger ones."
    )


class RecordNotEncodable(AqueductError):
    """A record could not be written in the format of its topic."""

    remedy = (
        "Nothing from its transaction on was published. Report it with these coordinates. To continue, exclude "
        "the table by the filter, or give it another format and another topic in the mapping, and restart the "
        "worker; or continue without its transaction: `python -m app cursor skip DEST --gtid GTID --why "
        "REASON` (without GTIDs --file and --pos), and reload the table."
    )


class RecordForeign(AqueductError):
    """A record was not written by Aqueduct, in a topic that nothing else may write to."""

    remedy = (
        "Nothing was skipped. Find out which program writes to the topic, and stop it. Then restore the topic "
        "from a copy without that record; or name new topics in the mapping."
    )


class DeadLetterLimitReached(AqueductError):
    """More rows could not be decoded than the settings allow in an hour."""

    remedy = (
        "Nothing from that position on was published. `python -m app dead-letters list DEST` shows the "
        "reasons. To allow as many again: `python -m app destination restart DEST`; to allow more, raise the "
        "destination's poison_limit."
    )


# Kafka: its brokers, its topics, and other producers.


class KafkaLost(AqueductError):
    """Kafka did not answer, or its answer was ambiguous."""

    retry = Retry.TIMED
    remedy = "Aqueduct starts again from the journal by itself; check the brokers."
    topics: Mapping[str, int] = MappingProxyType({})
    """The topics of rows, with their partitions, that were asked; empty if it was about others."""


class KafkaSlow(KafkaLost):
    """Kafka did not complete a transaction in time."""

    remedy = (
        "Aqueduct starts again from the journal with transactions of half the size; if this persists, check "
        "the brokers, their disks and the network."
    )


class TooFewBrokers(KafkaLost):
    """Too few brokers are alive for a topic's replication."""

    remedy = (
        "Aqueduct retries by itself: start the missing brokers. While other topics take records, only the "
        "tables of this one wait after topics.offline_seconds; of a merge, only this topic waits. A cluster "
        "that has no more brokers needs a smaller topics.replication_factor, and min.insync.replicas of its "
        "topics no greater than that."
    )


class KafkaDenied(AqueductError):
    """Kafka denied the account a login or an operation."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself; check kafka.sasl_username and its password, and the ACLs that "
        "SECURITY.md lists. A changed setting takes effect at the worker's next start."
    )


class KafkaRefused(AqueductError):
    """Kafka refused a request."""

    remedy = (
        "Change the settings of the worker, the topic or the brokers as it says; where the "
        "destination has FAILED by it, then: `python -m app destination restart DEST`."
    )


class Fenced(AqueductError):
    """Another worker has taken over this destination."""

    remedy = (
        "This worker publishes nothing of it meanwhile, and leads again by itself, within seconds, once the "
        "other has ended: stop one of the two. If both were started on purpose, configure ZooKeeper for both."
    )


class GroupActive(AqueductError):
    """The group of subscribers has active clients."""

    remedy = (
        "Nothing was changed: they would continue where they are. Stop all clients of the group; one that was "
        "killed counts until its session is over, 10 s by default. Then repeat the command."
    )


class TopicPositionUnknown(AqueductError):
    """The position cannot be found in the topic."""

    remedy = "Nothing was changed. Choose another position: --time, --earliest or --latest."


class TransactionOpen(AqueductError):
    """Another producer's open transaction keeps a topic from being read to its end."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself until that transaction ends. Find the program that writes to the topic; or "
        "abort the transaction: python -m app journal abort DEST --transactional-id ID."
    )


class TopicUnfit(AqueductError):
    """A topic would lose records or their order."""

    remedy = "Nothing was written. Change the topic or the settings as described above."


class RecordsGone(AqueductError):
    """Records that were not read yet are gone from their topic."""

    remedy = (
        "Nothing was skipped. Restore the topic from a copy; or accept the loss: accept: [records_gone] in the "
        "merge's settings, then restart the worker."
    )
    lost: Mapping[tuple[str, int], int] = MappingProxyType({})
    """The offset that each partition has no more, by topic and number."""


class MergeUnfinished(AqueductError):
    """A destination was removed, or its merge, before all of its records were merged."""

    retry = Retry.TIMED
    remedy = (
        "Nothing is published meanwhile, since the topic would lack those records, or have them after newer "
        "ones. Put the merge back into the settings of all workers, with each of its destinations, and restart "
        "them; to end it, pause its destinations, wait until /status shows unread 0 and held 0 for each, and "
        "then remove it. To give the records up, delete the topic that has them."
    )


class TopicGone(AqueductError):
    """A topic that was written to no longer exists."""

    remedy = (
        "Nothing was written. Restore it from a copy; or create it again, empty, with that command, in which "
        "case its readers never get what it held. Then: python -m app destination accept-topic DEST TOPIC "
        "--why REASON."
    )


class TopicReplaced(AqueductError):
    """A topic that was written to was deleted and made again."""

    remedy = (
        "What it held is gone, unless it was restored from a copy. Continue with it as it is: python -m app "
        "destination accept-topic DEST TOPIC --why REASON."
    )


# The journal: damaged, outdated, unreadable, or of another installation.


class JournalDamaged(AqueductError):
    """The journal is inconsistent."""

    remedy = "Do not delete it: it holds the cursors. Restore it from a backup of the topic."


class JournalUnreadable(JournalDamaged):
    """A record of the journal cannot be read."""

    remedy = (
        "Another program wrote it, or it was changed by hand: find out who writes to the topic. To write the "
        "previous record of its key again: python -m app journal repair DEST --why TEXT. Then: "
        "python -m app destination restart DEST; a merge and logical.schemas continue by themselves. If the "
        "key begins with history, baseline, resolved or checkpoint, there is another way: set snapshot.mode to "
        "recovery and restart the worker, so that the schema history begins again at the cursor."
    )


class JournalOutdated(AqueductError):
    """The journal's cursor is older than what was published."""

    remedy = (
        "The journal is an older copy, or has lost its newest records; continuing would publish changes again "
        "under numbers that were used. Restore a newer copy of the topic; or find on the source where that "
        "transaction ends, and set the cursor there, which keeps all numbers: "
        "python -m app cursor set DEST --gtid SET --why TEXT (or --file FILE --pos N)."
    )


class JournalTooNew(AqueductError):
    """The journal was written by a newer version of Aqueduct."""

    remedy = (
        "Run that version, or a later one, on all workers and for all commands. If none ever ran, another "
        "program wrote the record; to write the previous one of its key again: python -m app journal repair "
        "DEST --why TEXT."
    )


class ForeignInstallation(AqueductError):
    """The journal's cursor belongs to another installation."""

    remedy = (
        "If two installations share the topic, or it was copied from another one's: give each a prefix of its "
        "own, with which a destination begins as its start says. If there was only one, the journal lost its "
        "first records: restore it from a backup of the topic."
    )


class StateUnknown(AqueductError):
    """The journal has no record of the destination."""

    remedy = "It has one once a worker has led the destination; check the prefix in the settings."
