"""`python -m app snapshot …`, the signal table and the modes, beside a real worker that publishes changes."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, connected, run
from tests.harness.topics import Change, rows
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings

Say = Callable[..., tuple[int, str, str]]
ROWS = 4_000
SLOW = {"rows_per_second": 200}
"""So slow that a request meets the reading in its middle."""


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command; its exit code and what it printed."""
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    monkeypatch.setenv("USER", "anna")

    def said(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*words])
        output = capsys.readouterr()
        return code, output.out, output.err

    return said


@pytest.fixture
def filled(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own with some thousand rows."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, region varchar(9), v int)",
        "CREATE TABLE shop.u (id int PRIMARY KEY)",
        "CREATE TABLE shop.signals (id varchar(42) PRIMARY KEY, type varchar(32), data text)",
        "SET SESSION cte_max_recursion_depth = 100000",
        "INSERT INTO shop.t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n "
        f"WHERE i < {ROWS}) SELECT i, IF(i % 3, 'EU', 'US'), 0 FROM n",
        "INSERT INTO shop.u VALUES (1), (2)",
        options={"server_id": 9, "binlog_expire_logs_seconds": 0},
    ) as made:
        yield made


def wanted_settings(stack: Stack, mysql: Mysql, folder: Path, **snapshot: Any) -> dict[str, Any]:
    wanted = settings(stack, mysql, folder, snapshot=snapshot)
    wanted["destinations"]["shop"].pop("start")
    return wanted


def published(stack: Stack, wanted: dict[str, Any], table: str = "t") -> list[Change]:
    return rows(stack, wanted["prefix"], table)


def read_ids(changes: list[Change]) -> list[int]:
    return [one.value["after"]["id"] for one in changes if one.value["op"] == "r"]


def begun(stack: Stack, mysql: Mysql, wanted: dict[str, Any], worker: Worker) -> None:
    """Wait until the stream is published."""
    worker.wait(lambda status: status["state"] == "RUNNING")
    run(mysql, f"UPDATE shop.t SET v = 1 WHERE id = {ROWS}")
    until(lambda: bool(published(stack, wanted)), late=lambda: worker.log[-3000:])


def state_of(status: dict[str, Any], table: str = "shop.t") -> str | None:
    state: str | None = status["snapshot"].get(table, {}).get("state")
    return state


def test_a_table_is_read_at_an_operators_request_paused_and_resumed(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, **SLOW)
    with running(wanted, tmp_path) as worker:
        begun(stack, filled, wanted, worker)
        code, out, err = say("snapshot", "start", "shop", "shop.t", "shop.u")
        assert code == 0, err
        assert {line.split(":")[0] for line in out.splitlines()} == {"shop.t", "shop.u"}
        worker.wait(lambda status: bool(status["snapshot"].get("shop.t", {}).get("rows")))
        code, _, err = say("snapshot", "start", "shop", "shop.t")
        assert (code, "is being read already: shop.t" in err) == (2, True), err

        code, out, _ = say("snapshot", "pause", "shop")
        assert (code, "shop.t: paused" in out) == (0, True), out
        held = worker.destination()["snapshot"]["shop.t"]
        assert 0 < held["rows"] < ROWS
        code, out, _ = say("snapshot", "status", "shop")
        assert (code, "paused" in out, f"{held['rows']:,}" in out) == (0, True, True), out

        # A new run keeps the pause.
        assert say("destination", "restart", "shop")[0] == 0
        assert state_of(worker.destination()) == "paused"
        code, out, _ = say("snapshot", "resume", "shop", "shop.t")
        assert (code, "shop.t: reading" in out) == (0, True), out
        code, out, _ = say("snapshot", "status", "shop", "--watch", "--format", "json")
        assert code == 0
        last = json.loads("{" + out.rpartition("\n{")[2]) if "\n{" in out else json.loads(out)
        assert last["tables"]["shop.t"]["state"] == "done"
        assert 0.5 * ROWS < last["tables"]["shop.t"]["estimated_rows"] < 2 * ROWS
        assert worker.stop() == 0
    changes = published(stack, wanted)
    assert Counter(read_ids(changes)) == Counter(range(1, ROWS + 1))
    assert [one.seq for one in changes] == sorted({one.seq for one in changes})


