"""All settings of a worker: one YAML file, overridden by the environment.

Invariant: settings are read once, checked whole, and never change; all faults are reported in one
message, and no secret is ever printed. ``docs/settings.md`` explains each.
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as EnvironmentFault

from app.settings.faults import faults
from app.settings.file import SettingsFile, refuse_unknown, refuse_unreadable
from app.settings.mapping import ConnectSettings, MappingSettings, long_topics
from app.settings.start_position import Start
from app.settings.statement_filter import StatementTypes, shadow_rules
from connectors.errors import Faults, SettingsError
from connectors.mysql.select.spool import DEFAULT_BYTES
from connectors.mysql.server.session_variables import connection_charset
from connectors.secret import FileSecret
from tables.rules.mapping.rules import AVRO, Format, Truncates
from tables.rules.routes.topic_names import TopicRename, TopicRule
from tables.rules.table_filter import TableFilter, expressions

Accept = Literal[
    # A server without proof that its binlog is the one that was read.
    "unproven",
    # A standby that replicates with a filter on captured tables.
    "replication_filters",
    # A server whose binlog omits captured databases.
    "binlog_filters",
    # A gtid_mode between ON and OFF, which allows transactions without GTIDs.
    "anonymous_transactions",
    # A start at the earliest change of a server whose binlog lacks older changes.
    "incomplete_start",
    # A mapping that gives published rows other keys in the same topic.
    "changed_keys",
]
"""Conditions under which changes may be lost; each is refused unless the settings accept it by this name."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceSettings(_Part):
    """A MySQL server and the account to read it with."""

    host: str = Field(min_length=1)
    port: int = Field(default=3306, ge=1, le=65535)
    user: str = Field(min_length=1)
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    tls: Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"] = "preferred"
    tls_ca: Path | None = None
    start: Start | None = None
    """The start position at this source, if it is read first and there is no cursor; if unset, the
    destination's ``start``."""

    @model_validator(mode="after")
    def _ca_is_used(self) -> Self:
        if self.tls_ca and not self.tls.startswith("verify"):
            raise ValueError(
                f"tls_ca checks nothing with tls: {self.tls}; use verify_ca or verify_identity"
            )
        if self.tls_ca and not self.tls_ca.is_file():
            raise ValueError(f"tls_ca {self.tls_ca} is not a file")
        return self

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.password_file and self.password.get_secret_value():
            raise ValueError("give password or password_file, not both")
        if self.password_file and not self.password_file.is_file():
            raise ValueError(f"password_file {self.password_file} is not a file")
        return self

    def secret(self) -> str:
        """Return the password from the setting or its file."""
        if self.password_file:
            return FileSecret(self.password_file)
        return self.password.get_secret_value()


class HeartbeatSettings(_Part):
    """A statement that checks whether a source responds, over a connection of its own."""

    enabled: bool = True
    sql: str = "SELECT 1"
    interval_seconds: float = Field(default=3.0, ge=0.1, le=3600)
    retries: int = Field(default=3, ge=1, le=1000)
    """Consecutive failures until the source counts as lost."""

    @field_validator("sql")
    @classmethod
    def _is_a_heartbeat(cls, sql: str) -> str:
        first = (sql.split() or [""])[0].upper()
        if first not in ("SELECT", "SHOW", "INSERT", "UPDATE", "REPLACE", "DELETE"):
            raise ValueError(
                "a heartbeat begins with SELECT, SHOW, INSERT, UPDATE, REPLACE or DELETE"
            )
        return sql


class FailoverSettings(_Part):
    """The conditions of a switch to another source, and how strictly that source is checked."""

    enabled: bool = True
    """Whether failover is automatic; an operator may always request it."""
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    back: bool = False
    """Whether to return to an earlier source of the list once it is fit."""
    back_after_seconds: float = Field(default=60.0, ge=0, le=86_400)
    """Seconds for which the earlier source must have been fit, so that an unstable source is left alone."""
    errant: Literal["refuse", "accept"] = "refuse"
    """What to do with a standby that has transactions which the present source lacks."""
    fingerprints: Literal["auto", "on", "off"] = "auto"
    fallback_seconds: float = Field(default=60.0, ge=1, le=86_400)
    """Without GTIDs, the search in another source begins this many seconds before the last transactions."""
    lost_in_replication: Literal["stop", "report"] = "stop"


