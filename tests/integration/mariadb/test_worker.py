"""The real worker on a MariaDB: from each kind of start, through kills of both, every change once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.mysql.position import SourceOffset
from devstack import Stack
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.harness.sql import connected, run
from tests.harness.worker import Worker, running, settings
from tests.integration.mariadb.conftest import SERIES, started
from tests.integration.mariadb.published import Published, changes, marker_records, rows_of
from tests.integration.worker import oracle
from tests.integration.worker.source import now

LARGE = 6_000
"""Rows of one transaction that is published in parts."""


@pytest.fixture(params=SERIES)
def mariadb(
    request: pytest.FixtureRequest, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mysql]:
    """A server of the test's own, which compresses and annotates what it writes, and has a few tables."""
    server = started(
        request.param,
        children,
        tmp_path_factory,
        log_bin_compress="ON",
        log_bin_compress_min_len=10,
        binlog_annotate_row_events="ON",
        sync_binlog=1,
        innodb_flush_log_at_trx_commit=1,
    )
    run(
        server,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, note varchar(500), at timestamp(6) NULL)",
        "CREATE TABLE shop.lines (id int PRIMARY KEY, a inet6, b text COMPRESSED)",
        "CREATE TABLE shop.secret (id int PRIMARY KEY, note text)",
        "CREATE SEQUENCE shop.numbers",
        "CREATE TABLE shop.flat (id int PRIMARY KEY, note text) ENGINE=MyISAM",
    )
    yield server
    server.kill()


class Load:
    """Changes made at a server, counted as the server itself counts them."""

    def __init__(self, mariadb: Mysql) -> None:
        self._mariadb = mariadb
        self.rows = 0
        """Changed rows of captured tables; one whose key changes counts twice."""
        self.ddl = 0
        """Statements that are published, those of the fixture too."""

    def change(self, *statements: str, each: int = 1) -> None:
        """Change rows; ``each`` is the number of records that one row makes."""
        with connected(self._mariadb, database="shop") as cursor:
            for statement in statements:
                count = cursor.execute(statement)
                self.rows += each * count if re.match("INSERT|UPDATE|DELETE", statement) else 0

    def define(self, *statements: str) -> None:
        """Change tables."""
        run(self._mariadb, *statements)
        self.ddl += len(statements)


def settled(worker: Worker, mariadb: Mysql, names: set[str]) -> dict[str, Any]:
    """The worker's status after its destinations have all of the server's changes."""
    with connected(mariadb) as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        (end,) = cursor.fetchone()

    def hold_all(_: dict[str, Any]) -> bool:
        found = destinations(worker)
        return names == {
            name
            for name, status in found.items()
            if status["state"] == "RUNNING" and (status["cursor"] or {}).get("gtid_set") == end
        }

    worker.wait(hold_all)
    return destinations(worker)


def destinations(worker: Worker) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(worker.get("/status") or "{}").get("destinations", {})
    return found


def assert_server_has(mariadb: Mysql, found: list[Published]) -> None:
    """The rows that the changes amount to are those of the server."""
    with connected(mariadb) as cursor:
        for table in ("orders", "lines", "flat"):
            expected = {row["id"]: row for row in oracle.rows_of(cursor, "shop", table)}
            rows = rows_of(found, table)
            assert {key: expected[key] | row for key, row in rows.items()} == expected


def destinations_of(
    stack: Stack, mariadb: Mysql, folder: Path, middle: SourceOffset
) -> dict[str, Any]:
    """Settings for the same tables from each kind of start; ``middle`` is a position in the history."""
    wanted = settings(stack, mariadb, folder) | {
        "include_query": True,
        "publish": {"max_bytes": 65536, "interval_ms": 20},
    }
    shop = wanted["destinations"]["shop"]
    shop["filter"]["black"] = r"shop\.secret"
    position = {"file": middle.coordinates.file, "pos": middle.coordinates.pos}
    starts = {"gtids": {"gtid_set": str(middle.gtid_set)}, "place": position, "late": "latest"}
    for number, (name, start) in enumerate(starts.items(), start=1):
        own = {"start": start, "server_id": shop["server_id"] + number}
        wanted["destinations"][name] = shop | own
    return wanted


def assert_counted(metrics: str) -> None:
    """Events are counted by the names that MariaDB has for them."""
    for kind, handling in (
        *(("MARIADB_GTID", "decoded"), ("GTID_LIST", "passed"), ("ANNOTATE_ROWS", "passed")),
        *(("QUERY_COMPRESSED", "decoded"), ("UPDATE_ROWS_COMPRESSED_V1", "decoded")),
        ("WRITE_ROWS_COMPRESSED_V1", "filtered"),
    ):
        labels = f'destination="shop",handling="{handling}",type="{kind}"'
        assert re.search(rf"binlog_events_total{{{labels}}} [1-9]", metrics), labels


