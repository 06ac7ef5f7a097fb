"""The same statement with other gaps, comments and cases, as a user may write it.

Invariant: quoted texts and comments are kept. A comment within one that a server skips would end it early in
the binlog, where the server itself no longer reads it correctly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

_PARTS = re.compile(r"/\*.*?\*/|`(?:[^`]|``)*`|'(?:[^']|'')*'|\"[^\"]*\"|.", re.DOTALL)
_GAPS = ("\n", "\t ", " /* , x INT */ ", " -- '\n", "  ", " #`\n")


def scribbled(text: str, random: Random) -> str:
    """Half of all statements are written otherwise."""
    if random.random() < 0.5:
        return text
    return "".join(_other(text, random))


def _other(text: str, random: Random) -> Iterator[str]:
    for part in _PARTS.findall(text):
        if part == " " and random.random() < 0.2:
            yield random.choice(_GAPS)
        elif len(part) == 1 and part.isascii() and random.random() < 0.1:
            yield part.lower()
        else:
            yield part
