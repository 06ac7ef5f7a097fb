"""Definitions as JSON and back: nothing is lost on the way."""

from dataclasses import fields

import orjson

from connectors.mysql.ddl.definition import Session
from tables.history.definition_json import Definitions, session_json


def test_a_session_comes_back_with_all_its_fields() -> None:
    session = Session(
        database="shop",
        sql_mode=frozenset({"ANSI_QUOTES", "PIPES_AS_CONCAT"}),
        server_collation="latin2_bin",
        utf8mb4_collation="utf8mb4_general_ci",
        charset_collations=(("latin2", "latin2_bin"), ("ucs2", "ucs2_bin")),
        connection_collation="latin1_bin",
        explicit_timestamps=False,
        thread=12,
    )
    usual = Session()
    kept = orjson.loads(orjson.dumps(session_json(session)))
    assert Definitions().session(kept) == session
    # A field that is forgotten here would be one that nobody has seen come back.
    assert [
        one.name
        for one in fields(Session)
        if getattr(session, one.name) == getattr(usual, one.name)
    ] == []
