"""The tables that an INSERT, REPLACE, UPDATE, DELETE or LOAD writes, parsed from its text.

Invariant: the result contains every table that the statement writes by name; a statement that is
not understood completely is a fault. If an assignment could belong to one of several tables, the
result contains all of them. Further writes by triggers, views, foreign keys and functions are not
in a statement's text.
Source: MySQL's manual, "Data Manipulation Statements"; MariaDB's, "Changing and Deleting Data".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from connectors.mysql.ddl.definition import Server, Session, TableName, TableRef
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import END, GrammarFault, lexed
from connectors.mysql.ddl.grammar.token_reader import Reader

_MODIFIERS = frozenset({"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "QUICK"})
_REST = frozenset({"WHERE", "ORDER", "LIMIT", "RETURNING", END, ";"})


def written_tables(sql: str, server: Server, session: Session) -> frozenset[TableName]:
    """The tables that a statement writes; raise GrammarFault if that is uncertain."""
    if "ORACLE" in session.sql_mode:
        raise GrammarFault("in sql_mode ORACLE a name may call a function")
    reader = Reader(lexed(sql, server, session), server, session)
    found = _Statement(reader).tables()
    names = set[TableName]()
    for database, name in found:
        full = database or session.database
        if full is None:
            raise GrammarFault("a table has no database")
        names.add((full, name))
    return frozenset(names)


class _Statement:
    """One statement, read from its beginning."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._derived: set[str] = set()
        """Names defined by WITH, in lower case."""
        self._lists: set[int] = set()
        """Token indexes of column lists, which are not argument lists."""

    def tables(self) -> set[TableRef]:
        """The tables that the statement writes."""
        reader = self._reader
        while reader.take("SET", "STATEMENT"):
            self._skip_to("FOR")
        if reader.take("WITH"):
            self._with()
        verb = reader.key
        reader.at += 1
        if verb in ("INSERT", "REPLACE"):
            found = self._insert()
        elif verb == "UPDATE":
            found = self._update()
        elif verb == "DELETE":
            found = self._delete()
        elif verb == "LOAD":
            found = self._load()
        else:
            raise GrammarFault(f"{verb[:20]} is no statement that names what it writes")
        if not found:
            raise GrammarFault("it names no table that it writes")
        self._refuse_another()
        refuse_unknown_calls(reader, self._lists)
        return found

    # --- each statement -------------------------------------------------------------------------

    def _insert(self) -> set[TableRef]:
        reader = self._reader
        while reader.take_one(_MODIFIERS):
            pass
        reader.take("INTO")
        return {self._target()}

    def _load(self) -> set[TableRef]:
        """LOAD DATA and LOAD XML."""
        reader = self._reader
        while not reader.take("INTO", "TABLE"):
            self._refuse_end("INTO TABLE")
            reader.at += 1
        return {self._target()}

    def _target(self) -> TableRef:
        reader = self._reader
        table = reader.table()
        if reader.take("PARTITION"):
            reader.skip_parentheses()
        self._lists.add(reader.at)
        return table

    def _update(self) -> set[TableRef]:
        reader = self._reader
        while reader.take_one(_MODIFIERS):
            pass
        found = references(reader, frozenset({"SET"}))
        reader.need("SET")
        result: set[TableRef] = set()
        while True:
            result |= self._owners(self._qualifier(), found)
            self._skip_expression()
            if not reader.take(","):
                return result

    def _delete(self) -> set[TableRef]:
        reader = self._reader
        while reader.take_one(_MODIFIERS):
            pass
        if not reader.take("FROM"):
            targets = reader.listed(self._deleted)
            reader.need("FROM")
            return self._among(targets, references(reader, _REST))
        at = reader.at
        targets = reader.listed(self._deleted)
        if reader.take("USING"):
            return self._among(targets, references(reader, _REST))
        if len(targets) > 1:
            raise reader.fault("expected USING")
        reader.at = at
        return self._bases(references(reader, _REST))

    # --- names ----------------------------------------------------------------------------------

    def _deleted(self) -> TableRef:
        """Read a table in a DELETE's list before its table references, with or without ``.*``."""
        reader = self._reader
        first = reader.name()
        if not reader.take("."):
            return None, first
        if reader.take("*"):
            return None, first
        second = reader.name()
        if reader.take("."):
            reader.need("*")
        return first, second

    def _qualifier(self) -> TableRef | None:
        """The table of an assigned column; None if only the column is named."""
        reader = self._reader
        names = [reader.name()]
        while reader.take("."):
            names.append(reader.name())
        if len(names) > 3:
            raise reader.fault("expected a column")
        if len(names) == 3:
            return names[0], names[1]
        return (None, names[0]) if len(names) == 2 else None

    def _owners(self, qualifier: TableRef | None, among: list[Reference]) -> set[TableRef]:
        return self._bases(among) if qualifier is None else self._among([qualifier], among)

    def _among(
        self, qualifiers: list[TableRef] | tuple[TableRef, ...], among: list[Reference]
    ) -> set[TableRef]:
        """The tables that the qualifiers refer to."""
        default = self._reader.session.database
        result: set[TableRef] = set()
        for qualifier in qualifiers:
            named = self._bases([one for one in among if one.is_named(qualifier, default)])
            if not named:
                raise GrammarFault("it writes a table that is not among its references")
            result |= named
        return result

    def _bases(self, among: list[Reference]) -> set[TableRef]:
        return {
            one.table
            for one in among
            if one.table is not None
            and not (one.table[0] is None and one.table[1].lower() in self._derived)
        }

    # --- stretches ------------------------------------------------------------------------------

    def _with(self) -> None:
        """Read the common table expressions before the statement."""
        reader = self._reader
        reader.take("RECURSIVE")
        while True:
            self._derived.add(reader.name().lower())
            if reader.key == "(":
                self._lists.add(reader.at)
                reader.skip_parentheses()
            reader.need("AS")
            reader.skip_parentheses()
            if not reader.take(","):
                return

    def _skip_expression(self) -> None:
        """Skip the ``=`` or ``:=`` of an assignment, and the expression after it."""
        reader = self._reader
        if not reader.take(":", "=") and not reader.take(":=") and not reader.take("="):
            raise reader.fault("expected =")
        while reader.key != "," and reader.key not in _REST:
            if reader.key == "(":
                reader.skip_parentheses()
            else:
                reader.at += 2 if reader.key == "." else 1

    def _skip_to(self, word: str) -> None:
        reader = self._reader
        while not reader.take(word):
            self._refuse_end(word)
            if reader.key == "(":
                reader.skip_parentheses()
            else:
                reader.at += 1

    def _refuse_end(self, wanted: str) -> None:
        if self._reader.key == END:
            raise self._reader.fault(f"expected {wanted}")

    def _refuse_another(self) -> None:
        """Refuse a second statement after this one."""
        reader = self._reader
        while reader.key not in (END, ";"):
            reader.at += 1
        if not reader.at_end():
            raise reader.fault("nothing more was expected")


