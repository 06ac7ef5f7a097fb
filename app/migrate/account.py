"""Accounts and choices that Canal and Debezium write in one form: Kafka's login, TLS modes, types of DDL."""

from __future__ import annotations

import re

from app.migrate.draft import Draft
from app.migrate.findings import Entry
from app.migrate.names import password_file

TLS_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
ALL_DDL = "CREATE, ALTER, DROP, RENAME, TRUNCATE"
_USER = re.compile(r"username\s*=\s*\\?[\"']([^\"'\\]+)")


def convert_login(draft: Draft, login: Entry) -> None:
    """Put the account of a JAAS configuration; its password goes into a file."""
    file = password_file("kafka")
    if user := _USER.search(login.value):
        draft.take(login, ("kafka", "sasl_username"), user[1])
    draft.settings.put(("kafka", "sasl_password_file"), file, login.origin)
    draft.by_hand(login, f"write Kafka's password into {file}; it is not copied")
