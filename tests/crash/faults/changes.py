"""Loads that are hard to publish: large transactions, new and altered tables."""

from __future__ import annotations

from tests.crash.scenario import fault
from tests.crash.scene import Scene

_LARGE = 30_000
_TABLES = 24
_FIRST, _SECOND = 80_000_000, 85_000_000
_DDL = (
    # Nobody's INSERT without names sees it.
    "ALTER TABLE shop.goods ADD COLUMN hidden INT NOT NULL DEFAULT 7 INVISIBLE",
    "ALTER TABLE shop.moves MODIFY v VARCHAR(500)",
    "CREATE TABLE shop.others (id BIGINT PRIMARY KEY, t TEXT)",
    "INSERT INTO shop.others VALUES (1, 'one'), (2, 'two')",
    "ALTER TABLE shop.goods ADD INDEX by_n (n)",
    "ALTER TABLE shop.others ADD COLUMN d DATETIME(3) FIRST",
    "UPDATE shop.others SET t = 'first' WHERE id = 1",
    "ALTER TABLE shop.goods DROP COLUMN hidden",
    "ALTER TABLE shop.moves MODIFY v VARCHAR(600), ALGORITHM=COPY",
)


@fault("load.large", f"a transaction of {_LARGE:,} rows, with a kill -9 during it")
def large(at: Scene) -> str:
    at.begin()
    _write_much(at, _FIRST)
    at.pause(0.1, 1.0)
    at.worker.kill()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("load.cut", f"the link to MySQL is cut within a transaction of {_LARGE:,} rows, three times")
def cut(at: Scene) -> str:
    at.begin()
    for n in range(3):
        at.mysql.way("down", cut_after=at.rng.randint(100_000, 1_500_000))
        if not n:
            _write_much(at, _SECOND)
        at.pause(1, 3)
    at.mysql.restore()
    return f"recovered in {at.wait_recovered():.1f} s"


def _write_much(at: Scene, first: int) -> None:
    at.servers.run(
        f"SET SESSION cte_max_recursion_depth = {_LARGE}",
        "INSERT INTO shop.moves (id, n, v) "
        f"WITH RECURSIVE one (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < {_LARGE}) "
        f"SELECT {first} + n, n, REPEAT('x', 100) FROM one",
    )


@fault(
    "load.tables",
    f"{_TABLES} tables are created and written to in one transaction, with a kill -9 during it",
)
def tables(at: Scene) -> str:
    # The sink takes seconds for each of them, in which nothing is done to it.
    at.not_sunk = r".*\.shop\.many[0-9]+"
    at.begin()
    names = [f"shop.many{number}" for number in range(_TABLES)]
    at.servers.run(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in names))
    at.servers.run("BEGIN", *(f"INSERT INTO {name} VALUES (1)" for name in names), "COMMIT")
    at.pause(0.1, 3.0)
    at.worker.kill()
    return f"recovered in {at.wait_recovered(seconds=180):.1f} s"


@fault("load.ddl", "tables are created and altered under load, with a kill -9 during it")
def ddl(at: Scene) -> str:
    at.begin()
    killed = at.rng.randrange(len(_DDL))
    for n, statement in enumerate(_DDL):
        at.servers.run(statement)
        if n == killed:
            at.worker.kill()
        at.pause(0.1, 0.6)
    return f"{len(_DDL)} statements; recovered in {at.wait_recovered():.1f} s"
