"""What the settings say about what is published, and how.

The law: plain values, since they travel to the processes of decoders; nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.pipeline.statement_filter import StatementTypes, shadow_rules
from connectors.claims.s3 import S3Access
from connectors.mysql.ddl.online.shadow_rules import ShadowRules
from tables.routes.routes import Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Of one destination."""

    destination: str
    routes: Routes
    """Which tables are captured, and how the rows of each are published."""
    trusted: str = ""
    """Tables whose statements change nothing else: expressions, with commas."""
    borders: bool
    """Whether all transactions' borders are published."""
    borders_of_parts: bool = True
    """Whether those of a transaction that is published in parts are."""
    statements: bool = False
    """Whether the statement that changed rows is published with each of them."""
    compression: str | None
    max_bytes: int
    """Bytes of keys and values above which a transaction is published in parts."""
    max_batch_bytes: int
    """Bytes of one record batch, before compression."""
    compacted: bool = False
    """Whether topics of rows are compacted, where a broker takes no record without a key."""
    largest: int = 0
    """Bytes of a record batch that a topic takes, after compression."""
    oversize: str = "stop"
    """What becomes of a row's record that is larger: ``stop``, ``claim_check`` or ``key_only``."""
    claims: str = ""
    """The folder for values that are claimed, or ``s3://bucket/prefix``."""
    claims_access: S3Access = field(default_factory=S3Access)
    """How such a bucket is reached."""
    poison_limit: int = 0
    """Rows that cannot be decoded and are put among the dead letters in an hour; 0: the first one stops."""
    ddl_include: str = ""
    """Types of statements that are published, with commas; empty: all."""
    ddl_exclude: str = ""
    """Types that are not, whatever ``ddl_include`` says."""
    never_shadows: str = ""
    """Tables that no tool for online schema changes has made, whatever their names are."""
    also_shadows: str = ""
    """Names that such a tool gives beside those that we know."""

    @property
    def prefix(self) -> str:
        """What the names of all topics begin with."""
        return self.routes.prefix

    def tells(self, statement_type: str) -> bool:
        """Whether statements of a type are published."""
        return StatementTypes(self.ddl_include, self.ddl_exclude).publishes(statement_type)

    def shadow_rules(self) -> ShadowRules:
        """Which tables such tools make beside the real ones."""
        return shadow_rules(never=self.never_shadows, also=self.also_shadows)
