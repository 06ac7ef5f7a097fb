"""Records that cannot go out as they are: too large for their topic, or rows that cannot be decoded."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import has_rows, names, rows
from tests.harness.worker import running, settings
from tests.integration.worker.source import end_of
from tests.s3 import CREDENTIALS, line_to, s3_server
from wire.topics import dead_letters_topic

LARGE = 300_000
"""Bytes of a value, which the topics below do not take."""


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.notes (id int PRIMARY KEY, note longtext)",
        # Unicode lacks a character for some bytes of cp1251; in a key, such text cannot be published.
        "CREATE TABLE shop.old (id int, c varchar(9) CHARACTER SET cp1251, PRIMARY KEY (id, c))",
        options={"server_id": 11},
    ) as server:
        yield server


def wanted(stack: Stack, mysql: Mysql, folder: Path, **destination: Any) -> dict[str, Any]:
    made = settings(stack, mysql, folder, **destination)
    made["topics"]["max_message_bytes"] = 200_000
    # Random text does not become small by compression; here nothing does.
    made["publish"] = {"compression": None, "interval_ms": 20}
    return made


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command(folder / "aqueduct.yaml", *words)


@pytest.mark.remedy("DeadLetterLimitReached")
def test_a_large_row_is_claimed_and_one_that_cannot_be_decoded_is_put_aside_and_all_others_continue(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    claims = tmp_path / "claims"
    claims.mkdir()
    made = wanted(
        stack,
        mysql,
        tmp_path,
        oversize="claim_check",
        claim_check_path=str(claims),
        poison="dead_letter",
        poison_limit=2,
    )
    run(
        mysql,
        f"INSERT INTO shop.notes VALUES (1, 'small'), (2, REPEAT('x', {LARGE})), (3, 'small')",
        "INSERT INTO shop.old VALUES (1, 'a'), (2, 0x98), (3, 'c')",
        "UPDATE shop.notes SET note = 'small again' WHERE id = 2",
    )
    prefix = made["prefix"]
    with running(made, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 6)
        status = worker.destination()
        assert status["dead_letters"]["here"] == {"shop.old": 1}
        assert status["dead_letters"]["last"]["row"] == 1
        metrics = worker.get("/metrics")
        assert 'aqueduct_dead_letters_total{destination="shop"} 1.0' in metrics
        metric_line = (
            'aqueduct_oversize_records_total{destination="shop",handling="claim_check"} 2.0'
        )
        assert metric_line in metrics
        found = rows(stack, prefix, "notes")
        old = rows(stack, prefix, "old")
        numbers = [change.seq for change in sorted([*found, *old], key=lambda change: change.seq)]
        assert numbers == list(range(numbers[0], numbers[0] + 6))
        assert [change.value["after"]["id"] for change in old] == [1, 3]
        assert [change.change_id.rpartition("#")[2] for change in old] == ["0", "2"]
        values = [_redeemed(change.value) for change in found]
        assert [(value["op"], value["after"]["id"]) for value in values] == [
            ("c", 1),
            ("c", 2),
            ("c", 3),
            ("u", 2),
        ]
        assert values[1]["after"]["note"] == "x" * LARGE == values[3]["before"]["note"]
        assert [change.change_id for change in found] == [_name(value) for value in values]
        listed = command(tmp_path, "dead-letters", "list", "shop", "--format", "json")
        assert listed.returncode == 1, listed.stderr
        (letter,) = json.loads(listed.stdout)
        assert (letter["table"], letter["row"], letter["kind"]) == ("old", 1, "row")
        assert bytes.fromhex(letter["bytes"]).endswith(b"\x01\x98")
        # One more may go; the next one, within the hour, may not, nor anything after it.
        run(mysql, "INSERT INTO shop.old VALUES (4, 0x98)", "INSERT INTO shop.old VALUES (5, 'e')")
        worker.wait(lambda status: status["rows"] == 7)
        run(mysql, "INSERT INTO shop.old VALUES (6, 0x98)", "INSERT INTO shop.old VALUES (7, 'g')")
        error = worker.wait(lambda status: status["state"] == "FAILED")["error"]
        assert error.startswith("DeadLetterLimitReached")
        assert "table=shop.old" in error
        assert "gtid=" in error
        assert "coordinates=" in error
        assert [change.value["after"]["id"] for change in rows(stack, prefix, "old")] == [1, 3, 5]
        # A restart allows as many again.
        assert command(tmp_path, "dead-letters", "list", "shop").returncode == 1
        restarted = command(tmp_path, "destination", "restart", "shop")
        assert restarted.returncode == 0, restarted.stderr
        worker.wait(lambda _: len(rows(stack, prefix, "old")) == 4)
        assert worker.destination()["state"] == "RUNNING"
    assert [change.value["after"]["id"] for change in rows(stack, prefix, "old")] == [1, 3, 5, 7]


@pytest.mark.remedy("ClaimStoreDenied")
def test_a_large_row_is_claimed_in_a_bucket_once_it_lets_us_in_and_an_audit_finds_it_whole(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    run(
        mysql,
        f"INSERT INTO shop.notes VALUES (1, 'small'), (2, REPEAT('x', {LARGE}))",
        f"UPDATE shop.notes SET note = REPEAT('y', {LARGE}) WHERE id = 2",
        "DELETE FROM shop.notes WHERE id = 2",
    )
    with s3_server(tmp_path) as server, line_to(server) as line:
        server.make("claims")
        line.answer = lambda _: 403
        made = wanted(
            stack,
            mysql,
            tmp_path,
            oversize="claim_check",
            claim_check_path="s3://claims/of",
            claim_check_s3={"endpoint": line.endpoint},
        )
        with running(made, tmp_path) as worker:
            status = worker.wait(lambda status: status["state"] == "RETRYING")
            error = status["error"]
            assert error.startswith("ClaimStoreDenied")
            assert status["rows"] == 0
            assert "object=s3://claims/of/" in error
            assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in error + worker.log
            # The server takes what it is sent, and its answer is lost: the same is written again.
            line.answer = lambda method: 403 if method == "HEAD" else 0
            worker.wait(lambda _: bool(server.keys("claims")))
            line.repair()
            worker.wait(lambda status: status["rows"] == 4)
        found = [change.value for change in rows(stack, made["prefix"], "notes")]
        keys = server.keys("claims")
        pointers = [value["claim_check"] for value in found if "claim_check" in value]
        assert sorted(one["location"] for one in pointers) == [f"s3://claims/{key}" for key in keys]
        assert len(keys) == 3
        got = [server.client().get_object(Bucket="claims", Key=key)["Body"].read() for key in keys]
        assert all(
            hashlib.sha256(one).hexdigest() in key for one, key in zip(got, keys, strict=True)
        )
        program = shlex.join(mysql.mysqlbinlog or ())
        audited = command(tmp_path, "audit", "shop", "--mysqlbinlog", program)
        assert audited.returncode == 0, audited.stdout + audited.stderr
        assert "not judged" not in audited.stdout
        assert "changes=4 lost=0" in audited.stdout
        server.client().put_object(Bucket="claims", Key=keys[0], Body=got[0][:-2] + b"0}")
        server.client().delete_object(Bucket="claims", Key=keys[1])
        audited = command(tmp_path, "audit", "shop", "--mysqlbinlog", program)
        assert audited.returncode == 1
        assert "different=2 " in audited.stdout
        assert "are not in the claim store" in audited.stdout
        assert "differ from those stored" in audited.stdout


def _redeemed(value: dict[str, Any]) -> dict[str, Any]:
    """A record's value as a consumer reads it: its own, or that of its claim check."""
    pointer = value.get("claim_check")
    if pointer is None:
        return value
    assert value["before"] is None
    assert value["after"] is None
    stored = Path(unquote(urlsplit(pointer["location"]).path)).read_bytes()
    assert len(stored) == pointer["size"]
    assert hashlib.sha256(stored).hexdigest() == pointer["sha256"]
    return {**value, **json.loads(stored)}


