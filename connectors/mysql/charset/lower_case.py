"""Lower case of names, as servers compare and store them.

Invariant: this is ``LOWER()`` in ``utf8mb3_general_ci``, letter by letter, which no server has
changed since Unicode 3.0: ``İ`` becomes ``i``, and letters added later, such as ``ẞ``, have no
other case. MySQL compares column names by it, and with ``lower_case_table_names=1`` every server
stores table names by it.
"""

from __future__ import annotations

import unicodedata
from functools import cache

_OLD = unicodedata.ucd_3_2_0
_AFTER_3_0 = frozenset(
    map(chr, (0x220, 0x3D8, 0x3F4, 0x48A, 0x4C5, 0x4C9, 0x4CD, *range(0x500, 0x510, 2)))
)


def lowered(name: str) -> str:
    """A name in lower case."""
    return name.lower() if name.isascii() else "".join(map(_lowered, name))


@cache
def _lowered(letter: str) -> str:
    small = letter.lower()[0]
    if letter in _AFTER_3_0 or "Cn" in (_OLD.category(letter), _OLD.category(small)):
        return letter
    return small
