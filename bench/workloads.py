"""Workloads: tables, the procedures that fill them, and the expected counts.

Invariant: a workload's text determines its binlog to the last row, so its counts are known in
advance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

DATABASE = "bench"
MARK = "mark"
"""The table that gets one row after each workload; runs that skip the workload capture only this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The statements of a workload, and its contents."""

    name: str
    about: str
    tables: tuple[str, ...]
    pattern: str
    """A regular expression for the tables, valid for every peer."""
    schema: tuple[str, ...]
    call: str
    transactions: int
    creates: int
    updates: int = 0
    deletes: int = 0
    beside: tuple[str, ...] = ()
    """Further tables that `pattern` matches, whose records are not counted."""

    @property
    def rows(self) -> int:
        """Row events in the binlog."""
        return self.creates + self.updates + self.deletes


def digest(recipes: Sequence[Recipe]) -> str:
    """A digest of the recipes' texts, which identifies their binlogs."""
    text = "\0".join(f"{recipe.name}\0{recipe.schema}\0{recipe.call}" for recipe in recipes)
    return hashlib.sha256(text.encode()).hexdigest()


def small(name: str, transactions: int, *, tables: int = 1, stem: str = "sbtest") -> Recipe:
    """Transactions of one row on tables like sysbench's: every fifth row is updated, every tenth deleted."""
    names = tuple(f"{stem}{n + 1}" for n in range(tables))
    updates, deletes = len(range(1, transactions, 5)), len(range(3, transactions, 10))
    return Recipe(
        name=name,
        about=f"{transactions:,} single-row inserts, 20 % updates, 10 % deletes, {tables} table(s)",
        tables=names,
        pattern=rf"{stem}\d+",
        schema=(*(_SBTEST.format(table=table) for table in names), _small_procedure(stem, names)),
        call=f"CALL fill_{stem}({transactions})",
        transactions=transactions + updates + deletes,
        creates=transactions,
        updates=updates,
        deletes=deletes,
    )


def bulk(name: str, transactions: int, *, tables: int = 1, stem: str = "orders") -> Recipe:
    """Transactions of 100 rows with 12 columns of mixed types, each into the next table."""
    names = tuple(f"{stem}{n + 1}" for n in range(tables))
    return Recipe(
        name=name,
        about=f"{transactions:,} transactions of 100 rows with 12 columns, {tables} table(s)",
        tables=names,
        pattern=rf"{stem}\d+",
        schema=(*(ORDERS.format(table=table) for table in names), _bulk_procedure(stem, tables)),
        call=f"CALL fill_{stem}({transactions})",
        transactions=transactions,
        creates=transactions * ROWS_OF_A_BULK,
    )


ROWS_OF_A_BULK = 100

BASE = (
    f"DROP DATABASE IF EXISTS {DATABASE}",
    f"CREATE DATABASE {DATABASE}",
    f"USE {DATABASE}",
    f"CREATE TABLE {MARK} (id INT PRIMARY KEY AUTO_INCREMENT, workload VARCHAR(40) NOT NULL)",
    "CREATE TABLE seqs (seq INT PRIMARY KEY)",
    "INSERT INTO seqs VALUES " + ",".join(f"({n})" for n in range(ROWS_OF_A_BULK)),
)
"""The statements that all workloads require."""

_SBTEST = """CREATE TABLE {table} (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0,
  c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY (k))"""

ORDERS = """CREATE TABLE {table} (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, customer_id INT NOT NULL,
  status ENUM('new','paid','shipped','done') NOT NULL, amount DECIMAL(12,2) NOT NULL,
  note VARCHAR(255), flags SET('a','b','c'), created DATETIME(3) NOT NULL, updated TIMESTAMP(6) NULL,
  doc JSON, qty SMALLINT UNSIGNED, ratio DOUBLE, blobv VARBINARY(64))"""

_SMALL_BODY = """
    INSERT INTO {table} (k, c, pad) VALUES
      (i, CONCAT(REPEAT(LEFT(SHA2(i, 256), 32), 3), '-abc'), LEFT(SHA2(i + 1, 256), 32));
    IF i % 5 = 1 THEN UPDATE {table} SET k = k + 1 WHERE id = LAST_INSERT_ID(); END IF;
    IF i % 10 = 3 THEN DELETE FROM {table} WHERE id = LAST_INSERT_ID(); END IF;"""


def _small_procedure(stem: str, tables: Sequence[str]) -> str:
    bodies = [_SMALL_BODY.format(table=table) for table in tables]
    if len(tables) == 1:
        body = bodies[0]
    else:
        # A different table each time; every table has its share of updates and deletes.
        cases = "".join(f" WHEN {n} THEN {text}" for n, text in enumerate(bodies))
        body = f"CASE (i + i DIV 10) % {len(tables)} {cases} END CASE;"
    return f"""CREATE PROCEDURE fill_{stem} (n INT) BEGIN
  DECLARE i INT DEFAULT 0;
  WHILE i < n DO {body}
    SET i = i + 1;
  END WHILE; END"""


def _bulk_procedure(stem: str, tables: int) -> str:
    return f"""CREATE PROCEDURE fill_{stem} (n INT) BEGIN
  DECLARE i INT DEFAULT 0;
  WHILE i < n DO
    SET @i = i;
    SET @text = CONCAT('INSERT INTO {stem}', 1 + i % {tables},
      ' (customer_id, status, amount, note, flags, created, updated, doc, qty, ratio, blobv)
        SELECT @i + seq, ELT(1 + seq % 4, ''new'', ''paid'', ''shipped'', ''done''), seq * 1.23 + @i,
        CONCAT(''note '', LEFT(SHA2(seq + @i, 256), 32)), ''a,c'', NOW(3), NOW(6),
        JSON_OBJECT(''k'', seq, ''s'', LEFT(SHA2(seq, 256), 32), ''arr'', JSON_ARRAY(1, 2, seq)),
        seq, RAND(), UNHEX(LEFT(SHA2(seq, 256), 32)) FROM seqs');
    PREPARE fill FROM @text;
    EXECUTE fill;
    SET i = i + 1;
  END WHILE; END"""


W1 = small("W1", 300_000)
W2 = bulk("W2", 5_000)
W1_SPREAD = small("W1x50", 300_000, tables=50, stem="spread")
W2_SPREAD = bulk("W2x50", 5_000, tables=50, stem="parcels")
COUNTED = (W1, W2)
"""The workloads of the ratios: one table, one partition."""
SHOWN = (W1_SPREAD, W2_SPREAD)
"""Additional workloads: 50 tables."""
