"""Floating-point numbers as Java writes them.

Source: ``Double.toString`` and ``Float.toString`` of Java 19 and later: the shortest decimal that is the same
number, but of at least two digits; with an exponent below 0.001 and from 10,000,000 on.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal

_FIRST_PLAIN, _LAST_PLAIN = -3, 6
"""Exponents between which numbers are written without one."""


def java_number(value: float, *, is_single: bool = False) -> str:
    """Return a finite number as text; ``is_single``: a 32-bit float, given by its shortest decimal."""
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    number = Decimal(repr(value)).normalize()
    if len(number.as_tuple().digits) == 1:
        # Of all decimals of two digits, Java writes the nearest: 4.9E-324, not 5.0E-324.
        exact = struct.unpack("f", struct.pack("f", value))[0] if is_single else value
        number = Decimal(f"{exact:.1e}").normalize()
    exponent = number.adjusted()
    if _FIRST_PLAIN <= exponent <= _LAST_PLAIN:
        text = format(number, "f")
        return text if "." in text else f"{text}.0"
    first, *rest = map(str, number.as_tuple().digits)
    sign = "-" if value < 0 else ""
    return f"{sign}{first}.{''.join(rest) or '0'}E{exponent}"