def test_a_stopped_one_ends_and_a_condition_chooses_rows(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, **SLOW)
    with running(wanted, tmp_path) as worker:
        begun(stack, filled, wanted, worker)
        assert say("snapshot", "start", "shop", "--all")[0] == 0
        worker.wait(lambda status: bool(status["snapshot"].get("shop.t", {}).get("rows")))
        code, out, _ = say("snapshot", "stop", "shop", "shop.t")
        assert (code, "shop.t: stopped" in out) == (0, True), out
        stopped = len(read_ids(published(stack, wanted)))
        assert stopped < ROWS
        for where, reason in (
            ("regoin = 'EU'", "Unknown column 'regoin'"),
            ("id = 1) OR (1 = 1", "error in your SQL syntax"),
        ):
            code, _, err = say("snapshot", "start", "shop", "shop.t", "--where", where)
            assert (code, reason in err, "shop.t" in err) == (2, True, True), err
            assert "Traceback" not in err
        code, _, err = say(
            "snapshot", "start", "shop", "--where", "region = 'US' AND id <= 300 -- few", "shop.t"
        )
        assert code == 0, err
        worker.wait(lambda status: state_of(status) == "done")
        assert worker.stop() == 0
    again = read_ids(published(stack, wanted))[stopped:]
    assert again == [n for n in range(1, 301) if n % 3 == 0]


def test_a_stop_is_answered_once_the_worker_has_ended_the_reading_so_that_a_start_may_follow(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, **SLOW)

    def change(stop: threading.Event) -> None:
        # Records of other changes come into the journal between the requests and their answers.
        for number in itertools.count():
            run(filled, f"UPDATE shop.t SET v = {number} WHERE id = {ROWS}")
            if stop.wait(0.02):
                return

    with running(wanted, tmp_path) as worker:
        begun(stack, filled, wanted, worker)
        with beside(change):
            for _ in range(5):
                code, out, err = say("snapshot", "start", "shop", "shop.t", "--no-wait")
                assert (code, "shop.t: start recorded" in out) == (0, True), out + err
                code, out, err = say("snapshot", "stop", "shop", "shop.t")
                assert (code, "shop.t: stopped" in out) == (0, True), out + err
                assert state_of(worker.destination()) == "stopped"
        code, _, err = say("snapshot", "start", "shop", "shop.t", "--where", "id <= 200")
        assert code == 0, err
        worker.wait(lambda status: state_of(status) == "done")
        assert worker.stop() == 0


def replace_rows(worker: Worker, say: Say) -> None:
    code, _, err = say("snapshot", "start", "shop", "shop.t", "--replace")
    assert code == 0, err
    worker.wait(lambda status: state_of(status) == "done")


def test_replaced_rows_are_judged_by_the_audit_and_equal_to_the_source(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="initial")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: {state_of(status), state_of(status, "shop.u")} == {"done"})
        run(filled, "DELETE FROM shop.t WHERE id % 5 = 0")
        replace_rows(worker, say)
        code, out, err = say("audit", "shop")
        assert code in (0, 3), out + err

        # A server may change with nothing in its binlog.
        run(
            filled,
            "SET SESSION sql_log_bin = 0",
            "DELETE FROM shop.t WHERE id BETWEEN 31 AND 34",
            "UPDATE shop.t SET v = 3 WHERE id IN (41, 42, 43)",
            "INSERT INTO shop.t VALUES (200001, 'EU', 1), (200002, 'EU', 1)",
        )
        code, out, err = say("validate", "shop", "shop.t", "--repair")
        assert (code, "missing=2 extra=4 different=3" in out) == (1, True), out
        assert "shop.t: 5 row(s) published again, 4 extra row(s) deleted" in err
        code, out, _ = say("validate", "shop", "shop.t")
        assert (code, "missing=0 extra=0 different=0" in out) == (0, True), out
        replace_rows(worker, say)
        code, out, err = say("validate", "shop", "--format", "json")
        assert (code, json.loads(out)["differences"]) == (0, 0), out + err
        assert worker.stop() == 0
    changes = published(stack, wanted)
    assert Counter(one.value["op"] for one in changes)["t"] == 2
    assert_equal(stack, filled, wanted)


