"""The effect of a statement on a catalog that fails unexpectedly: it concerns the statement's tables alone."""

from __future__ import annotations

import logging

import pytest

from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.parsed_statement import parse_statement
from tables.history.resolved_statement import resolved

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
