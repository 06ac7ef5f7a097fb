"""The kind of a binlog statement, from its first words: transaction control, DDL, change, harmless, unknown.

Invariant: a statement is of a known kind or it is UNKNOWN, which stops the destination; no
statement is ignored by default.
"""

from __future__ import annotations

import re
from enum import Enum

from connectors.mysql.ddl.grammar.lexer import named


class Kind(Enum):
    """A statement's significance for the rows around it."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    DDL = "ddl"
    TRUNCATE = "truncate"
    HARMLESS = "harmless"
    CHANGE = "change"
    """A change of rows, written as a statement."""
    XA = "xa"
    UNKNOWN = "unknown"


_LEADING = re.compile(
    r"\s+|/\*(?!!|M!).*?\*/|/\*M?!\d*|--(?=\s|$)[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\*/", re.DOTALL
)
_PLAIN_LEADING = re.compile(_LEADING.pattern.replace("(?!!|M!)", "(?!!)"), re.DOTALL)
"""``_LEADING`` for MySQL, which reads ``/*M!`` as an ordinary comment."""
_WORD = re.compile(r"[A-Za-z_]+")

_HARMLESS_WORDS = (
    "GRANT", "REVOKE", "SET", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "INSTALL", "UNINSTALL",
    "IMPORT", "KILL", "PURGE", "RESET", "CHANGE", "START", "STOP", "LOCK", "UNLOCK", "SHOW", "USE",
)  # fmt: skip
_CHANGE_WORDS = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH", "DO", "SELECT")
_FIRST_WORDS = {
    "BEGIN": Kind.BEGIN,
    "COMMIT": Kind.COMMIT,
    "ROLLBACK": Kind.ROLLBACK,
    "SAVEPOINT": Kind.SAVEPOINT,
    "RELEASE": Kind.SAVEPOINT,
    "XA": Kind.XA,
    "CREATE": Kind.DDL,
    "ALTER": Kind.DDL,
    "DROP": Kind.DDL,
    "RENAME": Kind.DDL,
    "TRUNCATE": Kind.TRUNCATE,
    **dict.fromkeys(_HARMLESS_WORDS, Kind.HARMLESS),
    **dict.fromkeys(_CHANGE_WORDS, Kind.CHANGE),
}

_ACCOUNTS = {
    "USER",
    "ROLE",
    "SERVER",
    "RESOURCE",
    "LOGFILE",
    "TABLESPACE",
    "UNDO",
    "INSTANCE",
    "SPATIAL_REF",
}


_EMPTIED = re.compile(r"DELETE FROM `((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")


def emptied_by_server(sql: str) -> tuple[str, str] | None:
    """Return the table of a DELETE that a server writes for a MEMORY table which a restart has emptied.

    MySQL 5.7, and 8.0 before 8.0.22, write this DELETE; later servers write a TRUNCATE.
    """
    found = _EMPTIED.fullmatch(sql)
    return None if found is None else (found[1].replace("``", "`"), found[2].replace("``", "`"))


def words(sql: str, count: int, leading: re.Pattern[str] = _LEADING) -> list[str]:
    """Return the first words in upper case, without comments; executable comments are read as SQL."""
    found: list[str] = []
    at = 0
    while len(found) < count:
        while skipped := leading.match(sql, at):
            at = skipped.end()
        word = _WORD.match(sql, at)
        if word is None:
            break
        found.append(word[0].upper())
        at = word.end()
    return found


def kind_of(sql: str) -> Kind:
    """The kind of one statement."""
    first, *rest = _first_words(sql) or [""]
    kind = _FIRST_WORDS.get(first, Kind.UNKNOWN)
    if kind is Kind.ROLLBACK and rest[:1] == ["TO"]:
        return Kind.SAVEPOINT
    if [first, *rest[:1]] == _SET_STATEMENT:
        inner = _set_for(sql)
        return Kind.UNKNOWN if inner is None else kind_of(inner)
    if rest[:2] == ["OR", "REPLACE"]:
        del rest[:2]
    if kind is Kind.DDL and rest and rest[0] in _ACCOUNTS:
        # Statements on accounts and storage change no rows; they may contain secrets and are not published.
        return Kind.HARMLESS
    return kind


def _first_words(sql: str) -> list[str]:
    found = words(sql, 4)
    if "/*M!" in sql and (not found or found[0] not in _FIRST_WORDS):
        return words(sql, 4, _PLAIN_LEADING)
    return found


def type_of(sql: str) -> str:
    """The statement's first keyword, as the DDL topic shows it."""
    return (_first_words(_set_for(sql) or sql) or [""])[0]


_OBJECT = re.compile(
    r"\b(TABLES?|DATABASE|SCHEMA|VIEW|INDEX|TRIGGER|PROCEDURE|FUNCTION|EVENT|SEQUENCE|PACKAGE)\b",
    re.IGNORECASE,
)
_SAME_OBJECT = {"TABLES": "TABLE", "SCHEMA": "DATABASE"}
_TYPE_WITHIN = 1000


def statement_type(sql: str) -> str:
    """A statement's verb and object type, such as ``CREATE VIEW``; the verb alone if it has no object type."""
    inner = _set_for(sql) or sql
    verb = type_of(inner)
    found = _OBJECT.search(inner[:_TYPE_WITHIN])
    if found is None:
        return f"{verb} TABLE" if verb == "TRUNCATE" else verb
    word = found[1].upper()
    return f"{verb} {_SAME_OBJECT.get(word, word)}"


_SET_STATEMENT = ["SET", "STATEMENT"]
_FOR = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|/\*.*?\*/|(?:--\s|\#)[^\n]*|\b(FOR)\b""",
    re.DOTALL | re.IGNORECASE,
)