def test_what_cannot_be_asked_is_refused_with_the_reason(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    wanted["destinations"]["shop"]["filter"] = {"include": r"shop\.t,shop\.log"}
    run(filled, "CREATE TABLE shop.log (v int)")
    with running(wanted, tmp_path) as worker:
        begun(stack, filled, wanted, worker)
        for words, reason in (
            (("start", "shop", "shop.u"), "table shop.u is not captured by this destination"),
            (("start", "shop", "shop.x"), "table shop.x does not exist"),
            (("start", "shop"), "name the tables to read, or give --all"),
            (("start", "shop", "shop.t", "--all"), "name the tables to read, or give --all"),
            (("start", "shop", "--all", "--replace", "--where", "1"), "leave out --where"),
            (("start", "shop", "shop.log", "--where", "v = 1"), "shop.log has no primary key"),
            (("pause", "shop"), "there is no snapshot to pause"),
            (("resume", "shop", "shop.t"), "cannot resume table shop.t: it has no snapshot"),
        ):
            code, _, err = say("snapshot", *words)
            assert (code, reason in err) == (2, True), err
        assert say("snapshot", "status", "shop")[1] == "no table's existing rows were read\n"
        assert worker.stop() == 0


def test_rows_of_the_signal_table_are_requests(stack: Stack, filled: Mysql, tmp_path: Path) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, signal_table="shop.signals")

    def signal(name: str, kind: str, data: object) -> None:
        run(filled, f"INSERT INTO shop.signals VALUES ('{name}', '{kind}', '{json.dumps(data)}')")

    with running(wanted, tmp_path) as worker:
        begun(stack, filled, wanted, worker)
        signal("odd", "execute-snapshot", {"data-collections": ["("]})
        signal("none", "execute-snapshot", {"data-collections": ["shop.x"]})
        condition = {"data-collection": "shop.t", "filter": "id <= 3"}
        data = {"data-collections": [r"shop\\.[tu]"], "additional-conditions": [condition]}
        signal("4111 1111", "execute-snapshot", data)
        worker.wait(lambda status: {state_of(status), state_of(status, "shop.u")} == {"done"})
        assert worker.stop() == 0
        assert "is passed by, as of its data, character 1 of an expression is" in worker.log
        assert "(start) concerns no table" in worker.log
        assert re.search(r"snapshot start of shop\.t, as a signal after \S+ requested", worker.log)
        assert "4111 1111" not in worker.log
    assert read_ids(published(stack, wanted)) == [1, 2, 3]
    assert read_ids(published(stack, wanted, "u")) == [1, 2]
    assert len(published(stack, wanted, "signals")) == 3


def fold(changes: list[Change]) -> dict[int, int]:
    """A subscriber's table."""
    found: dict[int, int] = {}
    for one in changes:
        op, after, before = one.value["op"], one.value["after"], one.value["before"]
        if op == "t":
            found.clear()
        elif op == "d":
            del found[before["id"]]
        else:
            found[after["id"]] = after["v"]
    return found


def purge_what_was_missed(mysql: Mysql) -> None:
    """Changes that no worker reads, and no binlog has any more."""
    run(
        mysql,
        "DELETE FROM shop.t WHERE id % 2",
        "UPDATE shop.t SET v = 7 WHERE id < 100",
        "DROP TABLE shop.u",
        "INSERT INTO shop.t VALUES (100001, 'EU', 8)",
        "FLUSH BINARY LOGS",
    )
    (last,) = ask(mysql, "SHOW BINARY LOGS")[-1:]
    run(mysql, f"PURGE BINARY LOGS TO '{last[0]}'")


def assert_equal(stack: Stack, mysql: Mysql, wanted: dict[str, Any]) -> None:
    source = {int(one): int(v) for one, v in ask(mysql, "SELECT id, v FROM shop.t")}
    assert fold(published(stack, wanted)) == source


@pytest.mark.remedy("PositionPurged")
def test_after_a_purge_all_rows_are_replaced_by_an_explicit_word(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="initial")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: {state_of(status), state_of(status, "shop.u")} == {"done"})
        assert worker.stop() == 0
    purge_what_was_missed(filled)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "FAILED")
        error = worker.destination()["error"]
        assert "PositionPurged" in error
        assert "--latest --with-snapshot" in error
        code, _, err = say(
            "cursor", "set", "shop", "--latest", "--with-snapshot", "--why", "purged",
            "--yes-lose-changes",
        )  # fmt: skip
        assert code == 0, err
        worker.wait(lambda status: state_of(status, "shop.u") == "gone")
        worker.wait(lambda status: state_of(status) == "done")
        assert worker.stop() == 0
    assert_equal(stack, filled, wanted)
    assert fold_of_ids(published(stack, wanted, "u")) == []


def fold_of_ids(changes: list[Change]) -> list[int]:
    found: list[int] = []
    for one in changes:
        if one.value["op"] == "t":
            found.clear()
        else:
            found.append(one.value["after"]["id"])
    return found


def test_when_needed_replaces_all_rows_after_a_purge(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="when_needed")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: {state_of(status), state_of(status, "shop.u")} == {"done"})
        assert worker.stop() == 0
    purge_what_was_missed(filled)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: state_of(status, "shop.u") == "gone")
        worker.wait(lambda status: state_of(status) == "done")
        run(filled, "UPDATE shop.t SET v = 9 WHERE id = 4")
        worker.wait(lambda _: published(stack, wanted)[-1].value["op"] == "u")
        assert worker.stop() == 0
        assert (
            "all existing rows are published again, as snapshot.mode is when_needed" in worker.log
        )
    assert_equal(stack, filled, wanted)
    assert fold_of_ids(published(stack, wanted, "u")) == []
    numbers = [one.seq for one in published(stack, wanted)]
    assert numbers == sorted(set(numbers))


