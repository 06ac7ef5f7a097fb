"""Names of topics, folders and SQL identifiers, so that no source name can reach where it should not.

Invariant: two tables never share a folder, and no name leaves the warehouse.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from typing import Final
from urllib.parse import unquote

from spark_sink.wire.printable import printed

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
TOPICS: Final = "__topics.json"
CHECKPOINT: Final = "__checkpoint"
ORIGIN: Final = "__origin.json"
FORMAT: Final = "__format.json"
APPLICATIONS: Final = "__applications.json"
CHANGED_ELSEWHERE: Final = "__foreign"

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-.")
_LONGEST: Final = 200
CUT: Final = "%x"
"""In the folder of a very long name; no other has it."""


def of_sink(note: str, sink: str) -> str:
    """The name of a note or folder of a named sink; that of the sink without a name is as it is."""
    if not sink:
        return note
    stem, dot, end = note.partition(".")
    return f"{stem}-{sink}{dot}{end}"


def topic_pattern(prefix: str, *, include: str = "", exclude: str = "") -> str:
    """A Java regular expression of the row topics of `prefix`.

    `include` and `exclude` are regular expressions over the whole topic name. A mapping may name
    row topics as it likes, but none with a leading `__`, which Aqueduct's own topics have.
    The expression has anchors, as Spark's source takes each topic in which it finds a match.
    """
    wanted = f"(?=(?:{include})$)" if include else ""
    unwanted = f"(?!(?:{exclude})$)" if exclude else ""
    return f"^{unwanted}{wanted}{_quote_java(prefix)}\\.(?!__)[A-Za-z0-9._-]+$"


def ddl_topic(prefix: str, destination: str) -> str:
    """The topic with a destination's DDL."""
    return f"{prefix}.__ddl.{destination}"


def ddl_pattern(prefix: str, *, exclude: str = "") -> str:
    """A Java regular expression of the DDL topics of all destinations of `prefix`."""
    unwanted = f"(?!(?:{exclude})$)" if exclude else ""
    return f"^{unwanted}{_quote_java(prefix)}\\.__ddl\\.[A-Za-z0-9._-]+$"


def schemas_topic(prefix: str) -> str:
    """The topic with the columns of each table version."""
    return f"{prefix}.__schemas"


def journal_topic(prefix: str) -> str:
    """The topic with the worker's own state."""
    return f"{prefix}.__journal"


def transactions_topics(prefix: str) -> str:
    """A Java regular expression of the topics with the ends of transactions, one of each destination."""
    return f"^{_quote_java(prefix)}\\.__transactions\\.[A-Za-z0-9._-]+$"


def folder(name: str) -> str:
    """The folder of a database or table: percent-encoded UTF-8, safe on any file system.

    Capitals are encoded too (some stores take `A` for `a`), and so is a leading `.` or `_`, which
    would hide the folder from Spark or meet the sink's own. A very long name is cut and ends in
    `%x` and 32 hexadecimal digits of its SHA-256, which no encoded name contains.
    """
    encoded = "".join(
        char if char in _PLAIN and not (at == 0 and char in "._") else _percent(char)
        for at, char in enumerate(name)
    )
    if len(encoded) <= _LONGEST:
        return encoded
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return re.sub(r"%[0-9A-F]?$", "", encoded[:150]) + CUT + digest


def unfolder(encoded: str) -> str:
    """The name of a folder made by `folder`; a cut name stays as it is."""
    return encoded if CUT in encoded else unquote(encoded)


def table_path(warehouse: str, database: str, table: str) -> str:
    """Where a table lies: `<warehouse>/<database>/<table>`."""
    return f"{warehouse.rstrip('/')}/{folder(database)}/{folder(table)}"


def quoted(name: str) -> str:
    """A Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def argument(name: tuple[str, str]) -> str:
    """A table as an argument of a command, quoted for the shell."""
    text = ".".join(name)
    if "." in name[0] or text.startswith("`"):
        text = f"{quoted(name[0])}.{quoted(name[1])}"
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printed(escaped)}'"


def action(name: tuple[str, str]) -> str:
    """The advice for a waiting table whose error has none."""
    return f"Run: python -m spark_sink reload {argument(name)}"


OR_DISCARD: Final = "; or, if its rows are not wanted, run: "
"""Precedes what removes a table that the source has dropped, in the advice for its wait."""


def full(name: tuple[str, str]) -> str:
    """The name of a table in a database, in SQL."""
    return f"{quoted(name[0])}.{quoted(name[1])}"


def literal(text: str) -> str:
    """A Spark SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _quote_java(text: str) -> str:
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", text)