def _set_for(sql: str) -> str | None:
    """Return the statement after ``SET STATEMENT … FOR``, a prefix that MariaDB logs; None without it."""
    inner = None
    while words(sql, 2) == _SET_STATEMENT:
        after = next((found.end() for found in _FOR.finditer(sql) if found[1]), None)
        if after is None:
            return None
        inner = sql = sql[after:]
    return inner


_TOKEN = re.compile(
    r"""`((?:[^`]|``)+)`|"((?:[^"]|"")+)"|([0-9A-Za-z_$\u0080-\U0010ffff]+)|(.)""", re.DOTALL
)


def truncated_table(sql: str, default_database: str | None) -> tuple[str, str] | None:
    """The database and table of a TRUNCATE statement; None if it cannot be parsed."""
    _, *tokens = _tokens(_set_for(sql) or sql)
    if tokens and tokens[0] == (False, "TABLE"):
        del tokens[0]
    tokens = _without_wait(tokens)
    names = [name for _, name in tokens if name not in (".", ";")]
    points = [n for n, (_, name) in enumerate(tokens) if name == "."]
    if len(names) == 2 and points == [1]:
        return names[0], names[1]
    if len(names) == 1 and not points and default_database:
        return default_database, names[0]
    return None


def _without_wait(tokens: list[tuple[bool, str]]) -> list[tuple[bool, str]]:
    """The tokens without MariaDB's ``NOWAIT`` or ``WAIT n`` after a table's name."""
    plain = [("" if quoted else name.upper()) for quoted, name in tokens if name != ";"]
    if plain[1:] and plain[-1] == "NOWAIT" and plain[-2] != ".":
        return tokens[: len(plain) - 1]
    if plain[2:] and plain[-2] == "WAIT" and plain[-1].isdigit() and plain[-3] != ".":
        return tokens[: len(plain) - 2]
    return tokens


def _tokens(sql: str) -> list[tuple[bool, str]]:
    """Return a statement's words, names and punctuation, each with whether it was quoted.

    Comments are omitted; the keyword TABLE is in upper case.
    """
    found: list[tuple[bool, str]] = []
    at = 0
    while True:
        while skipped := _LEADING.match(sql, at):
            at = skipped.end()
        token = _TOKEN.match(sql, at)
        if token is None:
            return found
        quoted, ansi, plain, sign = token.groups()
        if quoted is not None:
            found.append((True, named(quoted.replace("``", "`"))))
        elif ansi is not None:
            # A TRUNCATE has no string literals: this is a name quoted under ANSI_QUOTES.
            found.append((True, named(ansi.replace('""', '"'))))
        else:
            text = named(plain) if plain else sign
            found.append((False, "TABLE" if text.upper() == "TABLE" else text))
        at = token.end()


def shortened(sql: str) -> str:
    """The first words of a statement; the rest may contain data, which messages must not show."""
    head = _MAY_BE_DATA.split(sql, maxsplit=1)[0]
    return " ".join(head.split()[:3])[:60] + " …"


_MAY_BE_DATA = re.compile(r"['\"(=]|/\*|--|#|(?<!\w)\d")
