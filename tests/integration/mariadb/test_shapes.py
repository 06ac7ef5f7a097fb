"""MariaDB's events for statements of every kind, each transaction complete."""

from collections.abc import Iterator
from contextlib import nullcontext

import pymysql
import pytest

from connectors.mysql.binlog.mariadb_events import Alter, MariadbEventType, parse_gtid
from connectors.mysql.binlog.statement_kind import Kind, words
from devstack.mysql import Mysql
from tests.harness.sql import run
from tests.integration.mariadb.source import end_of, events, steps_from, written
from tests.integration.worker.source import decoded, now
from tests.steps import End, Rows, Statement, Step

pytestmark = pytest.mark.stack

DATABASE = "shapes"


@pytest.fixture(scope="module", autouse=True)
def database(mariadb: Mysql) -> None:
    run(mariadb, f"CREATE DATABASE {DATABASE}")


@pytest.fixture(params=["OFF", "ON"])
def compress(request: pytest.FixtureRequest, mariadb: Mysql) -> Iterator[None]:
    """Events as they are, and compressed however small."""
    run(mariadb, f"SET GLOBAL log_bin_compress = {request.param}")
    run(mariadb, "SET GLOBAL log_bin_compress_min_len = 10")
    yield
    run(mariadb, "SET GLOBAL log_bin_compress = OFF")


def described(steps: list[Step]) -> list[str]:
    """The steps in short."""
    return [
        f"{step.table_map.table}+" if isinstance(step, Rows)
        else step.kind.value if isinstance(step, Statement)
        else "end"
        for step in steps
    ]  # fmt: skip


@pytest.mark.usefixtures("compress")
@pytest.mark.parametrize(
    ("name", "statements", "expected"),
    [
        ("plain", ["INSERT INTO {t} VALUES (1, 'a')"], ["{t}+", "end"]),
        (
            "several",
            ["BEGIN", "INSERT INTO {t} VALUES (1, 'a')", "UPDATE {t} SET v = 'b'", "DELETE FROM {t}", "COMMIT"],
            ["{t}+", "{t}+", "{t}+", "end"],
        ),
        ("rolled_back", ["BEGIN", "INSERT INTO {t} VALUES (1, 'a')", "ROLLBACK"], []),
        ("selected", ["CREATE TABLE {t}_b AS SELECT 1 AS id"], ["ddl", "{t}_b+", "end"]),
        (
            "several_tables",
            ["CREATE TABLE {t}_b LIKE {t}", "INSERT INTO {t} VALUES (1, 'a')",
             "INSERT INTO {t}_b VALUES (1, 'b')",
             "UPDATE {t} JOIN {t}_b USING (id) SET {t}.v = 'c', {t}_b.v = 'd'"],
            ["ddl", "end", "{t}+", "end", "{t}_b+", "end", "{t}+", "{t}_b+", "end"],
        ),
        (
            "myisam",
            ["CREATE TABLE {t}_m (id int primary key) ENGINE = MyISAM", "INSERT INTO {t}_m VALUES (1), (2)"],
            ["ddl", "end", "{t}_m+", "end"],
        ),
        (
            "sequence",
            ["CREATE SEQUENCE {t}_s", "DO NEXTVAL({t}_s)"],
            ["ddl", "end", "{t}_s+", "end"],
        ),
        ("returning", ["INSERT INTO {t} VALUES (1, 'a') RETURNING id"], ["{t}+", "end"]),
        ("truncated", ["TRUNCATE {t}"], ["truncate", "end"]),
        ("replaced", ["CREATE OR REPLACE TABLE {t} (a int)", "INSERT INTO {t} VALUES (1)"],
         ["ddl", "end", "{t}+", "end"]),
        (
            "generated",
            ["ALTER TABLE {t} ADD g int AS (id + 1) PERSISTENT, ADD h int AS (id + 2), ADD i int INVISIBLE",
             "INSERT INTO {t} (id) VALUES (1)"],
            ["ddl", "end", "{t}+", "end"],
        ),
        (
            "for_portion",
            ["CREATE TABLE {t}_p (id int, a date, b date, PERIOD FOR p (a, b))",
             "INSERT INTO {t}_p VALUES (1, '2026-01-01', '2026-12-31')",
             "DELETE FROM {t}_p FOR PORTION OF p FROM '2026-03-01' TO '2026-04-01'"],
            ["ddl", "end", "{t}_p+", "end", "{t}_p+", "{t}_p+", "end"],
        ),
    ],
)  # fmt: skip
def test_each_statement_is_a_whole_transaction(
    mariadb: Mysql,
    request: pytest.FixtureRequest,
    name: str,
    statements: list[str],
    expected: list[str],
) -> None:
    table = f"{name}_{request.node.callspec.params['compress'].lower()}"
    run(mariadb, f"CREATE TABLE {DATABASE}.{table} (id int primary key, v varchar(20))")
    steps = written(mariadb, f"USE {DATABASE}", *(each.format(t=table) for each in statements))
    found = described(steps)
    if name == "for_portion":
        # The rows around the portion may share an event.
        found = [each for n, each in enumerate(found) if n < 5 or each != found[n - 1]]
        expected = [*expected[:5], "end"]
    assert found == [each.format(t=table) for each in expected]
    decoded(mariadb, steps)


