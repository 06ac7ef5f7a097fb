"""Workers among others, with the in-memory twin of ZooKeeper: what each of them leads, and until when."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from app.worker.coordination.cluster_view import Identity, Nodes
from app.worker.coordination.zookeeper_leadership import ZooKeeperLeadership
from app.worker.coordination.zookeeper_lease import Lease
from connectors.errors import Fenced
from connectors.zookeeper.protocol import Session, SessionState
from tests.harness.memory_zookeeper import MemoryServer, MemorySession
from tests.harness.wait import until_in_loop

NODES = Nodes("/aqueduct")
SESSION = 0.9


class DestinationRunner:
    """Destinations that do nothing, and who leads them."""

    led: ClassVar[Counter[str]] = Counter()
    """The number of leaders of each destination."""
    twice: ClassVar[set[str]] = set()
    """Destinations that had two leaders at once."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = set(names)
        self.mine: dict[str, Lease] = {}
        self.fails: set[str] = set()
        self.ready = True
        self.ends_in = 0.0
        """Seconds that it takes to end one in order."""
        self.cut_short = 0

    def wanted(self) -> Collection[str]:
        return sorted(self.names)

    def is_ready(self) -> bool:
        return self.ready

    async def lead(self, name: str, lease: Lease) -> None:
        if name in self.fails:
            raise Fenced
        DestinationRunner.led[name] += 1
        if DestinationRunner.led[name] > 1:
            DestinationRunner.twice.add(name)
        self.mine[name] = lease
        try:
            await lease.ended.wait()
            lease.check()
        finally:
            try:
                await asyncio.sleep(self.ends_in)
            except asyncio.CancelledError:
                self.cut_short += 1
                raise
            finally:
                DestinationRunner.led[name] -= 1
                self.mine.pop(name, None)


class Member:
    """A worker and what it leads."""

    def __init__(
        self, server: MemoryServer, name: str, names: Collection[str], prefix: str
    ) -> None:
        self.sessions: list[MemorySession] = []
        self.runner = DestinationRunner(names)
        self._server = server
        self.shared = ZooKeeperLeadership(
            self.runner,
            self._opens,
            identity=Identity(worker=name, address=f"{name}:1"),
            nodes=NODES,
            prefix=prefix,
            delay=0.1,
        )
        self.task = asyncio.create_task(self.shared.run())

    @asynccontextmanager
    async def _opens(self, changed: Callable[[], None]) -> AsyncIterator[Session]:
        session = self._server.session(changed, timeout=SESSION)
        self.sessions.append(session)
        try:
            yield session
        finally:
            await session.close()

    @property
    def leads(self) -> set[str]:
        return set(self.runner.mine)


