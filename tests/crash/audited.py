"""The second judge: the audit command's own code, over mysqlbinlog's output of the server's files.

Invariant: it judges the same topics by other code than `tests/crash/verdict.py`; a fault found by either is a
fault.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.audit.audit import Scope, audit
from app.audit.topics.topics import KafkaTopics
from app.audit.truth.mysqlbinlog import BinlogFiles
from app.audit.verdict import Verdict
from app.operator.audit import run_beside_kafka
from tests.crash.scene import DESTINATION, Scene
from tests.crash.verdict import Findings


def audited(at: Scene) -> Findings:
    """The audit's findings, by its own kinds."""
    mysql = at.source_server
    files = BinlogFiles(
        paths=tuple(sorted(Path(mysql.data).glob("binlog.[0-9]*"))),
        server_uuid=str(at.servers.run("SELECT @@GLOBAL.server_uuid", to=mysql)[0][0]),
        program=mysql.mysqlbinlog or ("mysqlbinlog",),
    )

    def work(kafka: KafkaTopics) -> Verdict:
        return audit(
            Scope(
                destination=DESTINATION,
                routes=at.routes,
                binlog=files,
                published=kafka,
            )
        )

    verdict = asyncio.run(run_beside_kafka({"bootstrap_servers": at.servers.kafka}, work))
    assert verdict.changes, "the audit saw no change"
    return {
        f"audit {kind.value}": [str(one) for one in found] for kind, found in verdict.shown.items()
    }
