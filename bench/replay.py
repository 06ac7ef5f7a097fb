"""`python -m bench.replay`: DDL statements per second in our model and in sqlglot's parser.

Invariant: ours parses each statement and applies it to all tables; the peer only parses, and its
figure includes statements that it cannot parse. Both run in this process, one after the other, over
the same texts; seconds are of CPU, so that a busy machine affects them little.
"""

from __future__ import annotations

import gc
import itertools
import logging
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from bench import report, session
from connectors.errors import DdlUnresolved
from connectors.mysql.binlog import query_session
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session
from tests.integration.ddl.corpus_files import CorpusFile, corpus

TABLES = 10_000
ALTERS = 100_000
ROUNDS = 5
"""The number of passes over the corpus, which is short; the median counts."""
PEER_SHARE = 10
"""The peer parses every tenth of the generated statements, as they are alike."""
SERVER = Server(version=(9, 7, 4))

Statement = tuple[str, Session]

_CREATE = """\
CREATE TABLE `shop_{n}`.`orders_{n}` (
  `id` bigint unsigned NOT NULL AUTO_INCREMENT,
  `customer_id` int unsigned NOT NULL,
  `state` enum('new','paid','sent','back') NOT NULL DEFAULT 'new',
  `total` decimal(12,2) NOT NULL DEFAULT '0.00',
  `note` varchar(255) COLLATE utf8mb4_unicode_ci DEFAULT NULL,
  `created_at` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  `document` json DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `customer` (`customer_id`,`created_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci"""
_ALTERS = (
    "ADD COLUMN `extra` varchar(64) NOT NULL DEFAULT '' AFTER `state`",
    "MODIFY `note` varchar(500) CHARACTER SET utf8mb4 DEFAULT NULL, ADD INDEX `by_extra` (`extra`)",
    "CHANGE `extra` `more` varchar(80) DEFAULT NULL COMMENT 'said by the customer'",
    "ADD COLUMN `paid_at` timestamp NULL DEFAULT NULL, ADD COLUMN `paid_by` int DEFAULT NULL",
    "ADD UNIQUE KEY `paid` (`paid_at`, `id`), ALTER COLUMN `total` SET DEFAULT '1.00'",
    "DROP COLUMN `paid_by`, MODIFY `state` enum('new','paid','sent','back','lost') NOT NULL",
    "RENAME COLUMN `more` TO `extra`, DROP INDEX `by_extra`",
    "DROP KEY `paid`, DROP COLUMN `paid_at`",
    "ENGINE=InnoDB, COMMENT='as of now'",
    "DROP COLUMN `extra`, MODIFY `state` enum('new','paid','sent','back') NOT NULL DEFAULT 'new'",
)


@dataclass(frozen=True, slots=True)
class Rate:
    """The number of statements, their CPU seconds, and the number that failed."""

    statements: int
    seconds: float
    failed: int

    @property
    def per_second(self) -> float:
        """Statements per second."""
        return self.statements / self.seconds


def created() -> Iterator[Statement]:
    """The CREATE statements of the generated tables."""
    return ((_CREATE.format(n=n), Session()) for n in range(TABLES))