_WORDS_TEXT = (
    "ALL AND AS BETWEEN BINARY BY CASE CHAR CHARACTER CHECK CROSS DECIMAL DEFAULT DISTINCT DIV ELSE EXISTS "
    "FLOAT FOR FORCE FROM GROUP HAVING IGNORE IN INDEX INNER INTERVAL INTO IS JOIN KEY LIKE LIMIT MATCH "
    "MOD NATURAL NOT NULL ON OR ORDER OUTER PARTITION REGEXP RLIKE ROW SELECT SET STRAIGHT_JOIN THEN UNION "
    "UPDATE USE USING VALUES VARCHAR WHEN WHERE WITH XOR"
)
WORDS = frozenset(_WORDS_TEXT.split())
"""SQL words that may precede parentheses, and that no server reads as a function's name."""
_FUNCTIONS_TEXT = (
    "ABS ACOS ADDDATE ADDTIME AES_DECRYPT AES_ENCRYPT ASCII ASIN ATAN ATAN2 AVG BENCHMARK BIN BIT_AND "
    "BIT_COUNT BIT_LENGTH BIT_OR BIT_XOR CAST CEIL CEILING CHARACTER_LENGTH CHARSET CHAR_LENGTH COALESCE "
    "COERCIBILITY COLLATION COMPRESS CONCAT CONCAT_WS CONNECTION_ID CONV CONVERT CONVERT_TZ COS COT COUNT "
    "CRC32 CURDATE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURTIME DATABASE DATE DATEDIFF "
    "DATE_ADD DATE_FORMAT DATE_SUB DAY DAYNAME DAYOFMONTH DAYOFWEEK DAYOFYEAR DEGREES ELT EXP EXPORT_SET "
    "EXTRACT EXTRACTVALUE FIELD FIND_IN_SET FLOOR FORMAT FOUND_ROWS FROM_BASE64 FROM_DAYS FROM_UNIXTIME "
    "GET_FORMAT GET_LOCK GREATEST GROUP_CONCAT HEX HOUR IF IFNULL INET6_ATON INET6_NTOA INET_ATON "
    "INET_NTOA INSERT INSTR ISNULL IS_FREE_LOCK IS_IPV4 IS_IPV6 IS_USED_LOCK LAST_DAY LAST_INSERT_ID LCASE "
    "LEAST LEFT LENGTH LN LOAD_FILE LOCALTIME LOCALTIMESTAMP LOCATE LOG LOG10 LOG2 LOWER LPAD LTRIM "
    "MAKEDATE MAKETIME MAKE_SET MAX MICROSECOND MID MIN MINUTE MOD MONTH MONTHNAME NAME_CONST NOW NULLIF "
    "OCT OCTET_LENGTH ORD PERIOD_ADD PERIOD_DIFF PI POSITION POW POWER QUARTER QUOTE RADIANS RAND "
    "RANDOM_BYTES RELEASE_LOCK REPEAT REPLACE REVERSE RIGHT ROUND ROW_COUNT RPAD RTRIM SCHEMA SECOND "
    "SEC_TO_TIME SESSION_USER SHA2 SIGN SIN SLEEP SOUNDEX SPACE SQRT STD STDDEV STDDEV_POP STDDEV_SAMP "
    "STRCMP STR_TO_DATE SUBDATE SUBSTR SUBSTRING SUBSTRING_INDEX SUBTIME SUM SYSDATE SYSTEM_USER TAN TIME "
    "TIMEDIFF TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF TIME_FORMAT TIME_TO_SEC TO_BASE64 TO_DAYS TO_SECONDS "
    "TRIM TRUNCATE UCASE UNCOMPRESS UNCOMPRESSED_LENGTH UNHEX UNIX_TIMESTAMP UPDATEXML UPPER USER UTC_DATE "
    "UTC_TIME UTC_TIMESTAMP UUID UUID_SHORT VALUES VARIANCE VAR_POP VAR_SAMP VERSION WEEK WEEKDAY "
    "WEEKOFYEAR WEIGHT_STRING YEAR YEARWEEK"
)
FUNCTIONS = frozenset(_FUNCTIONS_TEXT.split())
"""Functions built into each of the supported servers."""
LOADED = frozenset({"FNV1A_64", "FNV_64", "MURMUR_HASH", "MD5", "SHA", "SHA1"})
"""Loadable functions with which pt-table-checksum computes checksums of rows: functions of Percona
Server, and functions that are a component of MySQL since 9.6."""
_CLOSE_TEXT = (
    "ADDDATE BIT_AND BIT_OR BIT_XOR CAST COUNT CURDATE CURTIME DATE_ADD DATE_SUB EXTRACT GROUP_CONCAT MAX "
    "MID MIN NOW POSITION SESSION_USER STD STDDEV STDDEV_POP STDDEV_SAMP SUBDATE SUBSTR SUBSTRING SUM "
    "SYSDATE SYSTEM_USER TRIM VARIANCE VAR_POP VAR_SAMP"
)
_CLOSE = frozenset(_CLOSE_TEXT.split())
"""Functions that are ordinary names if a space precedes the parentheses, unless sql_mode has IGNORE_SPACE."""
_KNOWN = WORDS | FUNCTIONS | LOADED


