"""The effect of a statement: one that fails unexpectedly, and one of which the history hides the literals."""

from __future__ import annotations

import logging

import pytest

from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.hidden_literals import table_without_literals
from connectors.mysql.ddl.parsed_statement import parse_statement
from tables.history.resolved_statement import resolved
from tests.unit.tables.made import SHOP, at, begun

SERVER = Server(version=(8, 4, 0))


@pytest.mark.parametrize("may_quote", [True, False])
def test_an_unexpected_exception_is_quoted_only_where_its_text_may_be_shown(
    may_quote: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr(Catalog, "apply_parsed", fails)
    caplog.set_level(logging.DEBUG)
    statement = parse_statement("ALTER TABLE t DROP c", SERVER, Session(database="d"))
    found = resolved(statement, Catalog(SERVER), may_quote=may_quote)
    assert found.unresolved == (("d", "t"),)
    assert found.reason == ("RuntimeError('canary')" if may_quote else "RuntimeError")
    assert ("canary" in caplog.text) is may_quote
    assert "ALTER TABLE t DROP c" in caplog.text


def test_a_recomputed_column_is_known_though_the_literals_are_hidden() -> None:
    history = begun()
    made = (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT AS (a * 2) STORED, c VARCHAR(9) AS ('x'))"
    )
    for pos, sql, expected in (
        (200, made, ()),
        (300, "ALTER TABLE t MODIFY b INT AS (a * 3) STORED", "recomputation of b"),
        (400, "ALTER TABLE t MODIFY a SMALLINT", "recomputation of b"),
        (500, "ALTER TABLE t CHANGE c d VARCHAR(9) AS ('y'), MODIFY b INT AS (a * 4) STORED",
         "recomputation of b, d"),
        (600, "ALTER TABLE t ADD e INT AS (a * 4) STORED", ()),
    ):  # fmt: skip
        found = history.apply_parsed(at(pos), history.parsed(sql, SHOP), table_without_literals)
        assert found.record is not None
        assert found.unlogged == (((("shop", "t"), expected),) if expected else ())
