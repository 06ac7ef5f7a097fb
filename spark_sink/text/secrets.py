"""Secrets of the settings, which must not appear on a command line or in the log.

Invariant: a text returned by `hidden` has no value of 4 or more characters that the settings give to a key with
a secret's name, by a file, or as the password in an address. Errors of drivers and catalogs quote such values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

HIDDEN_KEYS: Final = (
    r"(?i)secret|password|passphrase|token|credential$|jaas|header\.authorization|(^|[.-])sas\."
    r"|(access|account|private|encryption|decryption|provided|api)[.-]?key\b|(keystore|sse)[.-]key$"
)
"""The names of keys with a secret value, in a syntax that Python and Java share: those of Spark, Kafka,
Hadoop's file systems (S3A, Azure, Google) and Iceberg's catalogs and FileIOs."""
_SECRET_KEY: Final = re.compile(HIDDEN_KEYS)
_USER_INFO: Final = re.compile(
    r"(?<=//)[^/\s:@]*:[^/\s@]*@|\b[^\s/:@,;'\"=]+:[^\s/:@,;'\"=]+@(?=[\w.-]+:\d)"
)
_ASSIGNED: Final = re.compile(
    r"(?i)\b((?:[\w.-]*(?:password|secret)|passwd|pwd|sig|[\w.-]*token"
    r"|[\w.-]*(?:access|account|secret|private|encryption)[.-]?key[\w.-]*)=)"
    r"(\"[^\"]*\"|'[^']*'|[^\s&;,)\"']+)"
)
_PASSWORD_IN_ADDRESS: Final = re.compile(r"(?<=//)[^/\s:@]*:([^/\s@]+)@")
_LEAST: Final = 4
"""Characters of the shortest value that is hidden: a shorter one may be part of any word of a message."""
_values: set[str] = set()


def is_secret(key: str) -> bool:
    """Whether a key of Spark's, Kafka's or a catalog's options has a secret as its value."""
    return _SECRET_KEY.search(key) is not None


def keep(values: Iterable[str]) -> None:
    """Hide these values from now on, and the passwords that are parts of them."""
    for value in values:
        _values.update(one for one in (value, *passwords(value)) if one)


def passwords(value: str) -> Iterator[str]:
    """The passwords in a value: of addresses, also decoded, and those that are assigned to a secret's name."""
    for found in _PASSWORD_IN_ADDRESS.finditer(value):
        yield found[1]
        yield unquote(found[1])
    for found in _ASSIGNED.finditer(value):
        yield found[2].strip("\"'")


def is_kept(value: str) -> bool:
    """Whether a value is a whole secret that is kept, such as the content of a file."""
    return value in _values


def hidden(text: str) -> str:
    """The text with `***` for kept values, for user and password in addresses, and for assigned passwords."""
    for value in sorted(_values, key=len, reverse=True):
        if len(value) >= _LEAST:
            text = text.replace(value, "***")
    return _ASSIGNED.sub(r"\1***", _USER_INFO.sub("***@", text))