def refuse_unknown_calls(reader: Reader, lists: set[int]) -> None:
    """Raise GrammarFault if the statement may call a stored function.

    ``lists``: the token indexes of column lists. Invariant: a name before parentheses is an SQL word, a
    function in FUNCTIONS or LOADED, an alias after AS, or a fault. A stored function that has the name of a
    built-in function is called only with its database's name. A test compares the list with real servers.
    """
    keys, lexed = reader.keys, reader.lexed
    ignores_space = "IGNORE_SPACE" in reader.session.sql_mode
    for at, key in enumerate(keys):
        if key != "(" or at == 0 or at in lists:
            continue
        name, before = keys[at - 1], keys[at - 2] if at > 1 else lexer.END
        is_apart = lexed.starts[at] > lexed.ends[at - 1] and not ignores_space
        if name == lexer.QUOTED_NAME or (_is_word(name) and before == "."):
            raise _fault(reader, at)
        if (
            _is_word(name)
            and before != "AS"
            and (name not in _KNOWN or (is_apart and name in _CLOSE))
        ):
            raise _fault(reader, at)


def _is_word(key: str) -> bool:
    """Whether a key is a word. A number counts: before parentheses, it is the end of an unusual name."""
    return key[0].isalnum() or key[0] in "_$" or key[0] > "\x7f"


def _fault(reader: Reader, at: int) -> GrammarFault:
    name = reader.texts[at - 1][:64]
    return GrammarFault(f"{name} may be a stored function, which may write other tables")


