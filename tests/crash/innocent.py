"""A worker publishes all that a wide corpus has, and an audit by each witness finds no fault, on every MySQL;
what is planted there it finds.

`make test SUITE=audit` runs it; it takes about a quarter of an hour. EVERY=40 takes one of forty byte
sequences and code points.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.audit.audit import Scope, audit
from app.audit.truth.mysql_replication import ReplicationBinlog
from app.audit.truth.mysqlbinlog import BinlogFiles, ServerBinlog
from app.audit.truth.witness import Witness
from app.audit.verdict import FaultKind
from app.operator.audit import INCOMPLETE
from devstack import Stack
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.harness.recorded_topics import RecordedTopics
from tests.harness.servers import own_mysql, own_server
from tests.harness.sql import connected
from tests.harness.worker import running, settings
from tests.integration.auditing.conftest import caught_up, recorded
from tests.integration.auditing.planting import Planting
from tests.integration.auditing.story import play
from tests.integration.auditing.wide import IMAGES, NEWEST, corpus
from tests.integration.worker.source import address_of

SERVERS = (("9.7", "FULL"), ("9.7", "MINIMAL"), ("8.0", "FULL"), ("8.0", "MINIMAL"), ("5.7", ""))
PLACES = {f"shop.places_{image.lower()}" for image in IMAGES}
"""Tables with GEOMETRY, which mysqlbinlog does not print."""
BEYOND = {"9.7": {"shop.vectors", "shop.days"}, "8.0": {"shop.days"}}
"""Tables that mysql-replication does not read."""
SPOILED = (
    ("log", "note", "spoiled"),
    ("keyed_full", "t", "spoiled"),
    ("documents_full", "j", "[0]"),
)
EVERY = int(os.environ.get("EVERY") or 1)
_OPTIONS: dict[str, str | int] = {"server_id": 12, "max_allowed_packet": "64M"}


@pytest.fixture
def mysql(stack: Stack, tmp_path: Path, series: str, metadata: str) -> Iterator[Mysql]:
    options = _OPTIONS | ({"binlog_row_metadata": metadata} if metadata else {})
    own = (
        own_mysql(stack, options=options)
        if series == NEWEST
        else own_server(series, tmp_path / "mysql", options=options)
    )
    with own as server:
        yield server


def audited(folder: Path, *words: str) -> dict[str, Any]:
    """The command's report."""
    done = subprocess.run(
        [sys.executable, "-m", "app", "audit", "shop", "--format", "json", *words],
        env={**os.environ, "AQUEDUCT_CONFIG": str(folder / "aqueduct.yaml")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    right = 0 if found["complete"] else INCOMPLETE
    assert done.returncode == (right if found["clean"] else 1)
    return found


def unread(report: dict[str, Any]) -> set[str]:
    """Tables of which the witness could not read rows."""
    return {what.partition(": ")[0] for what in report["not_read"]}


def spoil(stack: Stack, prefix: str) -> RecordedTopics:
    """The topics with another value in one record of each of some tables, and without one record."""
    planting = Planting(recorded(stack, prefix), prefix)
    for table, column, wrong in SPOILED:
        position = planting.find(f"shop.{table}", lambda value: bool(value["op"] == "c"))[0]
        planting.alter(position, partial(_put, column=column, wrong=wrong))
    planting.drop(planting.find("shop.gone")[0])
    return planting.topics


def files(mysql: Mysql, series: str) -> tuple[str, ...]:
    """The binlog's files, where the newest mysqlbinlog cannot log in to the server."""
    if series == NEWEST:
        return ()
    uuid = (mysql.data / "auto.cnf").read_text().partition("server-uuid=")[2].strip()
    found = sorted(path for path in mysql.data.glob("*bin*.0*") if path.suffix[1:].isdigit())
    return ("--server", uuid, "--binlogs", *map(str, found))


def _put(value: dict[str, Any], *, column: str, wrong: str) -> None:
    value["after"][column] = wrong


def of_library(mysql: Mysql, stack: Stack, series: str, *, plain: bool) -> Iterator[Witness]:
    """The same witnesses, without the command."""
    program, address = stack.mysql.mysqlbinlog or (), address_of(mysql)
    if series == NEWEST:
        yield ServerBinlog.of(address, program)
    else:
        _, uuid, _, *paths = files(mysql, series)
        yield BinlogFiles(paths=tuple(map(Path, paths)), server_uuid=uuid, program=program)
    if plain:
        yield ReplicationBinlog.of(address)


def charsets(mysql: Mysql) -> list[str]:
    with connected(mysql) as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        found = {row[0] for row in cursor.fetchall()} - {"binary"}
    # Every version takes the name that newer ones give to what was utf8.
    return sorted({"utf8mb3" if name == "utf8" else name for name in found})


@pytest.mark.parametrize(("series", "metadata"), SERVERS)
def test_an_audit_of_everything_finds_no_fault(
    stack: Stack, mysql: Mysql, tmp_path: Path, series: str, metadata: str
) -> None:
    claims = tmp_path / "claims"
    claims.mkdir()
    wanted = settings(
        stack,
        mysql,
        tmp_path,
        oversize="claim_check",
        claim_check_path=str(claims),
        poison="dead_letter",
        poison_limit=10_000,
    )
    wanted["provide_transaction_metadata"] = True
    plain = metadata == "FULL"
    with running(wanted, tmp_path) as worker:
        play(mysql, corpus(series, charsets(mysql), every=EVERY, plain=plain))
        caught_up(worker, mysql)
        status = worker.destination()
        assert [one["table"] for one in status["set_aside"]] == ["shop.torn"]
        assert worker.stop() == 0
    witnesses = [
        ("--mysqlbinlog", shlex.join(stack.mysql.mysqlbinlog or ()), *files(mysql, series))
    ]
    witnesses += [("--witness", "mysql-replication")] if plain else []
    for words in witnesses:
        report = audited(tmp_path, *words)
        result = json.dumps(
            {name: report[name] for name in ("counts", "findings", "not_judged")}, indent=1
        )
        sys.stdout.write(f"{series} {metadata} {words[0]} {report['changes']} {result}\n")
        assert report["clean"], result
        assert report["changes"] > 10_000 // EVERY
        assert report["set_aside"] == {"shop.torn": 3}
        assert unread(report) == (BEYOND[series] if "--witness" in words else PLACES), result
        assert report["complete"] is False
    wrong = spoil(stack, wanted["prefix"])
    for witness in of_library(mysql, stack, series, plain=plain):
        routes = Routes(prefix=wanted["prefix"])
        scope = Scope(destination="shop", routes=routes, binlog=witness, published=wrong)
        counts = audit(scope).counts
        assert (counts[FaultKind.DIFFERENT], counts[FaultKind.LOST]) == (len(SPOILED), 1), (
            witness.name
        )
