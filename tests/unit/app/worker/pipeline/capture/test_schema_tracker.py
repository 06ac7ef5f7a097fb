from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.worker.pipeline.capture.schema_tracker import SchemaTracker
from connectors.mysql.ddl.definition import Database, Server
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.online import ShadowRules
from connectors.mysql.schema.table_map_completion import adopted
from connectors.mysql.stream.chunk import Chunk
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.history.resolved_statement import ResolvedStatement
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.actions import TABLES, Ddl, RowsOf
from tests.unit.app.worker.pipeline.history import CHARSETS, Source, _table_map
from tests.unit.app.worker.pipeline.runs import RULES, first_cursor, run_stage, spec_of

UTF8MB4 = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
SERVER = Server(version=(9, 7, 4))
ORDERS = TABLES[0]


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of times that each text was tokenized."""
    found, run = Counter[str](), lexer._Scan.run

    def counted(scan: lexer._Scan) -> None:
        found[scan._sql] += 1
        run(scan)

    monkeypatch.setattr(lexer._Scan, "run", counted)
    return found


def tracked(
    source: Source, history: SchemaHistory | None = None
) -> Iterator[tuple[Chunk, ResolvedStatement | None]]:
    """The chunks of a source, each with the effect of the statement at its end."""
    position = HistoryPosition.between(first_cursor(source).offset, ts_ms=0)
    history = history or SchemaHistory()
    history.init("shop")
    tables = {name: adopted(_table_map(name, 2), CHARSETS, database=UTF8MB4) for name in TABLES}
    history.baseline(tables, dict.fromkeys(("shop", "other"), UTF8MB4), position, SERVER)
    tracker = SchemaTracker(
        history,
        server_uuid=UUID,
        charsets=CHARSETS,
        mariadb=False,
        server=SERVER,
        shadows=ShadowRules(),
        routes=RULES.routes,
    )
    for chunk in source.chunks(source.first, (True, True)):
        yield chunk, tracker.note(chunk)


def followed(source: Source, history: SchemaHistory | None = None) -> Iterator[Chunk]:
    """The chunks of a source, as they go to a decoder."""
    return (chunk for chunk, _ in tracked(source, history))


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE orders ADD c INT",
        "ALTER TABLE orders FROBNICATE",
        "ALTER TABLE orders COMMENT 'no end",
        "TRUNCATE TABLE orders",
        "CREATE TABLE made (a INT, b INT, KEY (a))",
        "CREATE VIEW seen AS SELECT 1",
        "DROP TABLE orders",
        "DROP PROCEDURE p",
    ],
)
def test_a_statement_is_taken_apart_once_from_the_stream_to_its_records(
    sql: str, scanned: Counter[str]
) -> None:
    source = Source([[RowsOf(ORDERS, "c", ((1, 1),))], [Ddl(sql, None)]], gtids=True)
    spec = replace(spec_of(RULES, first_cursor(source), {}), server=SERVER)
    pieces = run_stage(followed(source), first_cursor(source), spec)
    assert pieces[-1].error is None
    assert scanned[sql] == 1


def test_a_temporary_table_that_is_truncated_is_not_taken_for_the_table_of_its_name() -> None:
    statements = ("CREATE TEMPORARY TABLE orders (a INT)", "TRUNCATE TABLE orders")
    for count, is_of_temporary in ((2, True), (1, False)):
        source = Source([[Ddl(sql, None)] for sql in statements[-count:]], gtids=True)
        *_, (_, effect) = tracked(source)
        assert effect is not None
        assert (effect.is_of_temporary, effect.emptied) == (
            is_of_temporary,
            () if is_of_temporary else (ORDERS,),
        )


def test_a_new_column_is_that_of_its_statement_and_a_tool_copies_at_other_times() -> None:
    history = SchemaHistory()
    statements = (
        "ALTER TABLE orders ADD c INT DEFAULT 5, ADD d TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP",
        "CREATE TABLE _orders_gho LIKE orders",
        "ALTER TABLE _orders_gho ADD e INT DEFAULT 6, ADD f TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP",
    )
    source = Source([[Ddl(sql, None)] for sql in statements], gtids=True)
    list(followed(source, history))
    copied = history.find("shop", "_orders_gho")
    assert copied is not None
    *_, c, d, e, f = copied.columns
    gtids = [one.origin.partition("@")[2] for one in (c, d, e, f)]
    assert gtids[0] == gtids[1] != gtids[2] == gtids[3]
    assert all(":" in gtid for gtid in gtids)
    assert (c.initial, e.initial) == ('{"value":5}', '{"value":6}')
    assert d.initial.startswith('{"value":"20')
    assert f.initial == '{"unknown":"DEFAULT CURRENT_TIMESTAMP"}'
