"""A lease: held while the servers answer, in doubt while they may not, and over for good."""

from __future__ import annotations

import asyncio
import logging

import pytest

from app.worker.coordination import zookeeper_lease as leases
from app.worker.coordination.cluster_view import Identity
from app.worker.coordination.zookeeper_lease import PermanentLease, ZNodeLease
from connectors.errors import CoordinationLost, LeadershipLost
from connectors.zookeeper.protocol import SessionState
from tests.harness.memory_zookeeper import MemoryServer, MemorySession

ME = Identity(worker="a", address="host:1")
PATH = "/aqueduct/destinations/shop/running"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [1000.0]
    monkeypatch.setattr("app.worker.coordination.zookeeper_lease.now", lambda: time[0])
    monkeypatch.setattr("tests.harness.memory_zookeeper.now", lambda: time[0])
    return time


async def held(server: MemoryServer) -> tuple[ZNodeLease, MemorySession]:
    session = server.session(lambda: None, timeout=6.0)
    node = await session.create(PATH, ME.data(), ephemeral=True)
    return ZNodeLease(session, PATH, node, ME), session


async def test_its_term_is_greater_than_that_of_all_who_led_before(clock: list[float]) -> None:
    server = MemoryServer()
    first, session = await held(server)
    await session.close()
    second, _ = await held(server)
    assert clock
    assert second.term > first.term


async def test_two_thirds_of_the_session_without_an_answer_end_it(clock: list[float]) -> None:
    lease, session = await held(MemoryServer())
    clock[0] += 3.9
    lease.check()
    clock[0] += 0.2
    with pytest.raises(LeadershipLost, match=r"has not answered for 4\.0 s"):
        lease.check()
    session.answered = clock[0]
    with pytest.raises(LeadershipLost):  # for good
        lease.check()


async def test_each_answer_counts_from_when_it_was_asked_for(clock: list[float]) -> None:
    lease, session = await held(MemoryServer())
    clock[0] += 3.0
    await session.read(PATH)
    clock[0] += 3.9
    lease.check()


async def test_it_waits_while_the_connection_is_lost_and_continues_when_it_is_back(
    clock: list[float],
) -> None:
    lease, session = await held(MemoryServer())
    session.become(SessionState.SUSPENDED)
    waiting = asyncio.create_task(lease.hold())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    lease.check()  # in doubt is not over
    session.become(SessionState.CONNECTED)
    await waiting
    assert clock


async def test_it_waits_no_longer_than_it_may_last(clock: list[float]) -> None:
    lease, session = await held(MemoryServer())
    session.become(SessionState.SUSPENDED)
    waiting = asyncio.create_task(lease.hold())
    await asyncio.sleep(0.1)
    clock[0] += 4.1
    with pytest.raises(LeadershipLost):
        await waiting


async def test_a_session_that_is_over_ends_it(clock: list[float]) -> None:
    lease, session = await held(MemoryServer())
    session.become(SessionState.OVER)
    with pytest.raises(LeadershipLost, match="session with ZooKeeper is over"):
        lease.check()
    assert clock


async def test_it_confirms_that_the_node_is_its_own() -> None:
    lease, _ = await held(MemoryServer())
    await lease.confirm()


async def test_the_epoch_is_shown_and_the_node_stays_its_own() -> None:
    server = MemoryServer()
    lease, _ = await held(server)
    await lease.announce(7)
    assert b'"epoch":7' in server.nodes[PATH].data
    await lease.confirm()


async def test_a_node_that_was_deleted_by_hand_ends_it() -> None:
    server = MemoryServer()
    lease, _ = await held(server)
    server.remove(PATH)
    with pytest.raises(LeadershipLost, match="was removed"):
        await lease.confirm()


async def test_a_node_that_another_made_since_ends_it() -> None:
    server = MemoryServer()
    lease, _ = await held(server)
    server.remove(PATH)
    await held(server)
    with pytest.raises(LeadershipLost, match="another's"):
        await lease.confirm()


async def test_what_is_handed_over_is_over_here_and_free_for_another() -> None:
    server = MemoryServer()
    lease, _ = await held(server)
    await lease.hand_over()
    assert PATH not in server.nodes
    with pytest.raises(LeadershipLost, match="handed over"):
        lease.check()


async def test_it_is_said_to_be_handed_over_only_where_another_may_lead_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MemoryServer()
    with caplog.at_level(logging.INFO, logger="app.worker.coordination.zookeeper_lease"):
        free, _ = await held(server)
        await free.hand_over()
        assert f"{PATH} is handed over" in caplog.text
        caplog.clear()
        doubtful, session = await held(server)
        session.become(SessionState.SUSPENDED)
        await doubtful.hand_over()
        assert not await doubtful.release()
    assert PATH in server.nodes
    assert [one.getMessage() for one in caplog.records] == [
        f"{PATH} is left to the session's end: the session is suspended"
    ]


async def test_it_is_not_said_to_be_handed_over_where_the_servers_refuse(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lease, session = await held(MemoryServer())

    async def lost(_path: str) -> None:
        raise CoordinationLost("no answer")

    monkeypatch.setattr(session, "delete", lost)
    with caplog.at_level(logging.INFO, logger="app.worker.coordination.zookeeper_lease"):
        await lease.hand_over()
    assert "handed over" not in caplog.text
    assert "left to the session's end: no answer" in caplog.text


async def test_what_was_handed_over_is_not_touched_when_it_is_anothers() -> None:
    server = MemoryServer()
    lease, _ = await held(server)
    await lease.hand_over()
    other, _ = await held(server)
    await other.announce(9)
    await lease.announce(7)
    await lease.release()
    assert b'"epoch":9' in server.nodes[PATH].data


async def test_without_coordination_it_is_never_over() -> None:
    lease = PermanentLease()
    lease.check()
    await lease.hold()
    await lease.confirm()
    await lease.hand_over()
    lease.check()
    assert (lease.term, lease.shared) == (0, False)


def test_the_owner_gives_up_before_the_servers_do() -> None:
    assert leases.GIVEN_UP_AFTER < 1
