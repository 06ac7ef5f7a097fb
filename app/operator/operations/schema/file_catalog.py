"""Tables defined by a file: a dump's statements, or the JSON output of `schema rebuild`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.operator.operations.schema.statement_text import statements, used_database
from connectors.errors import DdlUnresolved, UsageError
from connectors.mysql.binlog import sql_modes
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session

_SERVER = Server(version=(9, 7, 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCatalog:
    """The tables, and for each statement that is not understood why it was skipped."""

    catalog: Catalog
    skipped: tuple[DdlUnresolved, ...]


def file_catalog(text: str, database: str | None) -> FileCatalog:
    """Apply a file's statements; raise UsageError if it is JSON of another kind."""
    with suppress(ValueError):
        text = _rebuild_output(orjson.loads(text))
    catalog, skipped = Catalog(_SERVER, logged=False), []
    session = Session(database=database, sql_mode=sql_modes.DEFAULT)
    if database is not None:
        # A dump of one database does not contain its name.
        quoted = database.replace("`", "``")
        catalog.apply(f"CREATE DATABASE `{quoted}`", session)
    for sql in statements(text):
        if (used := used_database(sql)) is not None:
            session = replace(session, database=used)
            continue
        try:
            catalog.apply(sql, session)
        except DdlUnresolved as error:
            skipped.append(error)
    return FileCatalog(catalog=catalog, skipped=tuple(skipped))


def _rebuild_output(value: Any) -> str:
    """Return the statements that ``schema rebuild`` printed."""
    databases = value.get("databases") if isinstance(value, dict) else None
    if not isinstance(databases, dict):
        raise UsageError("the file is JSON, but not an output of `schema rebuild --format json`")
    return "\n".join(
        f"{text}\n" for name, text in databases.items() if isinstance(text, str) and name
    )
