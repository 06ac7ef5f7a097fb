"""Existing rows of tables with masked keys: read on after kills, with nothing raw in what a worker leaves."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, connected, run
from tests.harness.topics import Change, rows
from tests.harness.worker import running, settings
from tests.integration.process.test_masking import CANARY, everything, files, leaks

ROWS = 6_000
RATE = 800
"""Rows in a second, so that a kill meets the reading in its middle."""
MAPPING = """
tables:
  members: {from: [shop.members], column_actions: {name: {hmac: k}}}
  badges: {from: [shop.badges], key: [nr], column_actions: {name: drop, secret: {truncate: 2}}}
"""
KEYS = {name: bytes([number]) * 32 for number, name in enumerate(("k", "s1", "s2", "s3"))}


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with names in the keys of tables."""
    names = "(name varchar(40), no int, v int, PRIMARY KEY (name, no))"
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        f"CREATE TABLE shop.members {names}",
        "CREATE TABLE shop.badges (name varchar(40) PRIMARY KEY, nr int, secret varchar(40))",
        options={"server_id": 9},
    ) as server:
        with connected(server, autocommit=False) as cursor:
            cursor.executemany(
                # With a literal among them PyMySQL would send each row by itself.
                "INSERT INTO shop.members VALUES (%s, %s, %s)",
                [(f"{CANARY}{n:05}", n % 7, 0) for n in range(ROWS)],
            )
            cursor.executemany(
                "INSERT INTO shop.badges VALUES (%s, %s, %s)",
                [(f"{CANARY}{n:05}", n, f"xx{CANARY}") for n in range(20)],
            )
            cursor.execute("COMMIT")
        yield server


def wanted_settings(stack: Stack, mysql: Mysql, folder: Path) -> dict[str, Any]:
    (folder / "mapping.yaml").write_text(MAPPING)
    wanted = settings(stack, mysql, folder, snapshot={"mode": "initial", "rows_per_second": RATE})
    wanted["destinations"]["shop"].pop("start")
    # So that what is compared with the canary is what was written.
    wanted["publish"] = {"compression": None, "interval_ms": 20}
    wanted["mapping"] = {"file": str(folder / "mapping.yaml"), "key_file": str(folder / "keys")}
    return wanted


def key_file(folder: Path, *names: str) -> None:
    lines = (f"{one}: {base64.b64encode(KEYS[one]).decode()}\n" for one in names)
    (folder / "keys").write_text("".join(lines))


@contextlib.contextmanager
def changing(mysql: Mysql) -> Iterator[None]:
    """Rows of the table are changed, inserted, deleted, and get other keys."""

    def change(stop: threading.Event) -> None:
        chance, number = random.Random(3), 0
        with connected(mysql) as cursor:
            while not stop.wait(0.005):
                number += 1
                name, other = (f"{CANARY}{chance.randrange(ROWS + 500):05}" for _ in range(2))
                what = chance.random()
                if what < 0.5:
                    cursor.execute("UPDATE shop.members SET v = %s WHERE name = %s", (number, name))
                elif what < 0.65:
                    cursor.execute("DELETE FROM shop.members WHERE name = %s", (name,))
                elif what < 0.8:
                    sql = "UPDATE IGNORE shop.members SET name = %s WHERE name = %s"
                    cursor.execute(sql, (other, name))
                else:
                    sql = "REPLACE INTO shop.members VALUES (%s, %s, %s)"
                    cursor.execute(sql, (name, number % 7, number))

    with beside(change):
        yield


def masked(name: str) -> str:
    return f"k:{hmac.digest(KEYS['k'], name.encode(), 'sha256').hex()}"


def assert_folds_to_the_source(mysql: Mysql, changes: list[Change]) -> None:
    folded: dict[bytes | None, Any] = {}
    for one in changes:
        op, after = one.value["op"], one.value["after"]
        if op == "r" and one.key in folded:
            assert folded[one.key] == after, "an older image after a newer one"
        if op == "d":
            folded.pop(one.key, None)
        else:
            folded[one.key] = after
    source = {(masked(a), b): v for a, b, v in ask(mysql, "SELECT name, no, v FROM shop.members")}
    assert {(one["name"], one["no"]): one["v"] for one in folded.values()} == source
    read = Counter(one.key for one in changes if one.value["op"] == "r")
    assert set(read.values()) == {1}, "it resumes after the last row that was published"


