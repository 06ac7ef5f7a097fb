"""The new values of numbers and bits after an ALTER TABLE.

Invariant: as for all altered values, see `altered_values.py`.
"""

from __future__ import annotations

from typing import Final

from spark_sink.source.altered_kinds import (
    APPROXIMATE,
    BITS,
    KEPT,
    NEVER,
    TEXTS,
    UNKNOWN,
    Altered,
    Kind,
    cut,
    either,
    type_of,
)
from spark_sink.source.column_reading import reading
from spark_sink.text.quoting import literal

_FLT_MAX: Final = "3.4028234E38D"
_WHOLE: Final = "{x} = rint({x}) AND abs({x}) < 1E{digits}D AND CAST({x} AS STRING) <> '-0.0'"


def from_number(old: Kind, new: Kind) -> Altered | None:
    """Return the values of an integer, a DECIMAL or a YEAR in another type; None if all stay as they are."""
    if old.base in {"decimal", "numeric"} and old.digits[0] > 38:
        return None if (old.digits, old.unsigned) == (new.digits, new.unsigned) else UNKNOWN
    scale = old.digits[1] if old.base in {"decimal", "numeric"} else 0
    exact = f"CAST({KEPT} AS decimal(38,{scale}))"
    if old.base == new.base == "year" or _holds(old, new):
        return None
    if new.base in {"char", "varchar", *TEXTS}:
        if "zerofill" in old.shown or (old.unsigned and not old.is_printed):
            return UNKNOWN
        text = f"CAST({exact} AS STRING)"
        return cut(f"lpad({text}, 4, '0')" if old.base == "year" else text, new)
    return number(exact, new)


def _holds(old: Kind, new: Kind) -> bool:
    """Whether the type `new` holds every value of the type `old` as it is."""
    one, other = _range(old), _range(new)
    if one is not None and other is not None:
        return other[0] <= one[0] and one[1] <= other[1]
    if new.base in {"decimal", "numeric"} and new.digits[0] <= 38:
        signed = old.unsigned or not new.unsigned
        whole, scale = new.digits[0] - new.digits[1], new.digits[1]
        if one is not None:
            return (one[0] >= 0 or not new.unsigned) and len(str(max(one[1], -one[0]))) <= whole
        precision, own = old.digits
        return signed and own <= scale and precision - own <= whole
    if new.base in {"double", "real"} and one is not None and not new.has_digits:
        return max(one[1], -one[0]) <= 2**53 and (one[0] >= 0 or not new.unsigned)
    return False


def _range(kind: Kind) -> tuple[int, int] | None:
    if kind.base == "year":
        return 0, 2155
    bits = BITS.get(kind.base)
    if bits is None:
        return None
    return (0, 2**bits - 1) if kind.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def number(exact: str, new: Kind, unknown: str = NEVER) -> Altered:
    """Return an exact number in another type of number, rounded half away from zero and clamped."""
    kind = reading(type_of(new)).type
    if new.base == "year":
        # A cast truncates, and the server rounds.
        valid = f"({exact} = round({exact}, 0) AND ({exact} = 0 OR {exact} BETWEEN 1901 AND 2155))"
        return Altered(f"try_cast({exact} AS int)", either(unknown, f"NOT {valid}"))
    if (ends := _range(new)) is not None:
        low, high = (f"CAST({end} AS decimal(38,0))" for end in ends)
        rounded = f"CAST(round({exact}, 0) AS decimal(38,0))"
        value = f"CASE WHEN {exact} >= {high} THEN {high} WHEN {exact} <= {low} THEN {low} ELSE {rounded} END"
        return Altered(f"CAST({value} AS {kind})", unknown)
    if new.base in {"decimal", "numeric"}:
        precision, scale = new.digits
        if precision > 38:
            return UNKNOWN
        most = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
        high = f"CAST('{most}' AS {kind})"
        # Spark rewrites a comparison with `-CAST(…)`, and then `-most`, rounded, does not fit the type.
        low = f"CAST({'0' if new.unsigned else literal(f'-{most}')} AS {kind})"
        rounded = f"CAST(round({exact}, {scale}) AS {kind})"
        least = f"WHEN {exact} <= {low} THEN {low}"
        value = f"CASE WHEN {exact} >= {high} THEN {high} {least} ELSE {rounded} END"
        return Altered(value, unknown)
    if new.base in APPROXIMATE and not new.has_digits:
        value = f"CAST({exact} AS double)"
        if new.unsigned:
            value = _not_negative(value)
        return Altered(value if kind == "double" else f"CAST({value} AS {kind})", unknown)
    return UNKNOWN


def from_bits(old: Kind, new: Kind) -> Altered | None:
    """Return the values of a BIT in another type; None if all stay as they are."""
    if new.base == "bit":
        first, second = ((kind.size + 7) // 8 for kind in (old, new))
        if new.size < old.size:
            return UNKNOWN
        if first == second:
            return None
        return Altered(f"unhex(lpad(hex({KEPT}), {second * 2}, '0'))")
    if new.base in BITS or new.base in {"decimal", "numeric"}:
        return number(f"CAST(conv(hex({KEPT}), 16, 10) AS decimal(38,0))", new)
    return UNKNOWN


def from_approximate(old: Kind, new: Kind) -> Altered | None:
    """Return the values of a FLOAT or DOUBLE in another type; None if all stay as they are."""
    x = f"CAST({KEPT} AS double)"
    if new.base in APPROXIMATE:
        if new.has_digits and new.shown != old.shown:
            return UNKNOWN
        loses_sign = new.unsigned and not old.unsigned
        if new.base != "float" or old.base == "float":
            return Altered(_not_negative(x)) if loses_sign else None
        value = f"CAST(CAST({x} AS float) AS double)"
        value = _not_negative(value) if loses_sign else value
        return Altered(value, f"abs({x}) > {_FLT_MAX}")
    # The server prints six digits of a FLOAT, and rounds a DOUBLE by its text or its bits.
    whole = _WHOLE.replace("{x}", x).replace("{digits}", "6" if old.base == "float" else "15")
    exact = f"CAST(if({whole}, {x}, NULL) AS decimal(38,0))"
    unknown = f"NOT ({whole})"
    if new.base in {"char", "varchar", *TEXTS} and old.is_printed and not old.has_digits:
        found = cut(f"CAST({exact} AS STRING)", new)
        return Altered(found.sql, either(unknown, found.unknown))
    if new.base in BITS or new.base in {"decimal", "numeric"}:
        return number(exact, new, unknown)
    return UNKNOWN


def _not_negative(value: str) -> str:
    """A DOUBLE in an unsigned type. NULL stays NULL, which Spark's `greatest` would ignore."""
    return f"if({value} < 0D, 0D, {value})"
