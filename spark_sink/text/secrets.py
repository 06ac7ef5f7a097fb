"""Secrets of the settings, which must not appear on a command line or in the log.

Invariant: a text returned by `hidden` has no value of 4 or more characters that the settings give to a key with
a secret's name, or by a file. Errors of drivers and catalogs quote such values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# The keys whose values Spark hides on its own pages (spark.redaction.regex), and Kafka's JAAS configuration.
_SECRET_KEY: Final = re.compile(r"(?i)secret|password|token|access[.-]?key|credential$|jaas")
_USER_INFO: Final = re.compile(
    r"(?<=//)[^/\s:@]*:[^/\s@]*@|\b[^\s/:@,;'\"=]+:[^\s/:@,;'\"=]+@(?=[\w.-]+:\d)"
)
_ASSIGNED: Final = re.compile(
    r"(?i)\b((?:[\w.-]*(?:password|secret)|passwd|pwd|[\w.-]*token)=)(\"[^\"]*\"|'[^']*'|[^\s&;,)\"']+)"
)
_LEAST: Final = 4
"""Characters of the shortest value that is hidden: a shorter one may be part of any word of a message."""
_values: set[str] = set()


def is_secret(key: str) -> bool:
    """Whether a key of Spark's, Kafka's or a catalog's options has a secret as its value."""
    return _SECRET_KEY.search(key) is not None


def keep(values: Iterable[str]) -> None:
    """Hide these values from now on."""
    _values.update(value for value in values if len(value) >= _LEAST)


def hidden(text: str) -> str:
    """The text with `***` for kept values, for user and password in addresses, and for assigned passwords."""
    for value in sorted(_values, key=len, reverse=True):
        text = text.replace(value, "***")
    return _ASSIGNED.sub(r"\1***", _USER_INFO.sub("***@", text))
