"""A canary in masked columns of a real server, written in all ways: it is in nothing that a worker leaves."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.topics import Topics
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import stored, values
from tests.harness.worker import running, settings
from wire.topics import ddl_topic, dead_letters_topic, quarantine_topic

CANARY, NUMBER = "CanaryBird", 515_051_501
LARGE = 300_000
"""Bytes of an unmasked value, which the topics do not take."""
MAPPING = """
tables:
  notes:
    from: [shop.notes_0, shop.notes_1]
    tags: {secret: secret}
    row_filter: secret LIKE '%Bird%' OR secret IS NULL
    column_actions: {id: {hmac: k1}, secret: redact, card: {truncate: 2}, gone: drop, plain: {rename: shown}}
  old: {from: [shop.old], column_actions: {secret: {redact: "***"}}}
  torn: {from: [shop.torn], column_actions: {secret: {hmac: k1, domain: torn}, other: drop}}
"""
NOTES = (
    "(id int PRIMARY KEY, secret varchar(99), card varchar(99), gone varchar(99), plain longtext)"
)


TABLES = (
    "CREATE DATABASE shop",
    *(f"CREATE TABLE shop.notes_{n} {NOTES}" for n in (0, 1)),
    # Unicode lacks a character for a byte of cp1251; in a key, such text cannot be published.
    (
        "CREATE TABLE shop.old (id int, c varchar(9) CHARACTER SET cp1251, secret varchar(99),"
        " PRIMARY KEY (id, c))"
    ),
    f"CREATE TABLE shop.torn (id int PRIMARY KEY, secret varchar(99) DEFAULT '{CANARY}', other int)",
    "CREATE TABLE shop.plain (id int PRIMARY KEY, x int)",
)
COMMANDS = (
    ("dead-letters", "list", "shop", "--format", "json"),
    ("schema", "quarantine", "shop"),
    ("schema", "audit", "shop"),
    ("schema", "show", "shop", "shop.torn"),
    ("schema", "check", "shop"),
)
AUDIT = ("audit", "shop", "--witness", "mysql-replication")


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, which logs statements with rows."""
    with own_mysql(
        stack,
        *TABLES,
        options={"server_id": 9, "binlog_rows_query_log_events": "ON"},
    ) as server:
        yield server


def written(mysql: Mysql) -> None:
    """The canary in rows and statements of each kind."""
    for table in ("shop.notes_0", "shop.notes_1"):
        secrets = f"'{CANARY}', 'xx{CANARY}', '{CANARY}'"
        run(
            mysql,
            f"INSERT INTO {table} VALUES ({NUMBER}, {secrets}, 'a'),"
            f" ({NUMBER + 1}, {secrets}, REPEAT('b', {LARGE}))",
            f"INSERT INTO {table} VALUES ({NUMBER + 2}, 'no', 'xx{CANARY}', NULL, NULL)",
            f"UPDATE {table} SET secret = 'old {CANARY}' WHERE id = {NUMBER}",
            f"UPDATE {table} SET plain = 'c' WHERE secret = 'old {CANARY}'",
            f"UPDATE {table} SET id = {NUMBER + 3} WHERE id = {NUMBER}",
            f"DELETE FROM {table} WHERE id = {NUMBER + 3} /* {CANARY} */",
            # A statement of another table that reads a masked one.
            f"REPLACE INTO shop.plain SELECT 1, COUNT(*) FROM {table} WHERE secret = '{CANARY}'",
        )
    run(
        mysql,
        f"INSERT INTO shop.old VALUES (1, 'a', '{CANARY}'), (2, 0x98, '{CANARY}')",
        f"INSERT INTO shop.torn VALUES (1, '{CANARY}', 7)",
        f"ALTER TABLE shop.notes_0 ADD COLUMN more varchar(99) DEFAULT '{CANARY}' COMMENT '{CANARY}'",
        f"ALTER TABLE shop.notes_1 ALTER secret SET DEFAULT '{CANARY}', AUTO_INCREMENT = {NUMBER}",
        f"CREATE VIEW shop.seen AS SELECT plain FROM shop.notes_0 WHERE secret = '{CANARY}'",
        # A rule names the column, so the table is quarantined, with what follows.
        "ALTER TABLE shop.torn DROP COLUMN other",
        f"INSERT INTO shop.torn VALUES (2, '{CANARY}')",
        f"ALTER TABLE shop.torn ALTER secret SET DEFAULT 'x {CANARY}'",
        f"UPDATE shop.torn SET secret = 'y {CANARY}'",
        "INSERT INTO shop.plain VALUES (9, 9)",
    )


