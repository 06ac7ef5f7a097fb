"""32-bit floats as numbers with few digits.

Invariant: the number is the same 32-bit float.
"""

from __future__ import annotations

import struct
from math import isfinite

_FLOAT = struct.Struct("<f")


def shortest_float32(raw: bytes) -> float:
    """The 64-bit float with the fewest digits that rounds to these four bytes; 9 always suffice."""
    value: float = _FLOAT.unpack(raw)[0]
    if not isfinite(value):
        raise ValueError(f"a FLOAT that is {value}")
    # Below the normal range there are not even six digits of precision.
    for digits in (6, 7, 8) if abs(value) >= _FLOAT_MIN_NORMAL else range(1, 9):
        short = float(f"{value:.{digits}g}")
        if abs(short) < _FLOAT_OVERFLOW and _FLOAT.pack(short) == raw:
            return short
    return float(f"{value:.9g}")


_FLOAT_OVERFLOW = 2.0**128 - 2.0**103
"""From here on a number rounds to infinity; FLT_MAX itself is half a step below."""
_FLOAT_MIN_NORMAL = 2.0**-126