def test_initial_only_stops_once_and_continues_when_resumed(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="initial_only")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "STOPPED")
        assert "requested by snapshot.mode initial_only" in worker.destination()["error"]
        assert len(read_ids(published(stack, wanted))) == ROWS
        run(filled, "UPDATE shop.t SET v = 5 WHERE id = 1")
        assert say("destination", "resume", "shop")[0] == 0
        worker.wait(lambda _: published(stack, wanted)[-1].value["op"] == "u")
        assert worker.destination()["state"] == "RUNNING"
        assert worker.stop() == 0


def test_initial_only_ends_once_and_not_before_a_paused_table_is_read(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="initial_only", **SLOW)
    wanted["worker"] = {"advertised_address": f"127.0.0.1:{wanted['http']['port']}"}

    def is_held(status: dict[str, Any]) -> bool:
        return state_of(status) == "paused" and "shop.t is paused" in str(status["snapshot_waits"])

    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: bool(status["snapshot"].get("shop.t", {}).get("rows")))
        assert say("snapshot", "pause", "shop", "shop.t")[0] == 0
        worker.wait(is_held)
        _, out, _ = say("snapshot", "status", "shop")
        assert "python -m app snapshot resume shop; or" in out
        # A request on the destination does not let it continue for good.
        assert say("destination", "restart", "shop")[0] == 0
        worker.wait(is_held)
        assert worker.destination()["state"] == "RUNNING"
        assert say("snapshot", "resume", "shop")[0] == 0
        worker.wait(lambda status: status["state"] == "STOPPED")
        assert read_ids(published(stack, wanted)) == list(range(1, ROWS + 1))

        # Rows that are read later do not end it again.
        assert say("destination", "resume", "shop")[0] == 0
        assert say("snapshot", "start", "shop", "shop.u")[0] == 0
        worker.wait(lambda status: state_of(status, "shop.u") == "done")
        assert say("destination", "restart", "shop")[0] == 0
        run(filled, "UPDATE shop.t SET v = 5 WHERE id = 1")
        worker.wait(lambda _: published(stack, wanted)[-1].value["op"] == "u")
        assert worker.destination()["state"] == "RUNNING"
        assert worker.stop() == 0


def test_a_table_that_has_failed_ends_once_it_is_dropped_or_not_captured(
    stack: Stack, filled: Mysql, tmp_path: Path, say: Say
) -> None:
    run(
        filled,
        *(
            f"CREATE TABLE shop.{name} (id int PRIMARY KEY) PARTITION BY RANGE (id) "
            "(PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))"
            for name in "pq"
        ),
    )
    wanted = wanted_settings(stack, filled, tmp_path, signal_table="shop.signals")
    data = json.dumps({"data-collections": [r"shop\\.u", "shop.x"]})
    with running(wanted, tmp_path) as worker:
        begun(stack, filled, wanted, worker)
        run(filled, *(f"ALTER TABLE shop.{name} DROP PARTITION a" for name in "pq"))
        worker.wait(
            lambda status: {state_of(status, "shop.p"), state_of(status, "shop.q")} == {"failed"}
        )
        run(filled, "DROP TABLE shop.p", "CREATE TABLE shop.p (id int PRIMARY KEY)")
        worker.wait(lambda status: state_of(status, "shop.p") == "gone")
        # A signal is of the tables at its position, also if one is renamed right after it.
        run(
            filled,
            f"INSERT INTO shop.signals VALUES ('one', 'execute-snapshot', '{data}')",
            "RENAME TABLE shop.u TO shop.u2",
            "INSERT INTO shop.p VALUES (1)",
        )
        worker.wait(lambda status: state_of(status, "shop.u2") == "done")
        worker.wait(lambda status: state_of(status, "shop.u") == "gone")
        until(lambda: bool(published(stack, wanted, "p")), late=lambda: worker.log[-3000:])
        assert state_of(worker.destination(), "shop.p") == "gone"
        assert read_ids(published(stack, wanted, "u2")) == [1, 2]
        assert worker.stop() == 0
        assert worker.log.count("of the expressions in its data, number 2 concerns no table") == 1
        assert say("snapshot", "status", "shop")[0] == 1, "the other has failed"
    captured = wanted["destinations"]["shop"]
    captured["filter"] = {"include": r"shop\.[tu]2?,shop\.signals"}
    wanted["worker"] = {"advertised_address": f"127.0.0.1:{wanted['http']['port']}"}
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: state_of(status, "shop.q") == "gone")
        assert say("snapshot", "status", "shop")[0] == 0
        assert worker.stop() == 0
    del captured["filter"]
    with running(wanted, tmp_path) as worker:
        # Its topic has the rows of the dropped partition still.
        worker.wait(lambda status: state_of(status, "shop.q") == "failed")
        run(filled, "DROP TABLE shop.q")
        worker.wait(lambda status: state_of(status, "shop.q") == "gone")
        assert say("snapshot", "status", "shop")[0] == 0
        assert worker.stop() == 0


