"""The benchmark of rows that exist already: what it verifies, measures beside it, and prints."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.existing_rows import STATEMENT_ROWS, ExistingRows, Read
from bench.peers.aqueduct import Aqueduct
from bench.peers.peer import Task
from bench.probe import Beat, Beats, percentile
from bench.report import Pair
from bench.run import Result
from bench.servers import Servers
from bench.snapshot import Client, last_line
from tests.unit.bench.test_report import result


def beat(at: float, read: float = 0.001, written: float = 0.002) -> Beat:
    return Beat(at=at, read=read, written=written, committed=at + read + written)


def test_every_key_has_to_be_there_once() -> None:
    wanted = Read.of(3)

    def of(*numbers: int, op: str = "r") -> Read:
        found = Read()
        for number in numbers:
            found.add(b'{"id":%d}' % number, b'{"before":null,"op":"%s"}' % op.encode())
        return found

    assert of(2, 3, 1) == wanted
    for wrong in (of(1, 2), of(1, 2, 2), of(1, 1, 4), of(1, 2, 3, 3), of(1, 2, 3, op="c")):
        assert wrong != wanted


def test_one_table_has_a_client_beside_it_and_the_others_have_as_many_rows_each() -> None:
    one, many = (one.recipe for one in ExistingRows(rows=1_000, tables=3).workloads())
    assert (one.rows, one.tables, one.beside) == (1_000, ("orders1",), ("probe",))
    assert (many.rows, many.tables) == (3 * STATEMENT_ROWS, ("small1", "small2", "small3"))


def test_our_destination_begins_with_the_rows_that_exist(tmp_path: Path) -> None:
    workload, _ = ExistingRows(rows=1_000, tables=1).workloads()
    servers = cast(Servers, SimpleNamespace(mysql_host="h", mysql_port=1, kafka="h:2"))
    task = Task(
        workload=workload, partitions=1, prefix="p", folder=tmp_path, server_id=7, servers=servers
    )
    Aqueduct(existing=True).program(task)
    text = (tmp_path / "aqueduct.yaml").read_text()
    assert "mode: initial" in text
    assert "start:" not in text
    assert r"bench\.(orders1|probe)" in text


def test_beats_of_a_time_keep_their_own_records() -> None:
    beats = Beats([beat(float(n)) for n in range(6)], {1: 1.5, 3: 3.103, 4: 4.203})
    found = beats.between(2.0, 5.0)
    assert [one.at for one in found.all] == [2.0, 3.0, 4.0]
    assert found.lags == pytest.approx([0.1, 0.2])
    assert percentile([3, 1, 2], 50) == 2
    assert percentile([*range(100)], 99) == 98
    assert percentile([], 99) == 0


def test_the_client_is_compared_with_itself_before_the_start() -> None:
    calm = [beat(float(n), read=0.001, written=0.002) for n in range(10)]
    busy = [beat(20.0 + n, read=0.003, written=0.004) for n in range(10)]
    made = run("aqueduct", "one", 100.0, first_at=20.0, startup_seconds=5.0, seconds=10.0)
    client = Client.of(Beats([*calm, *busy], {12: 22.107}), made)
    assert client.ratio == pytest.approx(3)
    assert (client.visible, client.updates) == (1, 10)
    assert client.lag_p99 == pytest.approx(0.1)
    assert "p99 of SELECT 3.00 ms (alone 1.00), of UPDATE 4.00 ms (alone 2.00)" in client.to_text()


def test_the_last_line_has_medians_of_pairs_and_of_our_client() -> None:
    pairs = [
        Pair(run("aqueduct", name, ours, peak_mib=peak), run("debezium", name, 10.0))
        for name, ours, peak in (("one", 30.0, 170.0), ("one", 50.0, 150.0), ("one", 40.0, 160.0),
                                 ("many", 20.0, 900.0))
    ]  # fmt: skip
    clients = [client("aqueduct", 2.0), client("aqueduct", 3.0), client("aqueduct", 9.0)]
    clients += [client("debezium", 100.0)] * 5
    wanted = "bench-snapshot: ratio=4.00 ratio_tables=2.00 rss_mib=170 probe=3.00"
    assert last_line(pairs, clients) == wanted


def run(peer: str, workload: str, rows_per_second: float, **more: Any) -> Result:
    return dataclasses.replace(result(peer, workload, rows_per_second), **more)


def client(peer: str, ratio: float) -> Client:
    return Client(
        peer=peer,
        read_ms=1.0,
        read_calm_ms=1.0,
        written_ms=ratio,
        written_calm_ms=1.0,
        updates=1,
        visible=1,
        lag_p50=0.0,
        lag_p99=0.0,
    )
