"""Values of other programs in Aqueduct's form: names and numbers, accounts, lists of table
expressions.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Container

from app.migrate.draft import Draft, Entry
from tables.rules.table_filter import expressions

_LONGEST = 63
_LEAST_SERVER_ID = 100_000
_SERVER_IDS = 900_000


def destination_name(text: str, taken: Container[str] = ()) -> str:
    """Return a destination's name, made of a name in another program, that is not taken."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST] or "source"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain[: _LONGEST - 4]}-{number}"
    return name


def server_id(text: str, taken: Container[int] = ()) -> int:
    """Return a replica's server id for a name: always the same id, unless it is taken."""
    number = _LEAST_SERVER_ID + zlib.crc32(text.encode()) % _SERVER_IDS
    while number in taken:
        number += 1
    return number


def password_file(name: str) -> str:
    """Return the file in which an operator puts a password, relative to the settings file."""
    return f"secrets/{name}.password"


# Accounts and choices that Canal and Debezium write in one form: Kafka's login, TLS modes, types
# of DDL.


TLS_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
_ALL_DDL = "CREATE, ALTER, DROP, RENAME, TRUNCATE"
_WITHOUT_DDL = (
    "no statement is published, so the sink follows no DROP, RENAME or ALTER: a table that is dropped or "
    "renamed keeps its name and rows in the warehouse, and a change of columns shows with the table's next row."
    " If a sink is to read this installation, leave ddl.exclude out; statements are on topics of their own"
)
_USER = re.compile(r"username\s*=\s*\\?[\"']([^\"'\\]+)")


def convert_login(draft: Draft, login: Entry) -> None:
    """Put the account of a JAAS configuration; its password goes into a file."""
    file = password_file("kafka")
    if user := _USER.search(login.value):
        draft.take(login, ("kafka", "sasl_username"), user[1])
    draft.settings.put(("kafka", "sasl_password_file"), file, login.origin)
    draft.by_hand(login, f"write Kafka's password into {file}; it is not copied")


def exclude_statements(draft: Draft, entry: Entry) -> None:
    """Put that no statement is published, and report what that means for the sink."""
    draft.take(entry, ("ddl", "exclude"), _ALL_DDL)
    draft.note("ddl.exclude", _WITHOUT_DDL)


# Lists of table expressions from other programs, checked before Aqueduct's filter takes them.


NOTHING = "(?!)"
"""An expression that matches no table."""


def fault_of(text: str) -> str:
    """Return why a list of expressions cannot be taken over as it is; empty if it can."""
    if _comma_within(text):
        return "an expression has a comma; write its alternatives as a list"
    try:
        expressions(text)
    except ValueError as error:
        return f"{error}; Java and Python differ here, so write it again"
    return ""


def literal_name(text: str) -> str:
    """Return the name that an expression without wildcards means; empty for another expression."""
    plain = re.sub(r"\\+\.", ".", text.strip().removeprefix("^").removesuffix("$"))
    return plain if re.fullmatch(r"[^\\^$*+?{}\[\]|()]+", plain) else ""


def _comma_within(text: str) -> bool:
    """Whether a comma is within brackets, where it does not separate two expressions."""
    depth = 0
    for sign in re.sub(r"\\.", "", text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth > 0:
            return True
    return False
