"""A disk copied with its server_uuid: two servers with the same id that diverge."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.errors import SourceDiverged
from devstack.processes import Children
from tests.harness.sql import ask
from tests.integration.failover.prove import at_home, published
from tests.integration.failover.servers import insert
from tests.integration.past.servers import TABLE, copied, made
from tests.integration.worker.source import facts_of

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("failover/test_fit has the same of a standby and its files"),
]


def test_a_copy_is_read_on_from_what_both_have_and_refused_after_what_it_lacks(
    children: Children, tmp_path: Path
) -> None:
    server = made(children, tmp_path / "one", server_id=1)
    server.start()
    ask(server, *TABLE)
    insert(server, "both have")
    common = published(server)
    server.stop()
    copy = made(children, copied(server, tmp_path / "two"), server_id=1)
    copy.start()
    server.start()
    assert facts_of(copy).server_uuid == facts_of(server).server_uuid
    # Both write on, with the same GTIDs, and here even at the same places.
    insert(server, "only here")
    ahead = published(server)
    server.kill()
    insert(copy, "only there")
    assert published(copy).offset.gtid_set == ahead.offset.gtid_set
    assert at_home(common, copy).landmark == common.proof.landmark
    with pytest.raises(SourceDiverged, match="is no longer there"):
        at_home(ahead, copy)
    insert(copy, *"more")
    with pytest.raises(SourceDiverged, match="is no longer there"):
        at_home(ahead, copy)