class SnapshotSettings(BaseModel):
    """The rows that exist before the first start, or before a table is captured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["never", "no_data", "initial", "initial_only", "when_needed", "recovery"] = (
        "never"
    )
    """``initial``: the rows are published at the first start, while the stream continues. ``initial_only``: as
    ``initial``, then the destination stops. ``when_needed``: as ``initial``, and again if the source has purged
    changes that were not read yet. ``no_data``: as ``never``, but a start is at the end of the binlog.
    ``recovery``: no rows are published, and the schema history begins again at the cursor."""
    new_tables: bool = False
    """Whether the existing rows of tables that are captured later are published too."""
    signal_table: str | None = None
    """A captured table, ``database.table``, in which rows are requests for snapshots."""
    rows_per_second: int = Field(default=0, ge=0)
    """The rate for all tables together. 0 means no limit, here and in the next three settings."""
    max_threads_running: int = Field(default=25, ge=0)
    """The most threads that may run at the source while rows are read."""
    max_probe_ms: int = Field(default=250, ge=0)
    """The most milliseconds that the source may take to answer a trivial query."""
    max_replica_lag_seconds: int = Field(default=0, ge=0)
    """The most seconds by which the source may lag, if it is a replica."""
    spool_dir: Path | None = None
    """The folder for the rows of tables without a key, until they enter the stream; None: ``data_dir``."""
    max_spool_bytes: int = Field(default=DEFAULT_BYTES, ge=1)
    """The most bytes of one table's rows in that folder."""

    @model_validator(mode="after")
    def _has_a_first(self) -> Self:
        if self.new_tables and not (self.is_initial or self.recovers):
            raise ValueError(
                f"snapshot.new_tables is for destinations that began with their rows, and mode is {self.mode}"
            )
        return self

    @property
    def is_initial(self) -> bool:
        """Return whether the first start publishes existing rows."""
        return self.mode in ("initial", "initial_only", "when_needed")

    @property
    def recovers(self) -> bool:
        """Return whether the schema history is to begin again at the cursor."""
        return self.mode == "recovery"

    @property
    def signals(self) -> tuple[str, str] | None:
        """Return database and table of the signal table."""
        if self.signal_table is None:
            return None
        database, _, table = self.signal_table.partition(".")
        return database, table

    @field_validator("signal_table")
    @classmethod
    def _is_a_table(cls, name: str | None) -> str | None:
        if name is not None and not all(name.partition(".")):
            raise ValueError(f"{name!r} is no table; write database.table")
        return name


class MergeSettings(BaseModel):
    """One group of destinations, and how long they wait for each other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    destinations: tuple[str, ...] = Field(min_length=2)
    wait_seconds: float = Field(default=1.0, ge=0, le=3600)
    """How long a row waits for earlier rows of other destinations."""
    stalled: Literal["pass", "wait"] = "pass"
    """Whether a destination that lags far is passed, or waited for without limit."""
    stalled_after_seconds: float = Field(default=15.0, ge=3, le=86_400)
    """The lag in seconds from which a destination counts as stalled."""
    accept: tuple[Literal["records_gone"], ...] = ()
    """Named risks of losing changes that are accepted."""

    @model_validator(mode="after")
    def _are_distinct(self) -> Self:
        if len(set(self.destinations)) < len(self.destinations):
            raise ValueError("a destination is named twice")
        return self


class RenameSettings(BaseModel):
    """A renaming of topics, as by Kafka Connect's RegexRouter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    regex: str = Field(min_length=1)
    replacement: str


