"""Secrets of the settings, which neither a command line nor a line of the log has.

Invariant: a value that the settings give to a key with a secret's name, or by a file, is in no text that was
through `hidden`; errors of drivers and catalogs quote such values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# Those that Spark hides in its own pages (spark.redaction.regex), and Kafka's line with a password.
_SECRET_KEY: Final = re.compile(r"(?i)secret|password|token|access[.-]?key|credential$|jaas")
_USER_INFO: Final = re.compile(
    r"(?<=//)[^/\s:@]*:[^/\s@]*@|\b[^\s/:@,;'\"=]+:[^\s/:@,;'\"=]+@(?=[\w.-]+:\d)"
)
_ASSIGNED: Final = re.compile(
    r"(?i)\b((?:[\w.-]*(?:password|secret)|passwd|pwd|[\w.-]*token)=)(\"[^\"]*\"|'[^']*'|[^\s&;,)\"']+)"
)
_LEAST: Final = 4
"""Of what is shorter, a word of any message may be made."""
_values: set[str] = set()


def is_secret(key: str) -> bool:
    """Whether a key of Spark's, Kafka's or a catalog's options has a secret as its value."""
    return _SECRET_KEY.search(key) is not None


def keep(values: Iterable[str]) -> None:
    """Hide these values from now on."""
    _values.update(value for value in values if len(value) >= _LEAST)


def hidden(text: str) -> str:
    """The text without the values that were kept, users and passwords of addresses, and assigned passwords."""
    for value in sorted(_values, key=len, reverse=True):
        text = text.replace(value, "***")
    return _ASSIGNED.sub(r"\1***", _USER_INFO.sub("***@", text))
