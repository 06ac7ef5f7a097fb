"""Faults of ZooKeeper, of the links to it and of its nodes, with two coordinated workers."""

from __future__ import annotations

import contextlib
import shutil

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_digest_acl

from tests.crash.both import PAST, Both
from tests.crash.links import Direction, Wire
from tests.crash.scenario import fault
from tests.crash.scene import DESTINATION, SESSION, Scene
from tests.crash.servers import Ways

_GARBAGE = b"\x00{not json"


@fault("zookeeper.expiry", "the leader's link to ZooKeeper is held until the session expires")
def expiry(at: Scene) -> str:
    with Both.begun(at) as both:
        wire = _to_zookeeper(both.ways(both.leader))
        for way in _BOTH_WAYS:
            wire.way(way, held=True)
        took = both.taken_over()
        wire.restore()
        wire.reset()
        return f"the other led after {took:.1f} s; {both.at_rest()}"


def _black(way: Direction, what: str) -> None:
    @fault(f"zookeeper.black.{way}", f"{what} until the session expires")
    def act(at: Scene) -> str:
        with Both.begun(at) as both:
            wire = _to_zookeeper(both.ways(both.leader))
            wire.way(way, held=True)
            took = both.taken_over()
            wire.restore()
            return f"the other led after {took:.1f} s; {both.at_rest()}"


_BOTH_WAYS: tuple[Direction, ...] = ("up", "down")
_black("up", "packets from the leader to ZooKeeper are held")
_black("down", "packets from ZooKeeper to the leader are held")


@fault("zookeeper.half-open", "ZooKeeper's port accepts the leader's connections and never answers")
def half_open(at: Scene) -> str:
    with Both.begun(at) as both:
        wire = _to_zookeeper(both.ways(both.leader))
        wire.door("half_open")
        wire.reset()
        took = both.taken_over()
        wire.restore()
        wire.reset()
        return f"the other led after {took:.1f} s; {both.at_rest()}"


@fault("zookeeper.reset", "both workers' connections to ZooKeeper are reset, five times")
def reset(at: Scene) -> str:
    with Both.begun(at) as both:
        for _ in range(5):
            at.pause(0.3, 1.2)
            for ways in at.servers.ways:
                _to_zookeeper(ways).reset()
        took = both.somebody(later=False)
        return f"recovered in {took:.1f} s; {both.at_rest()}"


@fault("zookeeper.slow", "both workers' links to ZooKeeper have 400 ms more latency each way")
def slow(at: Scene) -> str:
    with Both.begun(at) as both:
        for ways in at.servers.ways:
            for way in _BOTH_WAYS:
                _to_zookeeper(ways).way(way, latency=0.4)
        at.pause(PAST, PAST + 3)
        took = both.somebody(later=False)
        at.servers.restore()
        return f"recovered in {took:.1f} s; {both.at_rest()}"


@fault("zookeeper.standby-cut", "the standby's link to ZooKeeper is held past its session timeout")
def standby_cut(at: Scene) -> str:
    with Both.begun(at) as both:
        wire = _to_zookeeper(both.ways(both.standby))
        for way in _BOTH_WAYS:
            wire.way(way, held=True)
        at.pause(PAST, PAST + 2)
        at.wait_recovered(both.leader)
        assert both.epoch_of(both.leader) == both.epoch, "the leader did not continue in its epoch"
        wire.restore()
        wire.reset()
        return both.at_rest()


@fault("zookeeper.restart", "an orderly restart of ZooKeeper under load")
def restart(at: Scene) -> str:
    with Both.begun(at) as both:
        server = at.servers.stack.zookeeper_server
        server.stop()
        at.pause(0.2, 1)
        server.start()
        took = both.somebody(later=False)
        return f"recovered in {took:.1f} s; {both.at_rest()}"


@fault("zookeeper.killed", "kill -9 of ZooKeeper, which stays down past the session timeout")
def killed(at: Scene) -> str:
    with Both.begun(at) as both:
        server = at.servers.stack.zookeeper_server
        server.kill()
        both.nobody(seconds=2 * SESSION)
        before = len(at.topics().records)
        at.pause(SESSION, SESSION + 2)
        assert len(at.topics().records) == before, "somebody published without ZooKeeper"
        server.start()
        took = both.somebody()
        return f"no worker led meanwhile; recovered in {took:.1f} s; {both.at_rest()}"


@fault("zookeeper.wiped", "kill -9 of ZooKeeper, which is restarted with no nodes")
def wiped(at: Scene) -> str:
    with Both.begun(at) as both:
        server = at.servers.stack.zookeeper_server
        server.kill()
        shutil.rmtree(at.servers.stack.run_dir / "zookeeper" / "data")
        server.start()
        took = both.somebody()
        return f"recovered in {took:.1f} s, in a later epoch; {both.at_rest()}"


@fault("zookeeper.node-deleted", "the leader's node is deleted by hand")
def node_deleted(at: Scene) -> str:
    with Both.begun(at) as both:
        with both.hand() as client:
            client.delete(both.node)
        took = both.somebody()
        return f"recovered in {took:.1f} s, in a later epoch; {both.at_rest()}"


