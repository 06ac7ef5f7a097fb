"""Back to the first source, one that writes its heartbeats, one that has purged; an operator acts meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from devstack import Stack
from devstack.mysql import Mysql
from tests.crash.links import Wire, proxy
from tests.harness.sql import ask
from tests.harness.topics import rows
from tests.harness.wait import until
from tests.harness.worker import Worker, running
from tests.integration.failover.servers import Pair, Writer, follow, insert, notes, pair, promote
from tests.integration.failover.setting import has_rows, two_sources

_BEAT = (
    "INSERT INTO ops.beat (id, n, at) VALUES (1, 1, NOW(6)) "
    "ON DUPLICATE KEY UPDATE n = n + 1, at = NOW(6)"
)
_LOSE = ("--yes-lose-changes", "--why", "a test")


@pytest.mark.long("the units of sources have the steps")
def test_the_first_source_is_gone_back_to_and_only_who_may_is_written_to(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pair(stack, tmp_path.name) as both, proxy(tmp_path) as links:
        wire = links.link("mysql", both.master.host, both.master.port)
        given = _settings(stack, both, wire, tmp_path)
        _prepare(both)
        with running(given, tmp_path) as worker:
            _is_read(worker, wire.port)
            insert(both.master, "one", "two")
            has_rows(worker, 2)
            until(lambda: _beats(both.master) > 1)
            _demoted(both, worker)
            confirmed = _gone_back(both, worker, wire)
            assert worker.stop() == 0
        assert notes(stack, given["prefix"]) == ["one", "two", "three", *confirmed]
        kept = _purged(both)
        wire.door("refuse")
        with running(given, tmp_path) as worker:
            _is_read(worker, both.master.port)
            refused = {one["address"]: one["refused"] for one in worker.destination()["sources"]}
            assert refused[f"127.0.0.1:{both.standby.port}"].startswith("PositionPurged: ")
            assert f"127.0.0.1:{both.standby.port}: The server has purged" in worker.log
            has_rows(worker, 2)
            expected = ["one", "two", "three", *confirmed, "purged", "kept"]
            assert notes(stack, given["prefix"]) == expected
            monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
            # With that read, nothing of it is needed there any more.
            _is_read(worker, both.standby.port)
            _commanded(both, worker, kept, capsys)
            assert worker.stop() == 0
            assert "FENCED" not in worker.log
        _asked_elsewhere(both, capsys)
        found = [change.value["after"]["note"] for change in rows(stack, given["prefix"], "t")]
        assert found == [*expected, "kept", "behind"]


def _settings(stack: Stack, both: Pair, wire: Wire, folder: Path) -> dict[str, Any]:
    """The master through a link, its standby, and the master once more by itself; a leader by ZooKeeper."""
    given = two_sources(stack, both, folder, back=True, back_after_seconds=2)
    shop = given["destinations"]["shop"]
    first = shop["sources"][0]
    shop["sources"].insert(0, {**first, "port": wire.port})
    shop["sources"][1:] = [shop["sources"][2], first]
    shop["failover"]["heartbeat"]["sql"] = _BEAT
    given["zookeeper"] = {"hosts": stack.zookeeper, "root": f"/{given['prefix']}"}
    return given


def _prepare(both: Pair) -> None:
    ask(
        both.master,
        "CREATE DATABASE ops",
        "CREATE TABLE ops.beat (id int PRIMARY KEY, n int, at timestamp(6))",
        "GRANT INSERT, UPDATE ON ops.* TO 'aqueduct'@'%'",
        # So it may write to a read-only server, too.
        "GRANT CONNECTION_ADMIN ON *.* TO 'aqueduct'@'%'",
    )
    ask(both.standby, "SET GLOBAL read_only = ON")


def _beats(server: Mysql) -> int:
    found = ask(server, "SELECT n FROM ops.beat")
    return int(found[0][0]) if found else 0


def _is_read(worker: Worker, port: int) -> None:
    def is_so(status: dict[str, Any]) -> bool:
        read = [one["address"] for one in status["sources"] if one["is_read"]]
        return status["state"] == "RUNNING" and [one.endswith(f":{port}") for one in read] == [True]

    worker.wait(is_so)


def _demoted(both: Pair, worker: Worker) -> None:
    """A planned switch: the standby takes writes, the master takes none any more."""
    both.caught_up()
    ask(both.master, "SET GLOBAL super_read_only = ON")
    until(lambda: _executed(both.master) == _executed(both.standby))
    promote(both.standby)
    ask(both.standby, "SET GLOBAL read_only = OFF")
    insert(both.standby, "three")
    _is_read(worker, both.standby.port)
    assert "SourceSilent" in worker.log
    assert "it has become read-only" in worker.log
    has_rows(worker, 3)
    before = _beats(both.standby)
    until(lambda: _beats(both.standby) > before)


def _gone_back(both: Pair, worker: Worker, wire: Wire) -> list[str]:
    """The old master follows; what was written meanwhile."""
    # It lacks what was published, so nothing led back to it until now.
    assert _switches(worker) == 1
    with Writer(both.standby, "w") as writer:
        writer.until(20)
        follow(both.master, both.standby)
        _is_read(worker, wire.port)
        # It stays there, and writes nothing of its own there.
        writer.until(len(writer.confirmed) + 100)
        beats = _beats(both.standby)
        writer.until(len(writer.confirmed) + 100)
    has_rows(worker, 3 + len(writer.confirmed))
    assert (_beats(both.standby), _switches(worker)) == (beats, 2)
    until(lambda: _executed(both.master) == _executed(both.standby))
    return writer.confirmed


def _switches(worker: Worker) -> int:
    result = worker.get("/metrics").partition('aqueduct_source_switches_total{destination="shop"} ')
    return int(float(result[2].split()[0]))


def _executed(server: Mysql) -> str:
    return str(ask(server, "SELECT @@GLOBAL.gtid_executed")[0][0])


def _purged(both: Pair) -> str:
    """Purges an unread transaction that only the replica still has; returns the first position still kept."""
    insert(both.standby, "purged")
    ask(both.standby, "FLUSH BINARY LOGS")
    last = ask(both.standby, "SHOW BINARY LOGS")[-1][0]
    ask(both.standby, f"PURGE BINARY LOGS TO '{last}'")
    executed = _executed(both.standby)
    insert(both.standby, "kept")
    both.caught_up()
    return executed


def _commanded(both: Pair, worker: Worker, kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands ask the source that is read, though the first of the settings is dead."""

    def said(*words: str) -> str:
        capsys.readouterr()
        code = main(["cursor", *words])
        output = capsys.readouterr()
        assert (code, output.err) == (0, ""), output.err
        return output.out

    position = json.loads(said("show", "shop", "--format", "json"))
    assert position["source"]["address"] == f"127.0.0.1:{both.standby.port}"
    assert "it is fit again, and comes before" in position["source"]["why"]
    epoch = worker.destination()["cursor"]["epoch"]
    assert "back: " in said("set", "shop", "--gtid", kept, *_LOSE)
    worker.wait(lambda status: status["cursor"]["epoch"] > epoch + 1 and status["rows"] == 3)
    gtid = f"{ask(both.standby, 'SELECT @@server_uuid')[0][0]}:1000000"
    said("skip", "shop", "--gtid", gtid, *_LOSE)
    skipped = "INSERT INTO shop.t (x, note) VALUES (1, 'skipped')"
    ask(both.standby, f"SET gtid_next = '{gtid}'", skipped)
    insert(both.standby, "behind")
    worker.wait(lambda status: status["rows"] == 4)
    (export := Path(f"{worker.log_file}.json")).write_text(said("export", "shop"))
    epoch = worker.destination()["cursor"]["epoch"]
    said("import", "shop", str(export), *_LOSE)
    worker.wait(
        lambda status: status["state"] == "RUNNING" and status["cursor"]["epoch"] > epoch + 1
    )
    assert _switches(worker) == 2


def _asked_elsewhere(both: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """With the server read before dead too, the next one is queried and selected."""
    both.caught_up()
    both.standby.kill()
    executed, other = _executed(both.master).replace("\n", ""), f"127.0.0.1:{both.master.port}"
    capsys.readouterr()
    assert main(["cursor", "set", "shop", "--gtid", executed, *_LOSE]) == 0
    output = capsys.readouterr().err
    assert f"127.0.0.1:{both.standby.port} does not answer, asking {other} instead" in output
    assert main(["cursor", "show", "shop"]) == 0
    assert f"source      {other} since" in capsys.readouterr().out