def _name(value: dict[str, Any]) -> str:
    return f"{value['transaction']['id']}#{value['source']['row']}"


@pytest.mark.remedy("RecordTooLarge", "RowUnreadable")
def test_by_default_a_large_row_stops_the_destination_and_an_unreadable_key_its_table_alone(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    made = wanted(stack, mysql, tmp_path)
    run(
        mysql,
        "INSERT INTO shop.notes VALUES (1, 'small')",
        f"INSERT INTO shop.notes VALUES (2, REPEAT('x', {LARGE})), (3, 'small')",
    )
    with running(made, tmp_path) as worker:
        error = worker.wait(lambda status: status["state"] == "FAILED")["error"]
        assert error.startswith("RecordTooLarge")
        for part in ("table=shop.notes", 'key={"id":2}', "gtid=", "size=3", "limit=200000"):
            assert part in error
        assert "claim_check" in error
    # With its images left out it fits, and the destination comes to the row with the unreadable key.
    made["destinations"]["shop"]["oversize"] = "key_only"
    run(
        mysql,
        "INSERT INTO shop.old VALUES (1, 'a'), (2, 0x98)",
        "INSERT INTO shop.notes VALUES (4, 'small')",
    )
    with running(made, tmp_path) as worker:
        worker.wait(lambda status: [one["table"] for one in status["set_aside"]] == ["shop.old"])
        worker.wait(lambda _: len(rows(stack, made["prefix"], "notes")) == 4)
        log = worker.log
        assert "RowUnreadable" in log
        for part in ("column 'c' of a row's key", "table=shop.old", "gtid=", "coordinates="):
            assert part in log
    found = rows(stack, made["prefix"], "notes")
    assert [(change.value["after"] or {}).get("id") for change in found] == [1, None, 3, 4]
    assert list(found[1].value["left_out"]) == ["after"]
    # Nothing of the unreadable row's transaction is published.
    assert not has_rows(stack, f"{made['prefix']}.shop.old")
    assert dead_letters_topic(made["prefix"], "shop") not in names(stack)
    listed = command(tmp_path, "schema", "quarantine", "shop", "--format", "json")
    (entry,) = json.loads(listed.stdout)
    assert (entry["table"], entry["waiting"]) == ("old", 1)
    run(
        mysql,
        "DELETE FROM shop.old WHERE id = 2",
        "ALTER TABLE shop.old MODIFY c varchar(9) CHARACTER SET utf8mb4 NOT NULL",
    )
    with running(made, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        for how in (["--give-up", "--yes-lose-rows"], ["--server"]):
            done = command(tmp_path, "schema", "resolve", "shop", "shop.old", *how)
            assert done.returncode == 0, done.stdout + done.stderr
        run(mysql, "INSERT INTO shop.old VALUES (3, 'c')")
        worker.wait(lambda status: status["rows"] == 1 and not status["set_aside"])
    found = rows(stack, made["prefix"], "old")
    assert [change.value["after"] for change in found] == [{"id": 3, "c": "c"}]


def damaged(mysql: Mysql) -> None:
    """Rows that no server would write so: a document of an unknown type, and a text longer than its event."""
    run(
        mysql,
        # Else the first look at an event would find what its bytes became.
        "SET GLOBAL binlog_checksum = 'NONE'",
        "CREATE TABLE shop.documents (id int PRIMARY KEY, j json)",
        "INSERT INTO shop.notes VALUES (1, 'before')",
    )
    file = mysql.data / end_of(mysql).file
    run(
        mysql,
        """INSERT INTO shop.documents VALUES (1, '{}'), (2, '{"UNKNOWN": 1}'), (3, '{}')""",
        "INSERT INTO shop.notes VALUES (2, 'TORN')",
        "INSERT INTO shop.notes VALUES (3, 'after')",
        "FLUSH BINARY LOGS",
    )
    written = bytearray(file.read_bytes())
    # Between a small object's type and its first key stand two numbers of two bytes, and entries of 4 and 3.
    written[written.index(b"UNKNOWN") - 12] = 0x7F
    length = written.index(b"TORN") - 4
    written[length : length + 4] = (1000).to_bytes(4, "little")
    file.write_bytes(written)


@pytest.mark.remedy("MalformedEvent")
def test_a_damaged_row_fails_the_destination_or_is_a_dead_letter_by_itself(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    damaged(mysql)
    made = wanted(stack, mysql, tmp_path)
    prefix = made["prefix"]
    with running(made, tmp_path) as worker:
        error = worker.wait(lambda status: status["state"] == "FAILED")["error"]
        assert "MalformedEvent" in error
        for part in ("unknown", "table=shop.documents", "row_of_event=1", "coordinates=", "gtid="):
            assert part in error
        assert "Set the destination's poison to dead_letter" in worker.log
        assert worker.stop() == 0
    assert [change.value["after"]["id"] for change in rows(stack, prefix, "notes")] == [1]
    assert not has_rows(stack, f"{prefix}.shop.documents")
    made["destinations"]["shop"]["poison"] = "dead_letter"
    with running(made, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 3)
        assert worker.destination()["dead_letters"]["here"] == {
            "shop.documents": 1,
            "shop.notes": 1,
        }
    notes, documents = (rows(stack, prefix, name) for name in ("notes", "documents"))
    assert [change.value["after"]["id"] for change in notes] == [1, 3]
    assert [change.value["after"]["id"] for change in documents] == [1, 3]
    # What cannot be decoded has its ordinal all the same.
    assert [change.change_id.rpartition("#")[2] for change in documents] == ["0", "2"]
    listed = command(tmp_path, "dead-letters", "list", "shop", "--format", "json")
    letters = [(one["table"], one["kind"], one["row"]) for one in json.loads(listed.stdout)]
    assert letters == [("documents", "row", 1), ("notes", "event", 0)]