def test_a_masked_value_is_in_no_topic_log_report_or_file(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = masked_settings(stack, mysql, tmp_path)
    written(mysql)
    shown = places(stack, wanted, tmp_path, (AUDIT, *COMMANDS))
    assert leaks(shown) == set()
    assert_reached(shown, str(wanted["prefix"]), tmp_path)
    assert b"different=0" in shown["audit shop --witness mysql-replication"]


def masked_settings(stack: Stack, mysql: Mysql, folder: Path) -> dict[str, Any]:
    """Settings with the mapping, its key, and a claim store in a folder."""
    (folder / "mapping.yaml").write_text(MAPPING)
    (folder / "keys").write_text(f"k1: {base64.b64encode(bytes(range(32))).decode()}\n")
    (folder / "claims").mkdir()
    wanted = settings(
        stack, mysql, folder, oversize="claim_check", claim_check_path=str(folder / "claims"),
        poison="dead_letter",
    )  # fmt: skip
    wanted["topics"]["max_message_bytes"] = 200_000
    wanted["publish"] = {"compression": None, "interval_ms": 20}
    wanted["mapping"] = {"file": str(folder / "mapping.yaml"), "key_file": str(folder / "keys")}
    wanted["include_query"] = True
    return wanted


def places(
    stack: Stack, wanted: dict[str, Any], folder: Path, commands: Iterable[tuple[str, ...]]
) -> dict[str, bytes]:
    """All that a worker leaves of what was written, and what commands print, each under its name."""
    with running(wanted, folder) as worker:
        worker.wait(lambda status: bool(status["set_aside"]))
        worker.wait(lambda _: b'"x":9' in published(stack, f"{wanted['prefix']}.shop.plain"))
        pages = {f"GET {path}": worker.get(path) for path in ("/status", "/metrics", "/health")}
        reported = pages | reports(folder, commands)
        assert worker.stop() == 0
    released(wanted, folder)
    shown = {place: text.encode() for place, text in reported.items()}
    shown |= everything(stack, str(wanted["prefix"]))
    return shown | {str(file): file.read_bytes() for file in files(folder)}


def released(wanted: dict[str, Any], folder: Path) -> None:
    """Bring the quarantined table back under a rule that fits, by another first key."""
    mapping = folder / "mapping.yaml"
    mapping.write_text(MAPPING.replace(", other: drop", ""))
    keys = folder / "keys"
    keys.write_text(f"k2: {base64.b64encode(bytes(32)).decode()}\n{keys.read_text()}")
    with running(wanted, folder) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        resolved = run_command(
            folder / "aqueduct.yaml", "schema", "resolve", "shop", "shop.torn", "--server"
        )
        assert resolved.returncode == 0, resolved.stdout + resolved.stderr + worker.log[-3000:]
        worker.wait(lambda status: not status["set_aside"])
        assert worker.stop() == 0


def reports(folder: Path, commands: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """What commands print."""
    found = {}
    for words in commands:
        done = run_command(folder / "aqueduct.yaml", *words)
        found[" ".join(words)] = f"{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, found
        if words[0] == "audit":
            assert done.returncode == 0, found
    return found


def everything(stack: Stack, prefix: str) -> dict[str, bytes]:
    """Keys, values and headers of all topics of the installation, the journal and Faust's among them."""
    partitions = asyncio.run(Topics({"bootstrap_servers": stack.kafka}).counts())
    return {
        name: published(stack, name, count)
        for name, count in partitions.items()
        if name.startswith(prefix)
    }


def published(stack: Stack, topic: str, partitions: int = 2) -> bytes:
    """All bytes of a topic's records."""
    return b"\n".join(
        b"".join((one.key or b"", one.value or b"", *(value or b"" for _, value in one.headers)))
        for part in stored(stack, topic, partitions=partitions)
        for one in part
    )


def files(folder: Path) -> Iterator[Path]:
    """The worker's files: its log, its data, and the claim store."""
    return (one for one in folder.rglob("*") if one.is_file())


def leaks(shown: dict[str, bytes]) -> set[str]:
    raw = CANARY.encode()
    # What a neighbour changes of base64 is cut off.
    encoded = [base64.b64encode(bytes(n) + raw)[4:-4] for n in range(3)]
    number = NUMBER.to_bytes(4, "little")
    traces = [
        raw,
        raw.hex().encode(),
        *encoded,
        str(NUMBER)[:-1].encode(),
        number,
        number.hex().encode(),
    ]
    return {place for place, text in shown.items() for trace in traces if trace in text}


def assert_reached(shown: dict[str, bytes], prefix: str, folder: Path) -> None:
    """Each place has what could have shown the canary."""
    ops = Counter(one["op"] for one in _values(shown[f"{prefix}.shop.notes"]))
    # A row of "no" does not pass the filter; a change of the key is a delete and an insert.
    assert ops == {"c": 6, "u": 4, "d": 4}
    notes = shown[f"{prefix}.shop.notes"]
    assert b'"secret":null,"card":"xx","shown":"a"' in notes
    assert b'"id":"k1:' in notes
    assert b"SET secret = '?' WHERE id = 0" in notes
    assert b"WHERE secret = '?'" in shown[f"{prefix}.shop.plain"]
    assert b'"secret":"***"' in shown[f"{prefix}.shop.old"]
    assert b"DEFAULT '?' COMMENT '?'" in shown[ddl_topic(prefix, "shop")]
    # One row from before it was quarantined, one inserted while it was, both updated then.
    torn = Counter(one["op"] for one in _values(shown[f"{prefix}.shop.torn"]))
    assert torn == {"c": 2, "u": 2}
    assert shown[f"{prefix}.shop.torn"].count(b'"secret":"k1:') == 6
    assert len(shown[quarantine_topic(prefix, "shop")]) > 500
    assert len(shown[dead_letters_topic(prefix, "shop")]) > 100
    assert b'"sealed": "k1"' in shown["dead-letters list shop --format json"]
    assert any((folder / "claims").rglob("*.json"))


def _values(topic: bytes) -> Iterator[dict[str, Any]]:
    """The values of row records among a topic's bytes, each after its key."""
    for line in topic.decode(errors="replace").split("\n"):
        at = line.find('{"before"')
        if at >= 0:
            yield json.JSONDecoder().raw_decode(line[at:])[0]


def test_a_mask_that_comes_later_is_announced_once_though_no_row_follows(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    run(mysql, f"INSERT INTO shop.notes_0 VALUES (1, '{CANARY}', NULL, NULL, NULL)")
    (tmp_path / "keys").write_text(f"k1: {base64.b64encode(bytes(range(32))).decode()}\n")
    rules = tmp_path / "mapping.yaml"
    rules.write_text("tables: {shop.notes_0: {column_actions: {secret: {redact: hidden}}}}")
    masked = {**wanted, "mapping": {"file": str(rules), "key_file": str(tmp_path / "keys")}}
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 1)
        assert worker.stop() == 0
    for _ in range(2):
        with running(masked, tmp_path) as worker:
            worker.wait(lambda status: status["state"] == "RUNNING")
            assert worker.stop() == 0
    done = run_command(tmp_path / "aqueduct.yaml", *AUDIT)
    assert "not judged: versions of tables that no statement made: 1\n" in done.stdout, done.stderr
    # With a mapping in a file, the record from before the mask is judged by the mask too.
    assert "lost=0 repeated=0 foreign=0 different=1" in done.stdout
    said = [one for one in values(stack, ddl_topic(wanted["prefix"], "shop")) if not one["ddl"]]
    assert [(one["tables"][0]["table"], one["tables"][0]["version"]) for one in said] == [
        ("notes_0", 2)
    ]