def altered() -> Iterator[Statement]:
    """All ALTER statements: one on each table, then the next on each."""
    texts = itertools.cycle(_ALTERS)
    for text in itertools.islice(texts, ALTERS // TABLES):
        for n in range(TABLES):
            yield f"ALTER TABLE `orders_{n}` {text}", Session(database=f"shop_{n}")


def of_corpus() -> list[list[Statement]]:
    """The statements of each file for MySQL 9.7, with their sessions."""
    return [list(_under(file)) for file in corpus() if "9.7" in file.servers]


_USE = re.compile(r"\s*USE\s+`?(\w+)`?\s*", re.IGNORECASE)
_MODE = re.compile(r"SET (?:SESSION )?sql_mode = '([^']*)'", re.IGNORECASE)


def _under(file: CorpusFile) -> Iterator[Statement]:
    database, modes = None, query_session.DEFAULT
    for entry in file.on("9.7"):
        if used := _USE.fullmatch(entry.sql):
            database = used[1]
        if mode := _MODE.fullmatch(entry.sql):
            modes = query_session.of_text(mode[1])
        yield entry.sql, Session(database=database, sql_mode=modes)


def ours(catalog: Catalog, statements: Iterable[Statement]) -> Rate:
    """Apply statements to a catalog."""

    def take(sql: str, under: Session) -> bool:
        try:
            catalog.apply(sql, under)
        except DdlUnresolved:
            return False
        return True

    return _rate(statements, take)


def sqlglots(statements: Iterable[Statement]) -> Rate:
    """Parse statements by the peer; one that it keeps as plain text has failed."""

    def take(sql: str, _: Session) -> bool:
        try:
            return not isinstance(parse_one(sql, read="mysql"), exp.Command)
        except SqlglotError:
            return False

    return _rate(statements, take)


def _rate(statements: Iterable[Statement], take: Callable[[str, Session], bool]) -> Rate:
    done = failed = 0
    gc.collect()
    begin = time.process_time()
    for sql, under in statements:
        done += 1
        failed += not take(sql, under)
    return Rate(done, time.process_time() - begin, failed)


def story() -> None:
    """Run both on both sets of statements, and print the last line."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of unparsable statements
    catalog = Catalog(SERVER, logged=False)
    made = ours(catalog, created())
    long = ours(catalog, altered())
    if made.failed + long.failed:
        raise AssertionError("a generated statement was not resolved")
    memory = _resident()
    files = of_corpus()
    short = _median([_whole(files) for _ in range(ROUNDS)])
    peer_long = sqlglots(itertools.islice(altered(), 0, None, PEER_SHARE))
    peer_short = _median([sqlglots(itertools.chain(*files)) for _ in range(ROUNDS)])
    for name, mine, theirs in (("generated", long, peer_long), ("corpus", short, peer_short)):
        print(_line(name, mine, theirs))
    print(f"{TABLES:,} tables made at {made.per_second:,.0f} a second, {len(catalog):,} kept")
    kept = report.keep(session.RESULTS, "replay", _figures(long, short, peer_long, peer_short))
    print(f"all figures: {kept}")
    print(
        f"replay: statements_per_second={long.per_second:.0f} corpus={short.per_second:.0f} "
        f"rss_mib={memory} sqlglot={peer_long.per_second:.0f} "
        f"ratio={long.per_second / peer_long.per_second:.2f} "
        f"ratio_corpus={short.per_second / peer_short.per_second:.2f}",
        flush=True,
    )


def _whole(files: Sequence[Sequence[Statement]]) -> Rate:
    """Run the corpus, each file on its own empty catalog."""
    rates = [ours(Catalog(SERVER, logged=False), file) for file in files]
    return Rate(
        sum(rate.statements for rate in rates),
        sum(rate.seconds for rate in rates),
        sum(rate.failed for rate in rates),
    )


def _median(rates: list[Rate]) -> Rate:
    seconds = statistics.median(rate.seconds for rate in rates)
    return Rate(rates[0].statements, seconds, rates[0].failed)


def _line(name: str, mine: Rate, theirs: Rate) -> str:
    return (
        f"{name:<10} ours, read and applied: {mine.statements:,} at {mine.per_second:,.0f} a second, "
        f"{mine.failed} not resolved; sqlglot, parsed: {theirs.statements:,} at "
        f"{theirs.per_second:,.0f}, {theirs.failed} not understood"
    )


def _figures(*rates: Rate) -> dict[str, object]:
    names = ("generated", "corpus", "sqlglot_generated", "sqlglot_corpus")
    return {
        name: {"statements": rate.statements, "seconds": rate.seconds, "failed": rate.failed}
        for name, rate in zip(names, rates, strict=True)
    }


def _resident() -> int:
    """The peak memory of this process in MiB."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) // 1024


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: python -m bench.replay")
    sys.exit(session.run("bench-replay", story))