class RowTopicSettings(BaseModel):
    """The topics of some tables."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: str = r".*\..*"
    """Expressions over ``database.table``, separated by commas."""
    topic: str = Field(min_length=1)
    """The name, with ``{prefix}``, ``{database}`` and ``{table}``."""
    renames: tuple[RenameSettings, ...] = ()
    shared: bool = False
    """Whether several tables may have one topic."""
    partitions: int = Field(default=0, ge=0, le=10_000)
    """How many of the topic's first partitions the rows are spread over; 0: all partitions."""

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        expressions(self.tables)
        if faults := self.rule().faults():
            raise ValueError("; ".join(faults))
        return self

    def rule(self) -> TopicRule:
        """Return the rule for routes."""
        return TopicRule(
            tables=self.tables,
            topic=self.topic,
            renames=tuple(
                TopicRename(regex=one.regex, replacement=one.replacement) for one in self.renames
            ),
            shared=self.shared,
            partitions=self.partitions,
        )


# The handling of records that cannot be delivered as they are.
#
# Invariant: by default only whole records are published; any other handling must be set for a
# destination.


_BUCKET = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9._-]{1,62}(/[A-Za-z0-9._-]+)*/?")
"""Names that are written the same in a URI, in an object's key and in a path."""
_LABEL = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
_HOST = re.compile(rf"(?=.{{1,255}}$)({_LABEL}\.)*{_LABEL}\.?")
"""Hosts that botocore accepts; for any other host it fails only at the first value, with an unnamed error."""


class S3Settings(BaseModel):
    """The connection to a claim check store in a bucket. Empty fields are taken from S3's usual sources."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str = Field(default="", pattern=r"^(https?://[^/@\s?#]+(/[^@\s?#]*)?)?$")
    """The server's URL; empty: AWS's own for the region."""
    region: str = ""
    profile: str = ""
    """The profile in the credentials files."""

    @field_validator("endpoint")
    @classmethod
    def _has_a_host(cls, endpoint: str) -> str:
        try:
            parts = urlsplit(endpoint)
            host, _ = parts.hostname or "", parts.port
            if "[" in parts.netloc:
                ipaddress.IPv6Address(host)
                return endpoint
        except ValueError as error:
            raise ValueError(f"{endpoint} is no URL of a server: {error}") from None
        if endpoint and not _HOST.fullmatch(host):
            raise ValueError(
                f"{endpoint}: a host's name has letters, digits, hyphens and dots, and no _"
                f" (give {host!r} another name, or its address)"
            )
        return endpoint


class RecordSettings(BaseModel):
    """The record settings of one destination."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    oversize: Literal["stop", "claim_check", "key_only"] = "stop"
    """The handling of a row whose record is larger than its topic accepts."""
    claim_check_path: str | None = None
    """The folder for the values of oversize records, or ``s3://bucket/prefix``."""
    claim_check_s3: S3Settings = S3Settings()
    truncates: Truncates = "record"
    """What is published for a TRUNCATE, unless a rule of the mapping determines it."""
    poison: Literal["stop", "dead_letter"] = "stop"
    """The handling of a row that cannot be decoded."""
    poison_limit: int = Field(default=10, ge=1, le=10_000)
    """The maximum number of undecodable rows sent to the dead letters in an hour."""

    @field_validator("claim_check_path", mode="before")
    @classmethod
    def _as_text(cls, path: object) -> object:
        return str(path) if isinstance(path, Path) else path

    @model_validator(mode="after")
    def _has_a_store(self) -> Self:
        path = self.claim_check_path
        if path is None:
            if self.oversize == "claim_check":
                raise ValueError("oversize: claim_check needs claim_check_path")
        elif "://" in path:
            if not _BUCKET.fullmatch(path) or "/../" in f"{path}/":
                raise ValueError(
                    f"claim_check_path {path} is neither a folder nor s3://bucket/prefix"
                )
        elif not Path(path).is_dir():
            raise ValueError(f"claim_check_path {path} is not a folder")
        return self

    @property
    def claims(self) -> str:
        """Return the store's location: an absolute path, or the bucket's URI."""
        path = self.claim_check_path or ""
        return path.rstrip("/") if "://" in path else str(Path(path).absolute())


