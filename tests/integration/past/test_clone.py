"""CLONE copies a server's tables and not its binlog: the new server has purged all that the other has."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from connectors.errors import PositionPurged, SourceUnproven
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.integration.failover.prove import moved, published, refused
from tests.integration.failover.servers import insert
from tests.integration.past.servers import TABLE, made
from tests.integration.worker.source import facts_of

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("failover/test_fit has the same of a standby and its files"),
]


def _clone(clone: Mysql, donor: Mysql) -> None:
    """Clone, and wait until the server has exited; nothing restarts it."""
    grants = ("CLONE_ADMIN", clone), ("BACKUP_ADMIN", donor)
    for privilege, server in grants:
        ask(server, "SET sql_log_bin = 0", f"GRANT {privilege} ON *.* TO 'aqueduct'@'%'")
    with pytest.raises(pymysql.MySQLError):
        ask(
            clone,
            f"SET GLOBAL clone_valid_donor_list = '127.0.0.1:{donor.port}'",
            f"CLONE INSTANCE FROM 'aqueduct'@'127.0.0.1':{donor.port} IDENTIFIED BY 'aqueduct'",
        )
    until(lambda: clone.child is None)


def test_a_clone_has_none_of_what_was_published_in_its_binlog(
    children: Children, tmp_path: Path
) -> None:
    donor, clone = (
        made(children, tmp_path / name, server_id=number, plugin_load_add="mysql_clone.so")
        for number, name in ((1, "donor"), (2, "clone"))
    )
    donor.start()
    clone.start()
    ask(donor, *TABLE)
    insert(donor, "one", "two")
    before = published(donor)
    insert(donor, "three")
    own = facts_of(clone).server_uuid
    _clone(clone, donor)
    clone.start()
    facts = facts_of(clone)
    assert facts.server_uuid == own
    assert facts.gtid_executed == facts_of(donor).gtid_executed
    # It lacks what is not published yet; once all is, only the settings can say that it is the same.
    refused(before, clone, PositionPurged, "it has purged")
    cursor = published(donor)
    refused(cursor, clone, SourceUnproven, "none of the last published")
    assert moved(cursor, clone, accept_unproven=True).offset.gtid_set == cursor.offset.gtid_set
    insert(clone, "four")
    assert moved(cursor, clone, accept_unproven=True)
