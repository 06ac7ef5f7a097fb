"""Tables of services and tools, which write them by statements even if the format is ROW.

Invariant: a name is here only if its tool creates the table itself, with no trigger on it.
Sources: what these services write into their binlogs; the manuals of pt-table-checksum,
pt-heartbeat, pt-slave-restart, Orchestrator, MHA, ProxySQL and MaxScale.
"""

from __future__ import annotations

import re

from connectors.mysql.ddl.definition import TableName

_NAMES = (
    r"mysql\.(?:rds_\w+|aurora_\w+|ro_replica_status)",  # Amazon
    r"mysql\.(?:heartbeat|cloudsql_\w+)",  # Google
    r"mysql\.__az_\w+",  # Azure
    r"mysql\.(?:ha_health_check|slave_\w+|inc_\w+)",  # Alibaba, Tencent, and others' copies of it
    r"percona\.(?:checksums|heartbeat|dsns|sync_history|pt_osc_\w+|query_review(?:_history)?)",
    r"(?:orchestrator|orchestrator_meta|meta)\.(?:cluster|heartbeat|pseudo_gtid\w*|node_health\w*)",
    r"infra\.chk_masterha",  # MHA
    r"maxscale_schema\.\w+",
)
_ANY = re.compile("|".join(_NAMES), re.IGNORECASE)


def is_tools_own(name: TableName) -> bool:
    """Whether a table is known to belong to a service or tool."""
    return _ANY.fullmatch(".".join(name)) is not None
