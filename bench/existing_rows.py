"""Tables full of rows for benchmarks of snapshots, and what a peer must have published of them.

Invariant: rows are in no binlog, and made once: those of a server are used again only if the same statements
made them, to the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from bench.binlogs import BinlogRange, Workload
from bench.errors import RunFailed
from bench.large import connected
from bench.peers.peer import Peer, Task
from bench.workloads import DATABASE, ORDERS, Recipe
from devstack import topics as consumed
from devstack.mysql import Mysql
from devstack.progress import report_progress

PROBE = "probe"
"""The table of the client that works beside a snapshot."""
PROBE_ROWS = 1_000
STATEMENT_ROWS = 10_000
"""Rows of one INSERT, and of each of the many tables."""
_NUMBERS = f"""INSERT INTO numbers
  WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {STATEMENT_ROWS - 1})
  SELECT n FROM n"""
_FILL_ORDERS = """INSERT INTO orders1 SELECT n + 1 + {first}, n + {first},
  ELT(1 + n % 4, 'new', 'paid', 'shipped', 'done'), (n % 100) * 1.23 + {first},
  CONCAT('note ', LEFT(SHA2(n + {first}, 256), 32)), 'a,c', NOW(3), NOW(6),
  JSON_OBJECT('k', n % 100, 's', LEFT(SHA2(n, 256), 32), 'arr', JSON_ARRAY(1, 2, n % 100)), n % 100, RAND(),
  UNHEX(LEFT(SHA2(n, 256), 32)) FROM numbers WHERE n + {first} < {rows}"""
_SMALL = """CREATE TABLE small{number} (
  id INT PRIMARY KEY, k INT NOT NULL, c VARCHAR(60) NOT NULL, made DATETIME NOT NULL)"""
_FILL_SMALL = """INSERT INTO small{number} SELECT n + 1, n % 97, CONCAT('row ', LEFT(SHA2(n, 256), 32)), NOW()
  FROM numbers"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingRows:
    """The size of one large table, and the number of small ones."""

    rows: int
    tables: int

    def workloads(self) -> tuple[Workload, Workload]:
        """One table with a client beside it, and many tables."""
        names = tuple(f"small{number}" for number in range(1, self.tables + 1))
        one = Recipe(
            name="one",
            about=f"one table of {self.rows:,} rows with 12 columns, as W2 has them",
            tables=("orders1",),
            pattern=f"(orders1|{PROBE})",
            schema=(),
            call="",
            transactions=0,
            creates=self.rows,
            beside=(PROBE,),
        )
        many = Recipe(
            name="many",
            about=f"{self.tables:,} tables of {STATEMENT_ROWS:,} rows with 4 columns",
            tables=names,
            pattern=r"small\d+",
            schema=(),
            call="",
            transactions=0,
            creates=self.tables * STATEMENT_ROWS,
        )
        nowhere = BinlogRange(file="", gtids="", end_file="", end_gtids="", bytes=0)
        return Workload(one, nowhere), Workload(many, nowhere)

    def forget_other(self, folder: Path) -> None:
        """Remove a server's data that these statements have not made, or not to the end."""
        if _kept(folder) != self._digest():
            shutil.rmtree(folder / "mysql", ignore_errors=True)
            _file(folder).unlink(missing_ok=True)

    def make(self, mysql: Mysql, folder: Path) -> None:
        """Write the rows, unless the server has them."""
        if _kept(folder) == self._digest():
            return
        began = time.monotonic()
        report_progress("bench-snapshot", f"making {self.rows:,} rows and {self.tables:,} tables")
        with connected(mysql) as cursor:
            for statement in self._statements():
                cursor.execute(statement)
        _file(folder).write_text(json.dumps(self._digest()))
        report_progress("bench-snapshot", f"they are made: {time.monotonic() - began:.0f} s")

    def _statements(self) -> Iterator[str]:
        yield "SET SESSION sql_log_bin = 0"
        yield f"SET SESSION cte_max_recursion_depth = {STATEMENT_ROWS}"
        yield f"DROP DATABASE IF EXISTS {DATABASE}"
        yield f"CREATE DATABASE {DATABASE}"
        yield f"USE {DATABASE}"
        yield "CREATE TABLE numbers (n INT PRIMARY KEY)"
        yield _NUMBERS
        yield f"CREATE TABLE {PROBE} (id INT PRIMARY KEY, n BIGINT NOT NULL, note VARCHAR(60) NOT NULL)"
        yield f"INSERT INTO {PROBE} SELECT n, 0, SHA2(n, 224) FROM numbers WHERE n < {PROBE_ROWS}"
        yield ORDERS.format(table="orders1")
        for first in range(0, self.rows, STATEMENT_ROWS):
            yield _FILL_ORDERS.format(first=first, rows=self.rows)
        for number in range(1, self.tables + 1):
            yield _SMALL.format(number=number)
            yield _FILL_SMALL.format(number=number)

    def _digest(self) -> str:
        return hashlib.sha256("\0".join(self._statements()).encode()).hexdigest()


def _file(folder: Path) -> Path:
    return folder / "rows.json"


def _kept(folder: Path) -> object:
    try:
        return json.loads(_file(folder).read_text())
    except (OSError, ValueError):
        return None


@dataclass(slots=True)
class Read:
    """What a topic has: its records by `op`, and sums of the keys of existing rows."""

    ops: Counter[str] = field(default_factory=Counter)
    keys: int = 0
    squares: int = 0

    def add(self, key: bytes, value: bytes) -> None:
        """Add a record."""
        op = "r" if b'"op":"r"' in value else str(orjson.loads(value)["op"])
        self.ops[op] += 1
        number = orjson.loads(key)["id"]
        self.keys += number
        self.squares += number * number

    @classmethod
    def of(cls, rows: int) -> Read:
        """What it has to be of a table with the keys from 1 on."""
        return cls(
            ops=Counter(r=rows),
            keys=rows * (rows + 1) // 2,
            squares=rows * (rows + 1) * (2 * rows + 1) // 6,
        )


def verify(peer: Peer, task: Task, topics: list[str]) -> None:
    """Compare topics with their tables, of which each has the same number of rows; raise RunFailed."""
    found = asyncio.run(_read(task.servers.kafka, topics))
    wanted = Read.of(task.workload.recipe.rows // len(topics))
    for topic in topics:
        one = found.get(topic, Read())
        if one != wanted:
            raise RunFailed(f"{peer.name}, {topic}: {one}, not {wanted}")


async def _read(bootstrap: str, topics: list[str]) -> dict[str, Read]:
    found: dict[str, Read] = {}
    options = {"max_partition_fetch_bytes": 8 * 2**20, "check_crcs": False}
    try:
        async for messages in consumed.batches(bootstrap, topics, **options):
            for message in messages:
                found.setdefault(message.topic, Read()).add(message.key, message.value)
    except consumed.TopicsUnreadable as error:
        raise RunFailed(f"{', '.join(topics)}: {error}") from error
    return found