class Stage:
    """A server, and workers that join it."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.members: list[Member] = []

    def join(
        self, name: str, names: Collection[str], prefix: str = "p", *, ready: bool = True
    ) -> Member:
        member = Member(self.server, name, names, prefix)
        member.runner.ready = ready
        self.members.append(member)
        return member


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr("app.worker.coordination.zookeeper_leadership._SETTLE_SECONDS", 0.1)
    monkeypatch.setattr("app.worker.coordination.zookeeper_leadership.OTHERS_TURN_SECONDS", 0.3)
    DestinationRunner.led, DestinationRunner.twice = Counter(), set()
    made = Stage()
    yield made
    for member in made.members:
        member.task.cancel()
        await asyncio.wait([member.task])


async def until(reached: Callable[[], bool]) -> float:
    """Wait for it; how long that took."""
    began = time.monotonic()
    await until_in_loop(reached, seconds=60, glance=0.01)
    return time.monotonic() - began


ALL = {f"d{n}" for n in range(4)}


async def test_all_are_led_by_the_only_worker(stage: Stage) -> None:
    a = stage.join("a", ALL)
    await until(lambda: a.leads == ALL)
    assert all(NODES.running(name) in stage.server.nodes for name in ALL)


async def test_workers_share_evenly_in_any_order_of_arrival(stage: Stage) -> None:
    a = stage.join("a", ALL)
    await until(lambda: a.leads == ALL)
    b = stage.join("b", ALL)
    await until(lambda: len(a.leads) == len(b.leads) == 2)
    await asyncio.sleep(0.5)
    assert (len(a.leads), len(b.leads)) == (2, 2)
    assert DestinationRunner.twice == set()


async def test_a_worker_that_is_not_ready_takes_nothing_from_one_that_leads(stage: Stage) -> None:
    a = stage.join("a", ALL)
    await until(lambda: a.leads == ALL)
    b = stage.join("b", ALL, ready=False)
    await until(lambda: NODES.candidate("d0", "b") in stage.server.nodes)
    await asyncio.sleep(0.5)
    assert (a.leads, b.leads) == (ALL, set())
    b.runner.ready = True
    b.shared.wake()
    a.shared.wake()
    await until(lambda: len(a.leads) == len(b.leads) == 2)


async def test_what_is_free_goes_to_one_that_is_ready_and_else_to_anyone(stage: Stage) -> None:
    a, b = stage.join("a", ALL), stage.join("b", ALL, ready=False)
    c = stage.join("c", ALL)
    await until(lambda: len(a.leads) == len(c.leads) == 2)
    await a.shared.leave()
    await until(lambda: c.leads == ALL)
    assert b.leads == set()
    await c.shared.leave()
    await until(lambda: b.leads == ALL)


async def test_what_a_dead_worker_led_is_led_on(stage: Stage) -> None:
    a, b = stage.join("a", ALL), stage.join("b", ALL)
    await until(lambda: len(a.leads) == len(b.leads) == 2)
    kept = a.leads
    b.task.cancel()
    await asyncio.wait([b.task])
    await until(lambda: a.leads == ALL)
    assert kept <= a.leads


async def test_a_worker_that_leaves_is_followed_at_once(stage: Stage) -> None:
    a, b = stage.join("a", ALL), stage.join("b", ALL)
    await until(lambda: len(a.leads) == len(b.leads) == 2)
    await b.shared.leave()
    assert b.leads == set()
    assert await until(lambda: a.leads == ALL) < 0.25  # before anybody's turn
    assert DestinationRunner.twice == set()


async def test_one_that_is_cancelled_is_cancelled_once_however_long_it_takes(stage: Stage) -> None:
    a = stage.join("a", ALL)
    await until(lambda: a.leads == ALL)
    a.runner.ends_in = 0.5
    b = stage.join("b", ALL)
    await until(lambda: len(a.leads) == len(b.leads) == 2)
    await a.shared.leave()
    assert a.runner.cut_short == 0
    assert DestinationRunner.twice == set()


async def test_a_worker_whose_servers_ended_its_session_leads_nothing_until_it_has_another(
    stage: Stage,
) -> None:
    a = stage.join("a", ALL)
    await until(lambda: a.leads == ALL)
    first = {name: lease.term for name, lease in a.runner.mine.items()}
    stage.server.expire(a.sessions[0])
    await until(lambda: not a.leads)
    await until(lambda: a.leads == ALL)
    assert all(lease.term > first[name] for name, lease in a.runner.mine.items())
    assert len(a.sessions) == 2


async def test_a_worker_that_is_cut_off_gives_up_before_another_leads(stage: Stage) -> None:
    a, b = stage.join("a", ALL), stage.join("b", ALL)
    await until(lambda: len(a.leads) == len(b.leads) == 2)
    cut = b.sessions[0]
    cut.become(SessionState.SUSPENDED)
    leases = list(b.runner.mine.values())
    with pytest.raises(AssertionError):  # in doubt: nothing may be written
        await asyncio.wait_for(_held(leases[0]), 0.1)
    await asyncio.sleep(SESSION)
    stage.server.expire(cut)
    await until(lambda: len(a.leads) + len(b.leads) == 4)
    assert DestinationRunner.twice == set()


async def _held(lease: Lease) -> None:
    try:
        async with asyncio.timeout(0.05):
            await lease.hold()
    except TimeoutError:
        raise AssertionError("in doubt") from None


async def test_a_node_that_is_deleted_by_hand_is_noticed_and_recreated(stage: Stage) -> None:
    a = stage.join("a", {"d"})
    await until(lambda: a.leads == {"d"})
    term = a.runner.mine["d"].term
    stage.server.remove(NODES.running("d"))
    await until(lambda: bool(a.leads) and a.runner.mine["d"].term > term)


async def test_all_nodes_deleted_are_recreated(stage: Stage) -> None:
    a, b = stage.join("a", ALL), stage.join("b", ALL)
    await until(lambda: len(a.leads) == len(b.leads) == 2)
    stage.server.remove("/aqueduct")
    await asyncio.sleep(0.3)
    await until(lambda: len(a.leads) == len(b.leads) == 2)


@pytest.mark.remedy("NodeUnfit")
async def test_a_leader_that_was_made_by_hand_is_reported_until_it_is_deleted(stage: Stage) -> None:
    stage.server.put(NODES.running("d"), b"hands off", 0)
    a = stage.join("a", {"d"})
    await until(lambda: "NodeUnfit" in str(a.shared.why("d").get("why_not")) or bool(a.leads))
    assert a.leads == set()
    stage.server.remove(NODES.running("d"))
    await until(lambda: a.leads == {"d"})


async def test_candidates_that_somebody_made_by_hand_get_nothing(stage: Stage) -> None:
    for name in ALL:
        stage.server.put(NODES.candidate(name, "ghost"), b"", 0)
    a = stage.join("a", ALL)
    assert await until(lambda: a.leads == ALL) < 0.3  # before anybody's turn
    terms = {name: lease.term for name, lease in a.runner.mine.items()}
    await asyncio.sleep(0.8)
    assert {name: lease.term for name, lease in a.runner.mine.items()} == terms


async def test_a_candidate_of_its_own_name_that_stays_is_recreated(stage: Stage) -> None:
    stage.server.put(NODES.candidate("d", "a"), b"", 0)
    a = stage.join("a", {"d"})
    await until(lambda: a.leads == {"d"})
    assert stage.server.nodes[NODES.candidate("d", "a")].owner == a.sessions[0].id


async def test_what_is_lost_again_and_again_is_left_alone_for_longer(stage: Stage) -> None:
    a = stage.join("a", {"d"})
    a.runner.fails = {"d"}
    b = stage.join("b", {"d"})
    await until(lambda: b.leads == {"d"})
    a.runner.fails = set()
    await asyncio.sleep(0.5)
    assert b.leads == {"d"}


async def test_what_is_not_wanted_any_more_is_given_up(stage: Stage) -> None:
    a = stage.join("a", ALL)
    await until(lambda: a.leads == ALL)
    a.runner.names = {"d0"}
    a.shared.wake()
    await until(lambda: a.leads == {"d0"})
    nodes = {NODES.candidate("d1", "a"), NODES.running("d1")}
    await until(lambda: nodes.isdisjoint(stage.server.nodes))


@pytest.mark.remedy("WorkerIdTaken")
async def test_two_workers_with_one_id_are_distinguished(stage: Stage) -> None:
    a = stage.join("same", ALL)
    await until(lambda: a.leads == ALL)
    b = stage.join("same", ALL)
    await until(lambda: "WorkerIdTaken" in str((b.shared.to_json() or {})["error"]))
    assert b.leads == set()
    c = stage.join("other", ALL)
    await until(lambda: len(a.leads) == len(c.leads) == len(ALL) // 2)


async def test_another_installation_is_kept_out_of_a_root(stage: Stage) -> None:
    a = stage.join("a", ALL)
    await until(lambda: a.leads == ALL)
    b = stage.join("b", {"x"}, prefix="other")
    await until(lambda: "zookeeper.root of its own" in str((b.shared.to_json() or {})["error"]))
    assert b.leads == set()


async def test_who_leads_and_why_others_do_not_is_reported(stage: Stage) -> None:
    a = stage.join("a", {"d"})
    await until(lambda: a.leads == {"d"})
    b = stage.join("b", {"d"})
    await until(lambda: len(b.shared.why("d")["candidates"]) == 2)
    await until(lambda: b.shared.why("d").get("why_not") == "a leads it")
    assert a.shared.why("d")["here"]
    assert (a.shared.to_json() or {})["state"] == "connected"