class ZooKeeperSettings(BaseModel):
    """The connection to ZooKeeper."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: str = ""
    """``host:port`` of each server, separated by commas; if empty, one worker runs all without ZooKeeper."""
    root: str = Field(default="/aqueduct", pattern=r"^(/[\w.-]+)+$")
    session_timeout_seconds: float = Field(default=6.0, ge=1, le=60)
    username: str = ""
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    balance_delay_seconds: float = Field(default=5.0, ge=0, le=3600)

    @field_validator("hosts")
    @classmethod
    def _no_account(cls, hosts: str) -> str:
        if "@" in hosts:
            raise ValueError(
                "an address is without user and password, since messages have it: set username and "
                "password_file"
            )
        return hosts

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.password_file and self.password.get_secret_value():
            raise ValueError("give password or password_file, not both")
        if self.password_file and not self.password_file.is_file():
            raise ValueError(f"password_file {self.password_file} is not a file")
        if bool(self.username) != bool(self.secret()):
            raise ValueError("a username needs a password, and a password a username")
        return self

    def secret(self) -> str:
        """Return the password from the setting or its file."""
        if self.password_file:
            return FileSecret(self.password_file)
        return self.password.get_secret_value()


CONFIG_VARIABLE = "AQUEDUCT_CONFIG"
DEFAULT_CONFIG = "aqueduct.yaml"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""Names used in topics, environment variables and ZooKeeper paths alike."""


class WorkerSettings(_Part):
    """The worker's identity."""

    id: str = Field(default_factory=lambda: os.uname().nodename, min_length=1)
    advertised_address: str = ""
    """``host:port`` at which other workers and operators reach its HTTP server."""


class HttpSettings(_Part):
    """The worker's own HTTP server: /metrics, /health, /status."""

    bind: str = "127.0.0.1"
    port: int = Field(default=8083, ge=0, le=65535)