def test_every_change_is_published_once_from_each_start_and_through_kills(
    stack: Stack, mariadb: Mysql, tmp_path: Path
) -> None:
    load = Load(mariadb)
    load.ddl = 6
    load.change(
        "INSERT INTO shop.orders SELECT seq, REPEAT('ä', seq), NOW(6) FROM seq_1_to_40",
        "INSERT INTO shop.lines VALUES (1, '2001:db8::1', REPEAT('x', 9000)), (2, NULL, '')",
        "UPDATE shop.orders SET note = NULL WHERE id <= 5",
    )
    run(mariadb, "INSERT INTO shop.secret VALUES (1, REPEAT('s', 99))", "FLUSH BINARY LOGS")
    middle, before = now(mariadb), load.rows + load.ddl
    load.change("DELETE FROM shop.orders WHERE id > 30")
    key_change = "UPDATE shop.orders SET id = id + 1000 WHERE id <= 10"
    load.change("SET gtid_domain_id = 5", key_change, each=2)
    wanted = destinations_of(stack, mariadb, tmp_path, middle)
    names = set(wanted["destinations"])

    with running(wanted, tmp_path) as worker:
        settled(worker, mariadb, names)
        late = load.rows + load.ddl
        large = (
            "INSERT INTO shop.orders SELECT seq,"
            " CONCAT(SHA2(seq, 512), SHA2(-seq, 512), SHA2(seq / 7, 512)), NULL"
            f" FROM seq_2001_to_{2000 + LARGE}"
        )
        # What cannot be undone is written with the rows that were, of transactional tables alone.
        forced = "DROP TEMPORARY TABLE IF EXISTS shop.nothing"
        load.change("BEGIN", large, forced, "ROLLBACK")
        load.rows -= LARGE
        load.change(large)
        worker.wait(lambda status: status["rows"] > 500)
    # Killed, most likely within that transaction, and so is the server.
    mariadb.kill()
    mariadb.start()
    load.define(
        "ALTER TABLE shop.orders ADD extra int DEFAULT 7 FIRST",
        "TRUNCATE shop.lines",
        "CREATE SEQUENCE shop.later START 7",
    )
    load.rows += 1  # the record that says so
    with running(wanted, tmp_path) as worker:
        # A sequence counts in rows of its own, which are nobody's data.
        load.change("DO NEXTVAL(shop.numbers), NEXTVAL(shop.later)", "DO SETVAL(shop.later, 99)")
        load.change(
            "SET gtid_domain_id = 5",
            "BEGIN",
            "UPDATE shop.orders SET note = CONCAT('z', id) WHERE id < 2100",
            "INSERT INTO shop.lines VALUES (1, '::', 'again')",
            "INSERT INTO shop.secret VALUES (3, REPEAT('s', 99))",
            "DELETE FROM shop.orders WHERE id BETWEEN 2050 AND 2060",
            "COMMIT",
        )
        load.rows -= 1  # the secret
        load.change(
            *(
                "BEGIN",
                "INSERT INTO shop.lines VALUES (70, NULL, REPEAT('u', 99))",
                forced,
                "ROLLBACK",
            ),
            *("BEGIN", "INSERT INTO shop.lines VALUES (71, NULL, 'kept')", "SAVEPOINT s"),
            *(
                "INSERT INTO shop.orders (id) VALUES (72)",
                "INSERT INTO shop.flat VALUES (1, 'stays')",
            ),
            *(
                forced,
                "ROLLBACK TO s",
                "INSERT INTO shop.lines VALUES (73, NULL, 'kept')",
                "COMMIT",
            ),
        )
        load.rows -= 2
        settled(worker, mariadb, names)
        assert {status["error"] for status in destinations(worker).values()} == {None}
        assert_counted(worker.get("/metrics"))
        assert "Traceback" not in worker.log

    published = asyncio.run(changes(stack.kafka, wanted["prefix"]))
    by_name = {name: [one for one in published if one.destination == name] for name in names}
    for found in by_name.values():
        assert [one.seq for one in found] == list(range(1, len(found) + 1))
        assert len({one.change_id for one in found}) == len(found)
        assert {one.value["source"]["connector"] for one in found} == {"mariadb"}
    every = by_name["shop"]
    assert len(every) == load.rows + load.ddl
    assert_server_has(mariadb, every)
    ids = [one.change_id for one in every]
    assert [one.change_id for one in by_name["gtids"]] == ids[before:]
    assert [one.change_id for one in by_name["place"]] == ids[before:]
    assert [one.change_id for one in by_name["late"]] == ids[late:]
    # Rows come with the statement, in the middle of a transaction too.
    result = [(one.value.get("op", "ddl"), one.value["source"].get("query", " ")) for one in every]
    assert {(op, query.split()[0]) for op, query in result if query.strip()} == {
        *(("c", "INSERT"), ("u", "UPDATE"), ("d", "DELETE")),
        *(("d", "UPDATE"), ("c", "UPDATE")),
    }
    assert [op for op, query in result if not query.strip()] == ["ddl"] * 8 + ["t", "ddl"]
    parts = [
        marker["part"]
        for marker in asyncio.run(marker_records(stack.kafka, wanted["prefix"], "shop"))
        if marker["status"] == "END"
    ]
    assert max(parts) > 1