def test_no_data_begins_with_changes(stack: Stack, filled: Mysql, tmp_path: Path) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="no_data")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(filled, "UPDATE shop.t SET v = 5 WHERE id = 1")
        until(lambda: bool(published(stack, wanted)), late=lambda: worker.log[-3000:])
        assert worker.stop() == 0
    assert [one.value["op"] for one in published(stack, wanted)] == ["u"]


def test_tables_that_are_captured_later_are_read_if_so_set(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="initial", new_tables=True)
    captured = wanted["destinations"]["shop"]
    captured["filter"] = {"include": r"shop\.u"}
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: state_of(status, "shop.u") == "done")
        run(filled, "CREATE TABLE shop.u2 (id int PRIMARY KEY)", "INSERT INTO shop.u VALUES (3)")
        worker.wait(lambda status: status["rows"] >= 3)
        assert worker.stop() == 0
    captured["filter"] = {"include": r"shop\.(u2?|t)"}
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: state_of(status) == "done")
        worker.wait(lambda status: state_of(status, "shop.u2") == "done")
        assert worker.stop() == 0
    assert len(read_ids(published(stack, wanted))) == ROWS
    assert read_ids(published(stack, wanted, "u")) == [1, 2], "what was read is not read again"


def test_the_sources_load_is_waited_for_and_shown(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="initial", max_threads_running=2)
    waiting = "SELECT GET_LOCK('load', 600)"
    busy = [threading.Thread(target=ask, args=(filled, waiting)) for _ in range(4)]
    with connected(filled) as holder:
        # For as long as the worker takes to see it.
        holder.execute(waiting)
        for one in busy:
            one.start()
        with running(wanted, tmp_path) as worker:
            worker.wait(lambda status: any("threads are running" in w for w in status["warnings"]))
            run(filled, "UPDATE shop.t SET v = 5 WHERE id = 1")
            until(lambda: bool(published(stack, wanted)), late=lambda: worker.log[-3000:])
            assert read_ids(published(stack, wanted)) == [], "changes are published meanwhile"
            holder.execute("DO RELEASE_LOCK('load')")
            # The worker's own connections may make it wait once more, until the look that follows.
            worker.wait(lambda status: state_of(status) == "done" and not status["warnings"])
            assert worker.stop() == 0
    for one in busy:
        one.join()
    assert len(read_ids(published(stack, wanted))) == ROWS - 1, "one row had changed"


@pytest.mark.long("integration/snapshot/test_chunks.py omits rows that come after the last one")
def test_a_table_that_grows_faster_than_it_is_read_is_read_to_its_end(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path, mode="initial", rows_per_second=1_000)
    count = [ROWS]

    def grow(ended: threading.Event) -> None:
        while not ended.wait(0.1):
            ids = range(count[0] + 1, count[0] + 501)
            run(filled, f"INSERT INTO shop.t VALUES {', '.join(f'({n}, 1, 1)' for n in ids)}")
            count[0] += 500

    with running(wanted, tmp_path) as worker, beside(grow) as stop:
        worker.wait(lambda status: state_of(status) == "done")
        held = worker.destination()["snapshot"]["shop.t"]["rows"]
        stop()
        run(filled, "INSERT INTO shop.u VALUES (3)")
        until(lambda: bool(published(stack, wanted, "u")[2:]), late=lambda: worker.log[-3000:])
        assert worker.stop() == 0
    changes = published(stack, wanted)
    assert held < count[0] - ROWS, "more came than were read"
    read = read_ids(changes)
    assert read == sorted(set(read))
    assert len(read) == held
    inserted = {one.value["after"]["id"] for one in changes if one.value["op"] == "c"}
    # What came before the first chunk ended may come again, as the image that was published.
    assert inserted | set(read) == set(range(1, count[0] + 1))
    assert [one.seq for one in changes] == sorted({one.seq for one in changes})