_QUERY = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_JOINS = frozenset({"JOIN", "STRAIGHT_JOIN"})
_HINTS = frozenset({"USE", "FORCE", "IGNORE"})
_NO_ALIAS_TEXT = (
    "INNER CROSS LEFT RIGHT NATURAL ON USING SET WHERE ORDER LIMIT PARTITION RETURNING FOR FULL "
    "TABLESAMPLE"
)
_NO_ALIAS = _JOINS | _HINTS | frozenset(_NO_ALIAS_TEXT.split())


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry of a statement's table references.

    Invariant: a form that ``_reference`` does not parse is a fault and is never skipped; tables that a
    subquery reads are not references. Source: MySQL's manual, "JOIN Clause".
    """

    alias: str | None
    table: TableRef | None
    """None for a derived table, which cannot be written."""

    def is_named(self, qualifier: TableRef, default: str | None) -> bool:
        """Whether a qualifier such as ``o`` or ``shop.orders`` refers to this entry."""
        database, name = qualifier
        if self.alias is not None:
            return database is None and _same(self.alias, name)
        if self.table is None or not _same(self.table[1], name):
            return False
        return database is None or _same(self.table[0] or default or "", database)


def references(reader: Reader, ends: frozenset[str]) -> list[Reference]:
    """Read the table references up to a word in ``ends``; the caller reads that word."""
    found: list[Reference] = []
    depth, expects = 0, True
    while True:
        key = reader.key
        if expects:
            if key == "(" and not _is_query(reader):
                depth += 1
                reader.at += 1
                continue
            found.append(_reference(reader))
            expects = False
        elif key in ends and not depth:
            return found
        elif key == END:
            raise reader.fault("expected the end of the table references")
        elif key == "," or key in _JOINS:
            expects = True
            reader.at += 1
        elif key == "(":
            reader.skip_parentheses()
        elif key == ")":
            if not depth:
                raise reader.fault("expected a table reference")
            depth -= 1
            reader.at += 1
        else:
            # A word after a point is always a column's name.
            reader.at += 2 if key == "." else 1


def _reference(reader: Reader) -> Reference:
    lateral = reader.take("LATERAL")
    if reader.key == "(":
        reader.skip_parentheses()
        return Reference(_alias(reader, needed=True), None)
    if lateral:
        raise reader.fault("expected (")
    table = reader.table()
    if reader.key == "(":
        # A table function, such as JSON_TABLE.
        reader.skip_parentheses()
        return Reference(_alias(reader, needed=True), None)
    if reader.take("PARTITION"):
        reader.skip_parentheses()
    alias = _alias(reader)
    while reader.key in _HINTS:
        _skip_hint(reader)
    return Reference(alias, table)


def _alias(reader: Reader, *, needed: bool = False) -> str | None:
    alias = None
    if reader.take("AS") or (reader.is_name() and reader.key not in _NO_ALIAS):
        alias = reader.name()
    elif needed:
        raise reader.fault("expected an alias")
    if needed and reader.key == "(":
        reader.skip_parentheses()
    return alias


def _skip_hint(reader: Reader) -> None:
    """Skip an index hint."""
    reader.at += 1
    if not (reader.take("INDEX") or reader.take("KEY")):
        raise reader.fault("expected an index hint")
    if reader.take("FOR"):
        _ = reader.take("JOIN") or reader.take("ORDER", "BY") or reader.take("GROUP", "BY")
    reader.skip_parentheses()


def _is_query(reader: Reader) -> bool:
    """Whether the parentheses that begin here contain a query."""
    at = reader.at
    while reader.keys[at] == "(":
        at += 1
    return reader.keys[at] in _QUERY


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


_NAMES = (
    r"mysql\.(?:rds_\w+|aurora_\w+|ro_replica_status)",  # Amazon
    r"mysql\.(?:heartbeat|cloudsql_\w+)",  # Google
    r"mysql\.__az_\w+",  # Azure
    r"mysql\.(?:ha_health_check|slave_\w+|inc_\w+)",  # Alibaba, Tencent, and services that copied them
    r"percona\.(?:checksums|heartbeat|dsns|sync_history|pt_osc_\w+|query_review(?:_history)?)",
    r"(?:orchestrator|orchestrator_meta|meta)\.(?:cluster|heartbeat|pseudo_gtid\w*|node_health\w*)",
    r"infra\.chk_masterha",  # MHA
    r"maxscale_schema\.\w+",
)
_ANY = re.compile("|".join(_NAMES), re.IGNORECASE)


def is_tools_own(name: TableName) -> bool:
    """Whether a table is known to belong to a service or tool.

    Invariant: a name is listed only if the service or tool creates the table itself, without a trigger.
    Sources: the binlogs of these services; the manuals of pt-table-checksum, pt-heartbeat,
    pt-slave-restart, Orchestrator, MHA, ProxySQL and MaxScale.
    """
    return _ANY.fullmatch(".".join(name)) is not None