def killed(
    wanted: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    with monkeypatch.context() as faults:
        faults.setenv(VARIABLE, fault)
        with running(wanted, folder) as worker:
            assert worker.process.wait(60) == -signal.SIGKILL, worker.log[-3000:]


@pytest.mark.long("test_snapshot.py has kills, test_masking.py masked values")
def test_a_masked_key_is_read_on_after_kills_and_key_rotations_and_is_nowhere_raw(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with changing(mysql):
        key_file(tmp_path, "s1", "k")
        killed(wanted, tmp_path, monkeypatch, "snapshot.committed=kill@3")
        # Another key seals from here on.
        key_file(tmp_path, "s2", "s1", "k")
        killed(wanted, tmp_path, monkeypatch, "snapshot.handed=kill@2")

        # What opens the last key is missing: rows are not read, the stream continues.
        key_file(tmp_path, "s3", "k")
        with running(wanted, tmp_path) as worker:
            status = worker.wait(lambda status: "key_file" in _error(status))
            held = status["snapshot"]["shop.members"]
            assert "MappingError: " in held["error"]
            assert "rows are sealed with the key 's2'" in held["error"]
            assert "`snapshot stop`" in held["error"]
            assert 0 < held["rows"] < ROWS
            published = len(rows(stack, wanted["prefix"], "members"))
            worker.wait(lambda _: len(rows(stack, wanted["prefix"], "members")) > published)
            assert worker.destination()["state"] == "RUNNING"
            assert worker.destination()["snapshot"]["shop.members"]["rows"] == held["rows"]
            assert worker.stop() == 0

        key_file(tmp_path, "s3", "s2", "s1", "k")
        with running(wanted, tmp_path) as worker:
            worker.wait(
                lambda status: {one["state"] for one in status["snapshot"].values()} == {"done"}
            )
            pages = {f"GET {path}": worker.get(path) for path in ("/status", "/metrics")}
            asked = run_command(tmp_path / "aqueduct.yaml", "snapshot", "status", "shop")
            pages["snapshot status"] = asked.stdout + asked.stderr
            assert "shop.members" in asked.stdout
            assert worker.stop() == 0
    with running(wanted, tmp_path) as worker:
        run(mysql, "INSERT INTO shop.badges VALUES ('last', 99, NULL)")
        worker.wait(lambda _: len(rows(stack, wanted["prefix"], "badges")) == 21)
        assert worker.stop() == 0
    assert_folds_to_the_source(mysql, rows(stack, wanted["prefix"], "members"))
    badges = [one.value["after"] for one in rows(stack, wanted["prefix"], "badges")]
    assert badges[:20] == [{"nr": n, "secret": "xx"} for n in range(20)]

    shown = {place: text.encode() for place, text in pages.items()}
    shown |= everything(stack, str(wanted["prefix"]))
    shown |= {str(file): file.read_bytes() for file in files(tmp_path)}
    assert leaks(shown) == set()
    journal = b"\n".join(text for name, text in shown.items() if "journal" in name)
    places = [one for one in journal.split(b"\n") if b'"after":["sealed","s' in one]
    assert {json.loads(one[one.index(b"{") :])["after"][1] for one in places} >= {"s1", "s2"}


@pytest.mark.long(
    "the test above has the missing key; test_snapshot_commands.py a stop and another start"
)
def test_a_key_that_is_lost_for_good_is_passed_by_a_new_start(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    key_file(tmp_path, "s1", "k")
    killed(wanted, tmp_path, monkeypatch, "snapshot.committed=kill@3")
    key_file(tmp_path, "s2", "k")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: "key_file" in _error(status))
        for words in (("pause",), ("resume",), ("stop",), ("start",)):
            asked = run_command(
                tmp_path / "aqueduct.yaml", "snapshot", *words, "shop", "shop.members"
            )
            assert asked.returncode == 0, asked.stdout + asked.stderr + worker.log[-3000:]
        worker.wait(lambda status: status["snapshot"]["shop.members"]["state"] == "done")
        assert worker.stop() == 0
    read = Counter(one.key for one in rows(stack, wanted["prefix"], "members"))
    assert set(read.values()) == {1, 2}, "from the first row on"
    assert len(read) == ROWS


def _error(status: dict[str, Any]) -> str:
    return status["snapshot"].get("shop.members", {}).get("error") or ""
