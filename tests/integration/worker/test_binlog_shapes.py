"""The binlog's many shapes on a real server: images, compression, files, tables, sessions without GTIDs."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.errors import (
    AqueductError,
    PositionGone,
    PositionPastEnd,
    SourceLost,
)
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.binlog_end import read_end
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, Earliest, first_offset
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.rows.decoder import ABSENT
from connectors.mysql.stream.replica import BinlogStream
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_stack
from tests.harness.sql import connected, run
from tests.integration.remedies import repaired
from tests.integration.worker.source import (
    address_of,
    between,
    decoded,
    end_of,
    facts_of,
    now,
    written,
)
from tests.integration.worker.stated import judged, not_native
from tests.steps import End, Rows, Statement

DATABASE = "shapes"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A MySQL of this module's own: its binlog gets what no reader of the shared one could pass."""
    with own_stack(tmp_path_factory.mktemp("shapes"), services=("mysql",)) as running:
        yield running
        running.mysql.kill()  # its data are of no more use, and an orderly end takes long


@pytest.fixture(scope="module", autouse=True)
def database(stack: Stack) -> None:
    run(stack.mysql, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")


def table(stack: Stack, name: str, columns: str) -> str:
    run(stack.mysql, f"CREATE TABLE {DATABASE}.{name} ({columns})")
    return f"{DATABASE}.{name}"


def test_a_minimal_image_marks_what_it_lacks_as_absent_and_never_as_null(stack: Stack) -> None:
    name = table(stack, "minimal", "id int primary key, a int, b text, n int")
    rows = decoded(
        stack.mysql,
        written(
            stack.mysql,
            "SET SESSION binlog_row_image = MINIMAL",
            f"INSERT INTO {name} (id, a, b) VALUES (1, 2, 'three')",
            f"UPDATE {name} SET a = NULL",
            f"UPDATE {name} SET id = 9",
            f"DELETE FROM {name}",
        ),
    )
    insert, update, key_change, delete = rows
    assert insert.after() == {"id": 1, "a": 2, "b": "three", "n": ABSENT}
    assert update.before() == {"id": 1, "a": ABSENT, "b": ABSENT, "n": ABSENT}
    assert update.after() == {"id": ABSENT, "a": None, "b": ABSENT, "n": ABSENT}
    assert key_change.before()["id"] == 1
    assert key_change.after() == {"id": 9, "a": ABSENT, "b": ABSENT, "n": ABSENT}
    assert delete.before() == {"id": 9, "a": ABSENT, "b": ABSENT, "n": ABSENT}


def test_an_image_without_blobs_lacks_just_those_that_did_not_change(stack: Stack) -> None:
    name = table(stack, "noblob", "id int primary key, a int, b text, j json")
    rows = decoded(
        stack.mysql,
        written(
            stack.mysql,
            f"INSERT INTO {name} VALUES (1, 2, 'three', '[]')",
            "SET SESSION binlog_row_image = NOBLOB",
            f"UPDATE {name} SET a = 3",
            f"UPDATE {name} SET b = NULL",
        ),
    )
    assert rows[1].after() == {"id": 1, "a": 3, "b": ABSENT, "j": "[]"}
    assert rows[1].before() == {"id": 1, "a": 2, "b": ABSENT, "j": "[]"}
    assert rows[2].after() == {"id": 1, "a": 3, "b": None, "j": "[]"}


def test_a_compressed_transaction_holds_the_same_rows(stack: Stack) -> None:
    name = table(stack, "compressed", "id int primary key, t text")
    steps = written(
        stack.mysql,
        "SET SESSION binlog_transaction_compression = ON, cte_max_recursion_depth = 100000",
        f"INSERT INTO {name} WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c"
        " WHERE n < 30000) SELECT n, REPEAT(n, 20) FROM c",
        f"UPDATE {name} SET t = 'x' WHERE id = 7",
    )
    first, second = (step for step in steps if isinstance(step, End))
    rows = decoded(stack.mysql, steps)
    assert [row.after()["id"] for row in rows] == [*range(1, 30001), 7]
    assert first.transaction.gtid
    assert {
        step.start
        for step in steps
        if isinstance(step, Rows) and step.transaction is first.transaction
    }
    assert second.end == end_of(stack.mysql)


def test_rows_continue_in_the_next_file_and_with_new_table_ids(stack: Stack) -> None:
    one = table(stack, "one", "id int primary key")
    two = table(stack, "two", "id int primary key, v varchar(9)")
    steps = written(
        stack.mysql,
        f"INSERT INTO {one} VALUES (1)",
        "FLUSH BINARY LOGS",
        f"INSERT INTO {one} VALUES (2)",
        f"ALTER TABLE {one} ADD COLUMN more int",
        "FLUSH TABLES",
        f"INSERT INTO {one} VALUES (3, 4)",
        f"INSERT INTO {two} VALUES (5, 'five')",
        "FLUSH BINARY LOGS",
        f"INSERT INTO {two} VALUES (6, 'six')",
    )
    rows = [row.after() for row in decoded(stack.mysql, steps)]
    assert rows == [
        {"id": 1},
        {"id": 2},
        {"id": 3, "more": 4},
        {"id": 5, "v": "five"},
        {"id": 6, "v": "six"},
    ]
    places = [step.start.order for step in steps if isinstance(step, Rows)]
    assert places == sorted(places)
    assert len({step.start.file for step in steps if isinstance(step, Rows)}) == 3


def test_a_statement_over_several_tables_gives_each_row_to_its_own(stack: Stack) -> None:
    left = table(stack, "left_side", "id int primary key, a int")
    right = table(stack, "right_side", "id int primary key, b varchar(9)")
    steps = written(
        stack.mysql,
        f"INSERT INTO {left} VALUES (1, 0), (2, 0)",
        f"INSERT INTO {right} VALUES (1, 'x'), (2, 'y')",
        f"UPDATE {left} l JOIN {right} r USING (id) SET l.a = l.id, r.b = CONCAT(r.b, '!')",
    )
    rows = decoded(stack.mysql, steps)[4:]
    assert [row.after() for row in rows if row.table.table == "left_side"] == [
        {"id": 1, "a": 1},
        {"id": 2, "a": 2},
    ]
    assert [row.after() for row in rows if row.table.table == "right_side"] == [
        {"id": 1, "b": "x!"},
        {"id": 2, "b": "y!"},
    ]


def test_create_select_is_one_transaction_of_a_statement_and_rows(stack: Stack) -> None:
    steps = written(stack.mysql, f"CREATE TABLE {DATABASE}.made AS SELECT 1 AS a UNION SELECT 2")
    assert [type(step) for step in steps] == [Statement, Rows, End]
    assert len({step.transaction.id for step in steps}) == 1


def test_cascades_and_triggers_arrive_as_rows_of_the_tables_they_change(stack: Stack) -> None:
    parent = table(stack, "parent", "id int primary key")
    run(
        stack.mysql,
        f"CREATE TABLE {DATABASE}.log (id int primary key auto_increment, what int)",
        f"CREATE TRIGGER {DATABASE}.noted AFTER INSERT ON {parent} FOR EACH ROW"
        f" INSERT INTO {DATABASE}.log (what) VALUES (NEW.id)",
    )
    rows = decoded(stack.mysql, written(stack.mysql, f"INSERT INTO {parent} VALUES (5), (6)"))
    assert sorted((row.table.table, row.after().get("what", row.after()["id"])) for row in rows) == [
        ("log", 5), ("log", 6), ("parent", 5), ("parent", 6),
    ]  # fmt: skip


def test_harmless_statements_and_savepoints_pass_and_rolled_back_rows_never_come(
    stack: Stack,
) -> None:
    name = table(stack, "saved", "id int primary key")
    steps = written(
        stack.mysql,
        "CREATE USER IF NOT EXISTS 'someone'@'%' IDENTIFIED BY 'secret'",
        "GRANT SELECT ON *.* TO 'someone'@'%'",
        f"ANALYZE TABLE {name}",
        "FLUSH TABLES",
        "BEGIN",
        f"INSERT INTO {name} VALUES (1)",
        "SAVEPOINT s",
        f"INSERT INTO {name} VALUES (2)",
        "ROLLBACK TO s",
        f"INSERT INTO {name} VALUES (3)",
        "COMMIT",
        "DROP USER 'someone'@'%'",
    )
    assert [row.after()["id"] for row in decoded(stack.mysql, steps)] == [1, 3]
    assert not [step for step in steps if isinstance(step, Statement)]


def refused(stack: Stack, *statements: str, restore: str = "") -> AqueductError:
    begin = end_of(stack.mysql)
    run(stack.mysql, *statements)
    if restore:
        run(stack.mysql, restore)
    with pytest.raises(AqueductError) as caught:
        between(stack.mysql, begin, end_of(stack.mysql))
    assert f"coordinates={begin.file}:" in str(caught.value)
    return caught.value


ORDERS = f"{DATABASE}.orders"
ASIDE = (
    "CREATE DATABASE aside",
    "CREATE DATABASE percona",
    "CREATE TABLE aside.t (id int PRIMARY KEY AUTO_INCREMENT, n int)",
    "CREATE TABLE aside.fires (id int PRIMARY KEY)",
    "CREATE TABLE aside.parent (id int PRIMARY KEY)",
    "CREATE TABLE percona.checksums (db char(64), tbl char(64), n int, crc char(40), PRIMARY KEY (db, tbl))",
    "CREATE TABLE mysql.rds_heartbeat2 (id int PRIMARY KEY, value bigint)",
    f"CREATE TABLE {DATABASE}.orders (id int PRIMARY KEY, note varchar(20))",
    f"CREATE TABLE {DATABASE}.child (p int, FOREIGN KEY (p) REFERENCES aside.parent (id) ON DELETE CASCADE)",
    f"CREATE VIEW aside.seen AS SELECT * FROM {DATABASE}.orders",
    f"CREATE TRIGGER aside.fired AFTER INSERT ON aside.fires FOR EACH ROW REPLACE INTO {ORDERS} VALUES (1, '')",
    f"CREATE FUNCTION aside.writes() RETURNS int DETERMINISTIC BEGIN DELETE FROM {ORDERS}; RETURN 1; END",
)
PASSED = {
    "INSERT INTO aside.t (n) VALUES (1), (2)": "aside.t",
    "UPDATE aside.t SET n = n + 1 WHERE id = 1": "aside.t",
    "LOAD DATA LOCAL INFILE '{file}' INTO TABLE aside.t": "aside.t",
    "DELETE x FROM aside.t x JOIN aside.t y USING (id) WHERE y.n > 100": "aside.t",
    "INSERT INTO mysql.rds_heartbeat2 VALUES (1, 1) ON DUPLICATE KEY UPDATE value = 7": "mysql.rds_heartbeat2",
    "REPLACE INTO percona.checksums SELECT 'shapes', 'orders', COUNT(*), COALESCE(LOWER(CONV(BIT_XOR(CAST("
    "CRC32(CONCAT_WS('#', id, note)) AS UNSIGNED)), 10, 16)), 0) FROM shapes.orders": "percona.checksums",
}
REFUSED = {
    f"INSERT INTO {DATABASE}.orders VALUES (1, 'top secret')": "it writes captured tables",
    f"UPDATE aside.t, {DATABASE}.orders SET orders.note = 'top secret'": "it writes captured tables",
    "INSERT INTO aside.fires VALUES (5)": "a trigger or a view",
    "INSERT INTO aside.seen VALUES (6, 'top secret')": "a trigger or a view",
    f"INSERT INTO aside.t (n) SELECT id FROM {DATABASE}.orders": "a trigger or a view",
    "DELETE FROM aside.parent WHERE id = 1": "a trigger or a view",
    "INSERT INTO aside.t (n) VALUES (aside.writes())": "writes may be a stored function",
}


def test_statements_on_tables_that_nobody_captures_are_passed_by_and_others_refused(
    stack: Stack, tmp_path: Path
) -> None:
    run(stack.mysql, *ASIDE, "INSERT INTO aside.parent VALUES (1)", "SET GLOBAL local_infile = ON")
    file = tmp_path / "rows.txt"
    file.write_text("7\t8\n")
    statements = [sql.format(file=file) for sql in (*PASSED, *REFUSED)]
    steps = written(
        stack.mysql,
        "SET SESSION binlog_format = STATEMENT",
        *statements,
        local_infile=True,
        database="aside",
    )
    found = judged(facts_of(stack.mysql), steps, include=rf"{DATABASE}\..*")
    passed, refused = found[: len(PASSED)], found[len(PASSED) :]
    assert [(sorted(one.tables), one.refused) for one in passed] == [
        ([table], "") for table in PASSED.values()
    ]
    assert len(refused) == len(REFUSED)
    for one, why in zip(refused, REFUSED.values(), strict=True):
        assert why in one.refused
        assert "top secret" not in one.refused
    named = judged(facts_of(stack.mysql), steps, include=r"shapes\..*", trusted=r"aside\..*")
    assert [bool(one.refused) for one in named[len(PASSED) :]] == [1, 1, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("host", ["127.0.0.1", "%"])
def test_each_remedy_of_the_preflight_repairs_the_server_as_it_is_printed(
    stack: Stack, host: str
) -> None:
    spoiled = {
        "binlog_format": "MIXED", "binlog_row_image": "MINIMAL", "binlog_row_metadata": "MINIMAL",
        "gtid_mode": "ON_PERMISSIVE",
    }  # fmt: skip
    first, then = repaired(stack.mysql, spoiled, host=host)
    assert "5 problem(s)" in first
    assert f"TO 'o''bare'@'{host}';" in first
    assert "`shapes\\_1`.*" in first
    assert then == ""


def test_every_function_that_we_take_for_the_servers_own_is_that(stack: Stack) -> None:
    with connected(stack.mysql) as cursor:
        assert not_native(cursor) == []


def test_a_start_at_the_head_of_a_file_knows_all_earlier_transactions(stack: Stack) -> None:
    name = table(stack, "before_head", "id int primary key")
    run(stack.mysql, f"INSERT INTO {name} VALUES (1)", "FLUSH BINARY LOGS")
    facts = facts_of(stack.mysql)
    executed = facts.gtid_executed
    run(stack.mysql, f"INSERT INTO {name} VALUES (2)")
    head = AtCoordinates(Coordinates(facts.binlogs[-1][0], 4))
    offset = first_offset(head, facts_of(stack.mysql), address_of(stack.mysql))
    assert offset.gtid_set == executed


def test_a_start_within_a_file_counts_what_stands_before_it(stack: Stack) -> None:
    name = table(stack, "in_the_midst", "id int primary key")
    run(stack.mysql, f"INSERT INTO {name} VALUES (1)")
    middle, executed = end_of(stack.mysql), facts_of(stack.mysql).gtid_executed
    run(stack.mysql, f"INSERT INTO {name} VALUES (2)")
    facts, address = facts_of(stack.mysql), address_of(stack.mysql)
    assert first_offset(AtCoordinates(middle), facts, address).gtid_set == executed
    end = first_offset(AtCoordinates(end_of(stack.mysql)), facts, address)
    assert end.gtid_set == facts.gtid_executed


def test_a_position_the_server_does_not_have_is_refused_by_name(stack: Stack) -> None:
    facts, address = facts_of(stack.mysql), address_of(stack.mysql)
    with pytest.raises(PositionPastEnd, match=r"binlog\.999999:4"):
        first_offset(AtCoordinates(Coordinates("binlog.999999", 4)), facts, address)


def test_a_tagged_gtid_names_its_transaction(stack: Stack) -> None:
    """It comes last here: the tag stays in the head of each later file."""
    name = table(stack, "tagged", "id int primary key")
    uuid = facts_of(stack.mysql).server_uuid
    steps = written(
        stack.mysql, "SET gtid_next = 'AUTOMATIC:tag'", f"INSERT INTO {name} VALUES (1)"
    )
    assert [row.after() for row in decoded(stack.mysql, steps)] == [{"id": 1}]
    transaction = steps[-1].transaction
    assert transaction.gtid == transaction.id == f"{uuid}:tag:1"
    assert (transaction.source, transaction.number) == (f"{uuid}:tag", 1)


def test_closing_a_stream_ends_a_read_that_waits(stack: Stack) -> None:
    position = SourceOffset(server_uuid="", coordinates=end_of(stack.mysql))
    stream = BinlogStream(address_of(stack.mysql, heartbeat=60.0), position)
    stream.open()
    ended: list[BaseException] = []

    def read() -> None:
        try:
            for _ in stream.chunks(lambda: True):
                pass
        except SourceLost as error:
            ended.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    stream.close()
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert isinstance(ended[0], SourceLost)


@pytest.fixture(scope="module")
def without_gtids(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mysql]:
    options: dict[str, str | int] = {
        "gtid_mode": "OFF",
        "enforce_gtid_consistency": "OFF",
        "server_id": 3,
    }
    with own_stack(
        tmp_path_factory.mktemp("nogtid"), services=("mysql",), mysql_options=options
    ) as one:
        yield one.mysql
        one.mysql.kill()


def test_without_gtids_a_transaction_is_named_by_server_and_place(without_gtids: Mysql) -> None:
    facts = facts_of(without_gtids)
    steps = written(
        without_gtids,
        "CREATE DATABASE plain",
        "CREATE TABLE plain.t (id int primary key)",
        "INSERT INTO plain.t VALUES (1), (2)",
    )
    offset = first_offset(Earliest(), facts, address_of(without_gtids))
    rows = [step for step in steps if isinstance(step, Rows)]
    transaction = rows[0].transaction
    assert offset.gtid_set is None
    assert transaction.gtid is None
    assert transaction.id == f"{facts.server_uuid}:{transaction.start}"
    again = between(without_gtids, transaction.start, end_of(without_gtids))
    assert again[0].transaction.id == transaction.id
    assert again[0].transaction.committed_ms == transaction.committed_ms
    assert len({step.transaction.id for step in steps}) == 3


def test_a_start_by_gtids_is_refused_where_there_are_none(without_gtids: Mysql) -> None:
    with pytest.raises(PositionGone, match="gtid_mode is OFF"):
        first_offset(AfterGtids(GtidSet()), facts_of(without_gtids), address_of(without_gtids))


def test_the_source_is_past_an_end_only_once_a_transaction_follows(stack: Stack) -> None:
    run(stack.mysql, "CREATE DATABASE unread", "CREATE TABLE unread.t (id int PRIMARY KEY)")
    ours = now(stack.mysql)
    assert not read_end(address_of(stack.mysql)).is_past(ours)
    run(stack.mysql, "FLUSH BINARY LOGS")
    assert not read_end(address_of(stack.mysql)).is_past(ours)
    run(stack.mysql, "INSERT INTO unread.t VALUES (1)")
    assert read_end(address_of(stack.mysql)).is_past(ours)
    assert not read_end(address_of(stack.mysql)).is_past(now(stack.mysql))