@fault(
    "zookeeper.nodes-deleted", "all nodes of the installation are deleted by hand, with its root"
)
def nodes_deleted(at: Scene) -> str:
    with Both.begun(at) as both:
        with both.hand() as client:
            _delete_all(client, both.root)
        took = both.somebody()
        return f"recovered in {took:.1f} s, in a later epoch; {both.at_rest()}"


@fault(
    "zookeeper.node-edited",
    "an earlier epoch, then garbage, is written into the leader's node by hand",
)
def node_edited(at: Scene) -> str:
    with Both.begun(at) as both:
        with both.hand() as client:
            value = orjson.loads(client.get(both.node)[0])
            client.set(both.node, orjson.dumps({**value, "epoch": 1, "worker": "nobody"}))
            at.pause(1, 2)
            client.set(both.node, _GARBAGE)
            at.pause(6, 7)
        took = both.somebody(later=False)
        return f"recovered in {took:.1f} s; {both.at_rest()}"


@fault("zookeeper.node-forged", "the leader's node is replaced by a persistent node by hand")
def node_forged(at: Scene) -> str:
    with Both.begun(at) as both:
        with both.hand() as client:
            client.delete(both.node)
            _put(client, both.node, _GARBAGE)
            both.nobody()
            at.wait(lambda: _why(at).startswith("NodeUnfit"), "does not say NodeUnfit")
            error = _why(at).partition(":")[0]
            before = len(at.topics().records)
            at.pause(3, 4)
            assert len(at.topics().records) == before, "it is published all the same"
            client.delete(both.node)
        took = both.somebody()
        return f"refused: {error}; without it recovered in {took:.1f} s; {both.at_rest()}"


@fault(
    "zookeeper.ghosts",
    "candidates' nodes are deleted by hand, and nodes of nonexistent candidates created",
)
def ghosts(at: Scene) -> str:
    with Both.begun(at) as both:
        below = f"{both.root}/destinations/{DESTINATION}/cluster"
        with both.hand() as client:
            for name in ("aaa", "worker-0", "zzz"):
                client.create(f"{below}/{name}", _GARBAGE)
            for name in ("worker-1", "worker-2"):
                client.delete(f"{below}/{name}")
            client.delete(both.node)
            at.pause(6, 7)
            took = both.somebody()
            for name in ("aaa", "worker-0", "zzz"):
                client.delete(f"{below}/{name}")
        return f"led nevertheless, in {took:.1f} s; {both.at_rest()}"


@fault(
    "zookeeper.root-edited", "another prefix is written into the root by hand, and a worker starts"
)
def root_edited(at: Scene) -> str:
    with Both.begun(at) as both:
        with both.hand() as client:
            mine = client.get(both.root)[0]
            client.set(both.root, b"another")
            both.standby.kill()
            at.wait(lambda: _coordination(at, both).startswith("NodeUnfit"), "is not refused")
            error = _coordination(at, both).partition(":")[0]
            at.wait_recovered(both.leader)
            client.set(both.root, mine)
        return f"the joining worker is refused: {error}; the leader continues; {both.at_rest()}"


@fault("zookeeper.acl", "all nodes are given to another account by hand, then given back")
def acl(at: Scene) -> str:
    with Both.begun(at) as both, both.hand() as client:
        client.add_auth("digest", "another:secret")
        _own(client, both.root, [make_digest_acl("another", "secret", all=True)])
        both.nobody()
        error = _coordination(at, both).partition(":")[0]
        before = len(at.topics().records)
        at.pause(3, 4)
        assert len(at.topics().records) == before, "somebody published without ZooKeeper"
        _own(client, both.root, OPEN_ACL_UNSAFE)
        took = both.somebody()
        return f"no worker led, {error} meanwhile; recovered in {took:.1f} s; {both.at_rest()}"


def _own(client: KazooClient, path: str, acls: list[ACL]) -> None:
    """Let only these do anything with a node and all below it; nodes come and go meanwhile."""
    with contextlib.suppress(NoNodeError):
        client.set_acls(path, acls)
        for name in client.get_children(path):
            _own(client, f"{path}/{name}", acls)


def _to_zookeeper(ways: Ways) -> Wire:
    assert ways.zookeeper is not None
    return ways.zookeeper


def _why(at: Scene) -> str:
    """The reason why a worker does not lead."""
    status_found = [
        str(at.status(one).get("leader", {}).get("why_not") or "") for one in at.workers
    ]
    return max(status_found)


def _coordination(at: Scene, both: Both) -> str:
    """The standby's coordination error."""
    return str((at.page(both.standby).get("coordination") or {}).get("error") or "")


def _put(client: KazooClient, path: str, data: bytes) -> None:
    """Creates a persistent node, in place of one that a worker may create first."""
    for _ in range(50):
        if not client.exists(path):
            client.create(path, data)
            return
        client.delete(path)
    raise AssertionError("the workers were quicker, always")


def _delete_all(client: KazooClient, path: str) -> None:
    """Deletes a tree in which others continue to create nodes."""
    for _ in range(50):
        try:
            client.delete(path, recursive=True)
        except NoNodeError:
            return
        except Exception:
            continue
        return