def test_a_versioned_tables_history_is_rows_of_their_own(mariadb: Mysql) -> None:
    table = f"{DATABASE}.versioned"
    steps = written(
        mariadb,
        f"CREATE TABLE {table} (id int primary key, v int) WITH SYSTEM VERSIONING",
        f"INSERT INTO {table} VALUES (1, 1)",
        f"UPDATE {table} SET v = 2",
        f"DELETE FROM {table}",
    )
    rows = decoded(mariadb, steps)
    assert [(row.change.before is None, row.after()["v"]) for row in rows] == [
        (True, 1), (False, 2), (True, 1), (False, 2),
    ]  # fmt: skip
    first = rows[0]
    assert first.names == ("id", "v", "row_start", "row_end")
    assert first.table.primary_key == (0, 3)
    assert first.after()["row_end"].startswith(("2038-01-19T03:14:07", "2106-02-07T06:28:15"))


@pytest.mark.parametrize("outcome", ["COMMIT", "ROLLBACK"])
def test_an_alter_in_two_phases_is_published_once_and_only_if_it_happened(
    mariadb: Mysql, outcome: str
) -> None:
    table = f"{DATABASE}.phases_{outcome.lower()}"
    run(mariadb, f"CREATE TABLE {table} (a int)", f"INSERT INTO {table} VALUES (1), (1)")
    begin = now(mariadb)
    change = "ADD b int" if outcome == "COMMIT" else "ADD UNIQUE (a)"
    refused = pytest.raises(pymysql.err.IntegrityError) if outcome == "ROLLBACK" else nullcontext()
    with refused:
        run(
            mariadb,
            "SET SESSION binlog_alter_two_phase = ON",
            f"ALTER TABLE {table} {change}, ALGORITHM = COPY",
        )
    steps = steps_from(mariadb, begin)
    starts = [
        parse_gtid(one.event.body, one.event.server_id)
        for one in events(mariadb, begin, end_of(mariadb))
        if one.event.type == MariadbEventType.GTID
    ]
    assert [each.alter for each in starts] == [Alter.START, Alter[outcome]]
    assert starts[0].gtid.endswith(f"-{starts[1].alter_start}")
    assert described(steps) == (["end", "ddl", "end"] if outcome == "COMMIT" else ["end"] * 2)


def test_halves_of_an_xa_transaction_say_so(mariadb: Mysql) -> None:
    table = f"{DATABASE}.xa"
    run(mariadb, f"CREATE TABLE {table} (a int primary key)")
    begin = now(mariadb)
    run(
        mariadb,
        "XA START 'one', 'two', 3",
        f"INSERT INTO {table} VALUES (1)",
        "XA END 'one', 'two', 3",
        "XA PREPARE 'one', 'two', 3",
        "XA COMMIT 'one', 'two', 3",
    )
    starts = [
        parse_gtid(one.event.body, one.event.server_id)
        for one in events(mariadb, begin, end_of(mariadb))
        if one.event.type == MariadbEventType.GTID
    ]
    assert [each.xid for each in starts] == ["X'6f6e65',X'74776f',3"] * 2
    assert [each.standalone for each in starts] == [False, True]


def test_transactions_of_one_group_commit_are_distinguished(mariadb: Mysql) -> None:
    table = f"{DATABASE}.grouped"
    run(mariadb, f"CREATE TABLE {table} (a int primary key)")
    steps = written(mariadb, *(f"INSERT INTO {table} VALUES ({n})" for n in range(20)))
    ends = [step for step in steps if isinstance(step, End)]
    numbers = [int((end.transaction.gtid or "").rpartition("-")[2]) for end in ends]
    assert numbers == list(range(numbers[0], numbers[0] + 20))


def test_statements_are_annotated_where_they_are_asked_for(mariadb: Mysql) -> None:
    table = f"{DATABASE}.noted"
    run(mariadb, "SET GLOBAL binlog_annotate_row_events = ON", f"CREATE TABLE {table} (a int)")
    texts = [f"INSERT INTO {table} VALUES ({n}) /* Zoë */" for n in (1, 2)]
    begin = now(mariadb)
    run(mariadb, "BEGIN", *texts, "COMMIT")
    for wanted, expected in ((True, texts), (False, [None, None])):
        steps = steps_from(mariadb, begin, statements=wanted)
        assert [step.query for step in steps if isinstance(step, Rows)] == expected


def test_the_kind_of_each_statement_of_mariadbs_is_known(mariadb: Mysql) -> None:
    steps = written(
        mariadb,
        f"USE {DATABASE}",
        "CREATE OR REPLACE SEQUENCE kinds_s",
        "ALTER SEQUENCE kinds_s MAXVALUE 1000",
        "DROP SEQUENCE kinds_s",
        "CREATE OR REPLACE VIEW kinds_v AS SELECT 1",
        "CREATE OR REPLACE FUNCTION kinds_f() RETURNS int DETERMINISTIC RETURN 1",
        "CREATE ROLE kinds_r",
        "GRANT kinds_r TO aqueduct",
        "DROP ROLE kinds_r",
        "CREATE TABLE kinds_t (a int)",
        "RENAME TABLE IF EXISTS kinds_t TO kinds_u",
        "ANALYZE TABLE kinds_u PERSISTENT FOR ALL",
        "OPTIMIZE TABLE kinds_u",
        "DROP TABLE kinds_u",
    )
    ddl = [step for step in steps if isinstance(step, Statement)]
    assert {step.kind for step in ddl} == {Kind.DDL}
    verbs = [words(step.query.sql, 1)[0] for step in ddl]
    assert verbs == ["CREATE", "ALTER", "DROP", "CREATE", "CREATE", "CREATE", "RENAME", "DROP"]
    # Roles, grants and upkeep change no table: they are transactions without an event for them.
    assert len([step for step in steps if isinstance(step, End)]) == 13
