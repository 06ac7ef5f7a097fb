"""Names of the sink's own notes and folders; and any source's names, quoted for SQL and for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

from wire.text import printed

LOG: Final = "__log"
LEDGER: Final = "__ledger"
FLOORS: Final = "__floors"
WAITS: Final = "__waits"
LETTERS: Final = "__dead_letters"
RECENT: Final = "__recent"
RELOAD: Final = "__reload"
LOADS: Final = "__loads"
LOADED_FROM: Final = "__loaded"
DDL: Final = "__ddl"
DELETED_KEYS: Final = "__deleted_keys"
HISTORY: Final = "__history"
MOVING: Final = "__moving"
MOVED: Final = "__moved.json"
MAINTAINED: Final = "__maintained.json"
UNMAINTAINED: Final = "__unmaintained.json"
SOURCES: Final = "__sources.json"
PUT_BACK: Final = "__put_back.json"
SETTLED: Final = "__settled.json"
SINKS: Final = "__sinks"
COLUMNS: Final = "__columns"
METASTORE: Final = "__metastore.json"
FOREIGN: Final = "__foreign.json"
PASSED_BY: Final = "__passed_by.json"
TOPICS: Final = "__topics.json"
CHECKPOINT: Final = "__checkpoint"
ORIGIN: Final = "__origin.json"
FORMAT: Final = "__format.json"
APPLICATIONS: Final = "__applications.json"
CHANGED_ELSEWHERE: Final = "__foreign"


def of_sink(note: str, sink: str) -> str:
    """The name of a note or folder of a named sink; for the sink without a name, `note` unchanged."""
    if not sink:
        return note
    stem, dot, end = note.partition(".")
    return f"{stem}-{sink}{dot}{end}"


def quoted(name: str) -> str:
    """A Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def argument(name: tuple[str, str], *, of: str = "") -> str:
    """A table as an argument of a command, quoted for the shell; `of` is a destination, stated before it."""
    text = ".".join(name)
    if "." in name[0] or text.startswith("`"):
        text = f"{quoted(name[0])}.{quoted(name[1])}"
    if of:
        text = f"{of}:{text}"
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printed(escaped)}'"


OR_DISCARD: Final = "; or, if its rows are not wanted, run: "
"""Precedes, in the advice for a waiting table that the source has dropped, the command that removes it."""


def action(name: tuple[str, str]) -> str:
    """The advice for a waiting table whose error has no advice of its own."""
    return f"Run: python -m spark_sink reload {argument(name)}"


def snapshot_starts(
    tables: Iterable[tuple[str, tuple[str, str]]], option: str = " --replace"
) -> str:
    """The commands that publish the existing rows of source tables, each with its destination."""
    return "; ".join(
        f"python -m app snapshot start {destination} {argument(name)}{option}"
        for destination, name in tables
    )


def discards_source(table: tuple[str, str], destination: str, name: tuple[str, str]) -> str:
    """The command that removes from a table the rows of one source table."""
    source = argument(name, of=destination)
    return f"python -m spark_sink reload {argument(table)} --discard --source {source}"


def full(name: tuple[str, str]) -> str:
    """The name of a table in a database, in SQL."""
    return f"{quoted(name[0])}.{quoted(name[1])}"


def literal(text: str) -> str:
    """A Spark SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