class KafkaSettings(_Part):
    """The connection to Kafka."""

    bootstrap_servers: str = Field(min_length=1)
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_cafile: Path | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None

    @field_validator("bootstrap_servers")
    @classmethod
    def _no_account(cls, servers: str) -> str:
        if "@" in servers:
            raise ValueError(
                "an address is without user and password, since messages have it: set sasl_username and "
                "sasl_password_file"
            )
        return servers

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.sasl_password_file and self.sasl_password:
            raise ValueError("give sasl_password or sasl_password_file, not both")
        if self.sasl_password_file and not self.sasl_password_file.is_file():
            raise ValueError(f"sasl_password_file {self.sasl_password_file} is not a file")
        return self

    def secret(self) -> str | None:
        """Return the password from the setting or its file."""
        if self.sasl_password_file:
            return FileSecret(self.sasl_password_file)
        return self.sasl_password.get_secret_value() if self.sasl_password else None

    @field_validator("ssl_cafile")
    @classmethod
    def _is_a_file(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError(f"{path} is not a file")
        return path


class TopicSettings(_Part):
    """The configuration with which topics are created, and which existing topics must have."""

    partitions: int = Field(default=4, ge=1, le=10_000)
    replication_factor: int = Field(default=3, ge=1)
    retention_ms: int = Field(default=-1, ge=-1)
    cleanup_policy: Literal["delete", "compact", "compact,delete"] = "delete"
    max_message_bytes: int = Field(default=10 * 1024 * 1024, ge=1024)
    journal_partitions: int = Field(default=4, ge=1, le=1000)
    existing: Literal["check", "keep"] = "check"
    """Whether existing row topics must have these settings, or keep their own partitions and retention."""
    offline_seconds: float = Field(default=120.0, ge=0)
    """How long a destination waits for topics that take no records; after that, only their tables wait."""


class PublishSettings(_Part):
    """Limits of the Kafka transactions into which records are gathered."""

    interval_ms: int = Field(default=200, ge=1, le=5000)
    max_bytes: int = Field(default=8 * 1024 * 1024, ge=64 * 1024)
    """A larger MySQL transaction is published in parts."""
    compression: Literal["lz4", "gzip", "zstd", "snappy"] | None = "lz4"


class FilterSettings(_Part):
    r"""The tables to capture, in Canal's form: ``database\.table`` expressions separated by commas."""

    include: str = r".*\..*"
    black: str = ""
    statements: str = ""
    """Tables whose triggers and views change no captured table, so that statements on them may be
    skipped."""

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        TableFilter(self.include, self.black)
        expressions(self.statements)
        return self


class CentralStoreSettings(_Part):
    """A MySQL server that gets a copy of all schema histories, in the tables that Canal uses for them."""

    host: str = ""
    port: int = Field(default=3306, ge=1, le=65535)
    user: str = ""
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    database: str = "aqueduct"
    tls: Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"] = "preferred"
    tls_ca: Path | None = None

    def secret(self) -> str:
        """Return the password from the setting or its file."""
        if self.password_file:
            return FileSecret(self.password_file)
        return self.password.get_secret_value()


class SchemaHistorySettings(_Part):
    """Storage and checkpoints of the history of all tables."""

    store: Literal["journal", "mysql", "off"] = "journal"
    """Whether the history is kept in the journal alone, also in a MySQL server, or not at all."""
    snapshot_interval_hours: float = Field(default=24, gt=0)
    snapshot_statements: int = Field(default=5000, ge=1)
    """The number of statements after which a checkpoint is made, whatever the time since the last."""
    snapshot_expire_hours: float = Field(default=360, gt=0)
    mysql: CentralStoreSettings = CentralStoreSettings()

    @model_validator(mode="after")
    def _has_a_server(self) -> Self:
        if self.store == "mysql" and not (self.mysql.host and self.mysql.user):
            raise ValueError("store: mysql needs mysql.host and mysql.user")
        return self


class DdlSettings(_Part):
    """The DDL statements to publish."""

    include: str = ""
    """Types separated by commas, such as ``ALTER TABLE, DROP TABLE``; if empty, all."""
    exclude: str = ""
    never_online: str = ""
    """Expressions over ``database.table`` for tables that no online schema change tool has created."""
    also_online: str = ""
    """Expressions over table names that such a tool gives, with a group ``table`` for the real table's name."""

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        StatementTypes(self.include, self.exclude)
        shadow_rules(never=self.never_online, also=self.also_online)
        return self


class DestinationSettings(RecordSettings):
    """One captured MySQL source."""

    source: SourceSettings | None = None
    sources: tuple[SourceSettings, ...] = ()
    """Several servers with the same data, in order of preference."""
    failover: FailoverSettings = FailoverSettings()
    accept: tuple[Accept, ...] = ()
    """Named risks of losing changes that are accepted."""
    server_id: int = Field(ge=1, le=2**32 - 1)
    """Aqueduct's server id at the source; no other replica of that source may have the same id."""
    default_database: str | None = None
    connection_charset: str = "utf8mb4"
    time_zone: str = Field(
        default="+00:00", pattern=r"^([+-]\d{2}:\d{2}|[A-Za-z][\w+-]*(/[\w+-]+)*)$"
    )
    heartbeat_seconds: float = Field(default=5.0, ge=0.5, le=3600)
    decoders: int = Field(default=2, ge=0, le=64)
    """Decoder processes; 0 decodes in the worker's own process."""
    filter: FilterSettings = FilterSettings()
    start: Start | None = None
    """The start position without a cursor; unset means the end of the binlog."""
    snapshot: SnapshotSettings = SnapshotSettings()
    row_topics: tuple[RowTopicSettings, ...] = ()
    """The names of row topics: the first rule that covers a table applies. If empty, Aqueduct's own names."""
    format: Format = "debezium"
    """The record format of tables for which no rule of the mapping states a format."""
    connect: ConnectSettings = ConnectSettings()
    """The form of records in the format ``connect``."""

    @model_validator(mode="after")
    def _has_places(self) -> Self:
        if self.connect.unwrap and (self.oversize, self.truncates) != ("stop", "omit"):
            raise ValueError(
                "connect.unwrap publishes the row alone, without a place for a TRUNCATE or for what replaces "
                "an oversize image: set truncates to omit, and oversize to stop"
            )
        if self.format == AVRO and any(one.shared for one in self.row_topics):
            raise ValueError(
                "format is avro, and row_topics has a shared topic: name it with share_topic in a mapping, "
                "which has a subject for each table"
            )
        return self

    @model_validator(mode="after")
    def _begins_once(self) -> Self:
        starts = [self.start, *(one.start for one in self.listed)]
        mode = self.snapshot.mode
        if mode not in ("never", "recovery") and any(one not in (None, "latest") for one in starts):
            raise ValueError(
                f"snapshot.mode is {mode}, so changes are read from the end of the binlog: leave out start"
            )
        return self

    @model_validator(mode="after")
    def _has_sources(self) -> Self:
        if (self.source is None) == (not self.sources):
            raise ValueError("give source, or sources for several, and not both")
        addresses = [(source.host, source.port) for source in self.sources]
        if len(set(addresses)) < len(addresses):
            raise ValueError("the sources must be different servers")
        return self

    @property
    def listed(self) -> tuple[SourceSettings, ...]:
        """Return the destination's sources in order, at least one."""
        return self.sources if self.source is None else (self.source,)

    @field_validator("connection_charset")
    @classmethod
    def _known(cls, name: str) -> str:
        found = connection_charset(name)
        if found is None:
            raise ValueError(f"{name!r} is no character set of MySQL connections; utf8mb4 is")
        return found


class Settings(BaseSettings):
    """A worker's settings."""

    model_config = SettingsConfigDict(
        env_prefix="AQUEDUCT_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    prefix: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9.-]{0,99}$")]
    """The prefix of all topics; one for each installation."""
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    http: HttpSettings = HttpSettings()
    kafka: KafkaSettings
    zookeeper: ZooKeeperSettings = ZooKeeperSettings()
    topics: TopicSettings = TopicSettings()
    publish: PublishSettings = PublishSettings()
    data_dir: Path = Path(".aqueduct")
    provide_transaction_metadata: bool | Literal["parts"] = "parts"
    """Whether all transactions have transaction markers, only those published in parts, or none."""
    include_query: bool = False
    """Whether the statement that changed rows is published with each of them."""
    schema_history: SchemaHistorySettings = SchemaHistorySettings()
    ddl: DdlSettings = DdlSettings()
    mapping: MappingSettings = MappingSettings()
    merge: dict[Name, MergeSettings] = {}
    """Groups of destinations whose mapped tables are published in one order."""
    destinations: dict[Name, DestinationSettings] = Field(min_length=1)

    @model_validator(mode="after")
    def _topics_fit(self) -> Self:
        mapping = self.mapping.mapping
        for fault in long_topics(mapping, self.prefix) if mapping is not None else ():
            raise ValueError(f"mapping: {fault}")
        return self

    @model_validator(mode="after")
    def _store_answers(self) -> Self:
        if self.mapping.store == "zookeeper" and not self.zookeeper.hosts:
            raise ValueError("mapping.store is zookeeper, which needs zookeeper.hosts")
        return self

    @model_validator(mode="after")
    def _records_fit(self) -> Self:
        for name, destination in self.destinations.items():
            if destination.truncates == "deletes" and self.topics.existing == "keep":
                raise ValueError(
                    f"destinations.{name}.truncates is deletes, for which topics are read, and topics.existing "
                    "is keep, so that they may have another program's records: set truncates to omit or record"
                )
            if destination.format == AVRO and not self.mapping.schema_registry.url:
                raise ValueError(
                    f"destinations.{name}.format is avro, which needs mapping.schema_registry.url"
                )
        return self

    @model_validator(mode="after")
    def _has_history(self) -> Self:
        if self.schema_history.store == "off":
            for name, destination in self.destinations.items():
                if destination.snapshot.recovers:
                    raise ValueError(
                        f"destinations.{name}: snapshot.mode is recovery, which begins the schema history "
                        "again, and schema_history.store is off, so none is kept"
                    )
                if destination.truncates == "deletes":
                    raise ValueError(
                        f"destinations.{name}: truncates is deletes, which needs the schema history, and "
                        "schema_history.store is off"
                    )
        return self

    @model_validator(mode="after")
    def _merges_fit(self) -> Self:
        owners: dict[str, str] = {}
        for name, merge in self.merge.items():
            for destination in merge.destinations:
                if destination not in self.destinations:
                    raise ValueError(f"merge.{name} names {destination}, which is no destination")
                if destination in owners:
                    raise ValueError(
                        f"merge.{owners[destination]} and merge.{name} both name {destination}; "
                        "a destination is in one merge at most"
                    )
                if self.destinations[destination].row_topics:
                    raise ValueError(
                        f"merge.{name} names {destination}, which has row_topics; a merge has none"
                    )
                owners[destination] = name
        return self

    def merge_of(self, destination: str) -> str | None:
        """Return the merge that a destination is in, if any."""
        return next(
            (name for name, one in self.merge.items() if destination in one.destinations), None
        )

    @model_validator(mode="after")
    def _distinct_server_ids(self) -> Self:
        owners: dict[tuple[str, int, int], str] = {}
        for name, destination in self.destinations.items():
            for source in destination.listed:
                server = (source.host, source.port, destination.server_id)
                if server in owners:
                    raise ValueError(
                        f"destinations {owners[server]} and {name} have the same server_id "
                        f"{destination.server_id} at {source.host}:{source.port}; each needs its own"
                    )
                owners[server] = name
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment override the file; nothing else is read."""
        path = Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_CONFIG))
        return init_settings, env_settings, SettingsFile(settings_cls, path)


def load() -> Settings:
    """Return the settings from the file and the environment; raise SettingsError with all faults."""
    path = Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_CONFIG))
    if CONFIG_VARIABLE in os.environ and not path.is_file():
        raise SettingsError(f"{CONFIG_VARIABLE} names {path}, which is not a file")
    refuse_unknown(Settings.model_fields, CONFIG_VARIABLE)
    refuse_unreadable(path)
    try:
        return Settings()  # type: ignore[call-arg]  # the values come from the file and the environment
    except ValidationError as error:
        found = faults(error.errors(), Settings)
        if not path.is_file():
            raise SettingsError(
                Faults.listed(
                    f"there is no file {path} here, and the environment alone is not sufficient:",
                    found,
                ),
                remedy=f"Start in the folder of {path}, or name the file by {CONFIG_VARIABLE}",
            ) from None
        raise SettingsError(
            Faults.listed(f"{len(found)} fault(s) in {path} and the environment:", found),
            remedy="docs/settings.md explains each setting",
        ) from None
    except EnvironmentFault as error:
        # The cause would show the value, which may be a secret.
        raise SettingsError(f"the environment cannot be read: {error}") from None


# The check of settings that are given as values, before there is a file.
#
# Invariant: neither the environment nor a settings file is read; files of secrets and the mapping
# need not exist yet.


Location = tuple[str | int, ...]


class _GivenSettings(Settings):
    """The worker's settings from values alone."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the values, and nothing else."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)


def faults_of(values: dict[str, Any]) -> list[tuple[Location, str]]:
    """Return each fault with its location in the values; an empty list if the worker accepts them."""
    try:
        given = {name: one for name, one in values.items() if name != "mapping"}
        _GivenSettings(**_without_secret_files(given))
    except ValidationError as error:
        return [(one["loc"], "; ".join(faults([one], Settings))) for one in error.errors()]
    return []


def _without_secret_files(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secret_files(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_secret_files(one)
        for name, one in value.items()
        if not str(name).endswith("password_file")
    }
