"""The verdict on existing rows: the topics against the tables themselves, and the audit's judge beside it.

Invariant: nothing of the worker is used but its published records; the tables are read with a SELECT once
the storm has ended.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from app.audit.audit import Scope, audit
from app.audit.topics.topics import KafkaTopics
from app.audit.truth.mysqlbinlog import BinlogFiles
from app.audit.verdict import Verdict
from app.operator.audit import run_beside_kafka
from devstack import Stack
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.crash.existing.storm import KEYED
from tests.crash.verdict import Findings
from tests.harness.sql import ask, connected
from tests.harness.topics import Change, rows, statements

Row = dict[str, Any]


def judged(stack: Stack, mysql: Mysql, prefix: str) -> tuple[Findings, Verdict | None]:
    """All findings by kind, without empty kinds; and the audit, for its counts: there is none of MariaDB."""
    changes = {table: rows(stack, prefix, table) for table in (*KEYED, "plain", "mark")}
    ddl = statements(stack, prefix)
    everything = [one for some in changes.values() for one in some]
    has_audit = bool(ask(mysql, "SHOW GLOBAL VARIABLES LIKE 'server_uuid'"))
    verdict = audited(stack, mysql, prefix) if has_audit else None
    found = {
        "seq": _numbers([*everything, *ddl]),
        "repeated": _repeated(everything),
        "chunks": list(_chunks(everything)),
        "definition": list(_definitions(changes["altered"], ddl)),
        "plain": _plain(mysql, changes["plain"]),
    }
    for table in KEYED:
        found[f"untrue {table}"], folded = folded_rows(changes[table])
        found[f"values {table}"] = list(_differences(mysql, table, folded))
    if verdict is not None:
        found |= {f"audit {kind.value}": [*map(str, some)] for kind, some in verdict.shown.items()}
    return {kind: what for kind, what in found.items() if what}, verdict


def folded_rows(changes: list[Change]) -> tuple[list[str], dict[bytes, Row]]:
    """The rows that were read and are untrue, and the rows at the end, by key."""
    faults: list[str] = []
    rows_: dict[bytes, Row] = {}
    gone: set[bytes] = set()
    for one in changes:
        op, key, after = one.value["op"], one.key, one.value["after"]
        if op == "t":
            gone |= rows_.keys()
            rows_.clear()
        elif op == "d":
            gone.add(key)
            rows_.pop(key, None)
        else:
            if op == "r" and key in rows_ and not _agree(rows_[key], after):
                faults.append(f"seq {one.seq}: {key!r} is {after} after {rows_[key]}")
            elif op == "r" and key in gone and key not in rows_:
                faults.append(f"seq {one.seq}: {key!r} came back")
            rows_[key] = after
    return faults, rows_


def _agree(one: Row, other: Row) -> bool:
    """Whether two images have the same values in the columns that both have, in whatever type."""
    return all(_number(one[name]) == _number(other[name]) for name in one.keys() & other.keys())


def _number(value: Any) -> Any:
    """A number of any type; a column may have been converted."""
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


def _differences(mysql: Mysql, table: str, folded: dict[bytes, Row]) -> Iterator[str]:
    with connected(mysql) as cursor:
        cursor.execute(f"SELECT * FROM shop.{table}")
        names = [column[0] for column in cursor.description]
        source = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    keys = ("a", "b") if table == "pairs" else ("id",)
    wanted = {tuple(row[name] for name in keys): row for row in source}
    found = {tuple(json.loads(key)[name] for name in keys): row for key, row in folded.items()}
    yield from (f"{table} {key} is missing" for key in sorted(wanted.keys() - found.keys()))
    yield from (f"{table} {key} is still there" for key in sorted(found.keys() - wanted.keys()))
    for key in sorted(wanted.keys() & found.keys()):
        if not _agree(wanted[key] | {"v": int(wanted[key]["v"])}, found[key]):
            yield f"{table} {key} is {found[key]}, not {wanted[key]}"


def _plain(mysql: Mysql, changes: list[Change]) -> list[str]:
    """Rows without a key: how often each is there."""
    folded: Counter[int] = Counter()
    for one in changes:
        if one.value["op"] == "t":
            folded.clear()
        for sign, image in ((-1, one.value["before"]), (1, one.value["after"])):
            if image is not None:
                folded[image["v"]] += sign
    wanted = Counter(v for (v,) in ask(mysql, "SELECT v FROM shop.plain"))
    return [
        f"plain {v} is there {folded[v]} times, not {wanted[v]}"
        for v in sorted(wanted.keys() | folded.keys())
        if wanted[v] != folded[v]
    ]


def _numbers(changes: list[Change]) -> list[str]:
    counts = Counter(one.seq for one in changes)
    wanted = range(1, max(counts, default=0) + 1)
    return [f"seq {n} is there {counts[n]} times" for n in wanted if counts[n] != 1]


def _repeated(changes: list[Change]) -> list[str]:
    counts = Counter(one.change_id for one in changes)
    return [f"{name} is there {n} times" for name, n in counts.items() if n > 1]


def _chunks(changes: list[Change]) -> Iterator[str]:
    """Chunks out of their order: one that is finished is never read again."""
    by_read: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in changes:
        if one.value["op"] == "r":
            read, _, chunk = one.change_id.partition("#")[0].rpartition(":")
            by_read[read].append((one.seq, int(chunk)))
    for read, found in by_read.items():
        for (_, before), (seq, after) in pairwise(sorted(found)):
            if after < before:
                yield f"{read}: chunk {after} follows chunk {before} at seq {seq}"


def _definitions(changes: list[Change], ddl: list[Change]) -> Iterator[str]:
    """Rows that were read and have other columns than their table had since the last statement."""
    altered = [
        (one.seq, [column["name"] for column in table["new"]["columns"]])
        for one in ddl
        for table in one.value.get("tables", ())
        if table["table"] == "altered" and table["new"] is not None
    ]
    for one in changes:
        if one.value["op"] == "r":
            names = [names for seq, names in altered if seq < one.seq]
            if names and list(one.value["after"]) != names[-1]:
                yield f"seq {one.seq} has {list(one.value['after'])}, not {names[-1]}"


def audited(stack: Stack, mysql: Mysql, prefix: str) -> Verdict:
    """The audit by mysqlbinlog's output of the server's files."""
    files = BinlogFiles(
        paths=tuple(sorted(mysql.data.glob("binlog.[0-9]*"))),
        server_uuid=str(ask(mysql, "SELECT @@GLOBAL.server_uuid")[0][0]),
        program=mysql.mysqlbinlog or ("mysqlbinlog",),
    )

    def work(kafka: KafkaTopics) -> Verdict:
        return audit(
            Scope(
                destination="shop",
                routes=Routes(prefix=prefix, include=r"shop\..*"),
                binlog=files,
                published=kafka,
                from_start=False,
            )
        )

    return asyncio.run(run_beside_kafka({"bootstrap_servers": stack.kafka}, work))
