"""Function calls in a statement: built-in functions, which write no table, or possibly stored ones.

Invariant: a name before parentheses is an SQL word, a function built into every supported server,
or a fault. A stored function of such a name is only called with its database before it. A test
compares the list with real servers.
"""

from __future__ import annotations

from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.token_reader import GrammarFault, Reader

_WORDS_TEXT = (
    "ALL AND AS BETWEEN BINARY BY CASE CHAR CHARACTER CHECK CROSS DECIMAL DEFAULT DISTINCT DIV ELSE EXISTS "
    "FLOAT FOR FORCE FROM GROUP HAVING IGNORE IN INDEX INNER INTERVAL INTO IS JOIN KEY LIKE LIMIT MATCH "
    "MOD NATURAL NOT NULL ON OR ORDER OUTER PARTITION REGEXP RLIKE ROW SELECT SET STRAIGHT_JOIN THEN UNION "
    "UPDATE USE USING VALUES VARCHAR WHEN WHERE WITH XOR"
)
WORDS = frozenset(_WORDS_TEXT.split())
"""SQL words that parentheses may follow, and that no server reads as a function's name."""
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
"""Loadable functions with which pt-table-checksum computes checksums of rows: Percona Server's,
and those that MySQL has as a component since 9.6."""
_CLOSE_TEXT = (
    "ADDDATE BIT_AND BIT_OR BIT_XOR CAST COUNT CURDATE CURTIME DATE_ADD DATE_SUB EXTRACT GROUP_CONCAT MAX "
    "MID MIN NOW POSITION SESSION_USER STD STDDEV STDDEV_POP STDDEV_SAMP SUBDATE SUBSTR SUBSTRING SUM "
    "SYSDATE SYSTEM_USER TRIM VARIANCE VAR_POP VAR_SAMP"
)
_CLOSE = frozenset(_CLOSE_TEXT.split())
"""Functions that are ordinary names if a space precedes the parentheses, unless sql_mode has IGNORE_SPACE."""
_KNOWN = WORDS | FUNCTIONS | LOADED


def refuse_unknown_calls(reader: Reader, lists: set[int]) -> None:
    """Raise GrammarFault if a stored function may be called; ``lists`` are the token indexes of
    column lists."""
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
    """Whether a key is a word; a number before parentheses is the rest of an odd name."""
    return key[0].isalnum() or key[0] in "_$" or key[0] > "\x7f"


def _fault(reader: Reader, at: int) -> GrammarFault:
    name = reader.texts[at - 1][:64]
    return GrammarFault(f"{name} may be a stored function, which may write other tables")
