"""A merge of two servers, of which one has purged changes that were not read: its rows alone are replaced."""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.pair import Pair
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.integration.process.test_merge import SHARDS, Shards, check_each_once, merge_of
from tests.integration.process.test_merge_snapshot import (
    EXISTING,
    Changing,
    are_done,
    fill,
    has_all,
    merged,
    settings,
    snapshot_of,
)

FIRST = EXISTING[0]
UNREAD = -77
"""What rows have by an update that no worker has read before the purge."""
KILLS = ("claim.after", "snapshot.committed", "commit.before")
"""Where a worker is killed after the purge: once the new beginning is committed, and within the rows."""


@pytest.mark.long("test_snapshot_commands.py has rows replaced after a purge, of one source")
def test_after_a_purge_at_one_shard_its_rows_are_replaced_and_the_others_stay_in_order(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_mysql(stack, options={"server_id": 9, "binlog_expire_logs_seconds": 0}) as west:
        shards = Shards(stack.mysql, west=west)
        fill(shards)
        wanted = settings(shards, stack, tmp_path, stalled="wait", stalled_after_seconds=60)
        for shard in SHARDS:
            wanted["destinations"][shard]["snapshot"]["mode"] = "when_needed"
        prefix = str(wanted["prefix"])
        with Pair(wanted, tmp_path) as pair:
            pair.start("one")
            with Changing(shards):
                pair.until(lambda: are_done(pair))
            pair.until(lambda: has_all(stack, prefix, shards))
            pair.end("one", signal.SIGTERM)
            before = merged(stack, prefix)
            change_unread(shards, west)
            with Changing(shards):
                for fault in KILLS:
                    killed(pair, monkeypatch, fault)
                pair.start("one")
                pair.until(lambda: snapshot_of(pair, "west").get("state") == "done")
            pair.until(lambda: has_all(stack, prefix, shards))
            pair.until(lambda: bool(merge_of(pair)))
            assert merge_of(pair)["late"] == 0
            assert snapshot_of(pair, "east")["state"] == "done"
            pair.end("one", signal.SIGTERM)
            assert "Traceback" not in pair.workers["one"].log
        check_each_once(stack, prefix)
        check_replaced(before, merged(stack, prefix))


def killed(pair: Pair, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Start a worker that is killed at this failpoint."""
    passes = 4 if fault.startswith("commit") else 2
    with monkeypatch.context() as faults:
        faults.setenv(VARIABLE, f"{fault}=kill@{passes}")
        worker = pair.start("one")
    pair.until(lambda: worker.process.poll() == -signal.SIGKILL)


def change_unread(shards: Shards, west: Mysql) -> None:
    """Change rows of both while no worker reads them; of one, no binlog has that any more."""
    for shard, database in shards.databases.items():
        run(
            shards.servers[shard],
            f"UPDATE {database}.orders SET x = {UNREAD} WHERE id < {FIRST + 500}",
            f"DELETE FROM {database}.orders WHERE id BETWEEN {FIRST + 600} AND {FIRST + 699}",
            f"INSERT INTO {database}.orders VALUES (5, 5)",
            f"DELETE FROM {database}.orders WHERE id = {EXISTING[-1]}",
        )
    run(west, "FLUSH BINARY LOGS")
    files = [name for name, *_ in ask(west, "SHOW BINARY LOGS")]
    run(west, f"PURGE BINARY LOGS TO '{files[-1]}'")
    assert len(ask(west, "SHOW BINARY LOGS")) == 1


def check_replaced(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    """Rows of the one came again, once, after the record that they are gone; those of the other did not."""
    ops = {shard: Counter(one["op"] for one in of(shard, after)) for shard in SHARDS}
    assert (ops["west"]["t"], ops["east"]["t"]) == (1, 0)
    assert ops["east"]["r"] == Counter(one["op"] for one in of("east", before))["r"]
    west = of("west", after)
    emptied = next(n for n, one in enumerate(west) if one["op"] == "t")
    # Changes since the new beginning may come before that record; those that were purged do not come.
    assert emptied >= len(of("west", before))
    changes = {shard: [one for one in of(shard, after) if one["op"] == "u"] for shard in SHARDS}
    unread = {shard: sum(one["after"]["x"] == UNREAD for one in changes[shard]) for shard in SHARDS}
    assert unread["west"] == 0 < unread["east"]
    read = [one["key"] for one in west[emptied:] if one["op"] == "r"]
    assert len(EXISTING) // 4 < len(read) == len(set(read))
    for shard in SHARDS:
        last = dict[bytes, dict[str, Any]]()
        for one in of(shard, after):
            if one["op"] == "t":
                last.clear()
            elif one["op"] == "r" and one["key"] in last:
                assert last[one["key"]]["after"] == one["after"]
            last[one["key"]] = one
    check_order(after)


def of(shard: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of a shard in its order."""
    own = [one for one in found if one["source"]["name"] == shard]
    return sorted(own, key=lambda one: int(one["source"]["seq"]))


def check_order(found: list[dict[str, Any]]) -> None:
    """Check that records of both are by time in each partition.

    What follows a record in its own shard is as late as that: the record that all rows are gone has the time at
    which it was made, and changes after it may be earlier.
    """
    parts: dict[int, list[tuple[str, int]]] = {}
    latest: dict[tuple[int, str], int] = {}
    for one in found:
        lane = one["partition"], one["source"]["name"]
        latest[lane] = max(latest.get(lane, 0), one["source"]["ts_ms"])
        parts.setdefault(one["partition"], []).append((lane[1], latest[lane]))
    for part in parts.values():
        assert {name for name, _ in part} == set(SHARDS)
        late = [(a, b) for a, b in itertools.pairwise(part) if a[1] > b[1]]
        assert not late, late[:3]
