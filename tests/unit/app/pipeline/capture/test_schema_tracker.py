from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.pipeline.capture.schema_tracker import SchemaTracker
from connectors.mysql.ddl.definition import Database, Server
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.online.shadow_rules import ShadowRules
from connectors.mysql.schema.definition_from_table_map import adopted
from connectors.mysql.stream.chunk import Chunk
from tables.schema_history.history import SchemaHistory
from tables.schema_history.position import HistoryPosition
from tests.made import SERVER as UUID
from tests.unit.app.pipeline.actions import TABLES, Ddl, RowsOf
from tests.unit.app.pipeline.history import CHARSETS, Source, _table_map
from tests.unit.app.pipeline.runs import RULES, first_cursor, run_stage, spec_of

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


def followed(source: Source) -> Iterator[Chunk]:
    """The chunks of a source, as they go to a decoder."""
    position = HistoryPosition.between(first_cursor(source).offset, ts_ms=0)
    history = SchemaHistory()
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
        tracker.note(chunk)
        yield chunk


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
