"""Lower case of names, as servers compare and store them.

Invariant: the result is that of ``LOWER()`` in ``utf8mb3_general_ci``, letter by letter. All servers still
use the letters of Unicode 3.0: ``İ`` becomes ``i``, and a letter added later, such as ``ẞ``, has no lower
case. MySQL compares column names in this form. With ``lower_case_table_names=1`` every server stores table
names in it.
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
