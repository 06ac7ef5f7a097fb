"""The publishing rules of the settings.

Invariant: plain values, since they are sent to decoder processes; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.settings.connect_form import ConnectForm
from app.settings.statement_filter import StatementTypes, shadow_rules
from connectors.mysql.ddl.online import ShadowRules
from connectors.store.registry import RegistryAccess
from connectors.store.s3 import S3Access
from tables.rules.routes.routes import Routes
from tables.rules.routes.written_topics import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingRules:
    """The rules of one destination."""

    destination: str
    routes: Routes
    """The captured tables, and how the rows of each are published."""
    spread: Mapping[str, Spread] = field(default_factory=dict)
    """Topics whose keys are spread over more partitions from this run on."""
    trusted: str = ""
    """Tables whose statements change no other table: expressions, separated by commas."""
    markers: bool
    """Whether the transaction markers of all transactions are published."""
    part_markers: bool = True
    """Whether the transaction markers of a transaction that is published in parts are published."""
    statements: bool = False
    """Whether the statement that changed rows is published with each of them."""
    compression: str | None
    max_bytes: int
    """Bytes of keys and values above which a transaction is published in parts."""
    max_batch_bytes: int
    """Bytes of one record batch, before compression."""
    compacted: bool = False
    """Whether row topics are compacted; a broker refuses records without a key for such topics."""
    largest: int = 0
    """Bytes of a record batch that a topic accepts, after compression."""
    oversize: str
    """The handling of an oversize row: ``stop``, ``claim_check`` or ``key_only``."""
    claims: str = ""
    """The folder for claim check values, or ``s3://bucket/prefix``."""
    claims_access: S3Access = field(default_factory=S3Access)
    """The access to such a bucket."""
    registry: RegistryAccess = field(default_factory=RegistryAccess)
    """The schema registry, for records in Avro."""
    connect: ConnectForm = field(default_factory=ConnectForm)
    """The form of records in the format ``connect``."""
    undecodable_limit: int = 0
    """Undecodable rows per hour that become dead letters; 0: the first one stops the destination."""
    ddl_include: str = ""
    """Types of statements that are published, separated by commas; empty: all."""
    ddl_exclude: str = ""
    """Types that are not published; overrides ``ddl_include``."""
    never_shadows: str = ""
    """Tables that are no shadows of an online schema change tool, whatever their names."""
    signals: tuple[str, str] | None = None
    """The table whose inserted rows are requests for snapshots, if any."""
    also_shadows: str = ""
    """Names of such tools' shadow tables, in addition to the known names."""

    @property
    def prefix(self) -> str:
        """The prefix of all topic names."""
        return self.routes.prefix

    def publishes(self, statement_type: str) -> bool:
        """Whether statements of a type are published."""
        return StatementTypes(self.ddl_include, self.ddl_exclude).publishes(statement_type)

    def shadow_rules(self) -> ShadowRules:
        """Return the rules that recognize shadow tables."""
        return shadow_rules(never=self.never_shadows, also=self.also_shadows)
