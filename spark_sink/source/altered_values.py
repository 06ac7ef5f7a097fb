"""The new values of an existing column after an ALTER TABLE: MySQL rewrites them and publishes no row.

Invariant: a value is computed only if MySQL's result is the same in every SQL mode and session in which the
statement succeeds; any other value is unknown. If a conversion that strict mode refuses has succeeded, its
values were clamped or truncated, so the mode need not be known. Expressions are Spark SQL; nothing here does
I/O.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spark_sink.source.altered_kinds import (
    ALWAYS,
    APPROXIMATE,
    BITS,
    BLOBS,
    BYTES,
    CHARS,
    CLOCKS,
    KEPT,
    LABELS,
    NEVER,
    TEXTS,
    UNKNOWN,
    Altered,
    Kind,
    TypedColumn,
    cut,
    either,
    kind_of,
    type_of,
)
from spark_sink.source.altered_numbers import from_approximate, from_bits, from_number, number
from spark_sink.source.column_reading import reading
from spark_sink.text.quoting import literal
from wire.warehouse_types import GEOMETRY, warehouse_type

_WORDS: Final = (*CHARS, *TEXTS, *LABELS, "json", "time")
_ALL: Final = ("utf8mb4", "utf16", "utf16le", "utf32", "gb18030")
_BASIC: Final = ("utf8mb3", "utf8", "ucs2")
_AS_IN_UTF8: Final = ("utf8mb4", "utf8mb3", "utf8", "ascii")


def altered(old: TypedColumn, new: TypedColumn) -> Altered | None:
    """Return the values of the column `old` in the column `new`; None if all stay as they are."""
    before, after = kind_of(old), kind_of(new)
    if old.mysql_type == new.mysql_type and before.is_printed != after.is_printed:
        # What only one of the two columns states has not changed, as far as is known.
        shown = (before if before.is_printed else after).shown
        before, after = replace(before, shown=shown), replace(after, shown=shown)
    found = _converted(before, after)
    if found is not None and found.unknown not in (NEVER, ALWAYS):
        # NULL stays NULL, whatever the result of the condition for it.
        there = f"({KEPT} IS NOT NULL{' OR {aside} IS NOT NULL' if before.base in CLOCKS else ''})"
        found = Altered(found.sql, f"{there} AND ({found.unknown})", found.is_zoned)
    if old.nullable and not new.nullable:
        found = _filled_in(found, before, after)
    if found is None or (found.sql == KEPT and found.unknown == NEVER):
        return None
    if found.sql != KEPT and found.unknown != ALWAYS:
        # A value that Spark cannot compute is unknown, not NULL.
        lost = f"({{v}} IS NOT NULL AND ({found.sql}) IS NULL)"
        found = Altered(found.sql, either(found.unknown, lost), found.is_zoned)
    return replace(found, kind=reading(new.mysql_type).type)


def _converted(old: Kind, new: Kind) -> Altered | None:
    if _is_address(old) or _is_address(new):
        return None if old.shown == new.shown else UNKNOWN
    if old.base in BITS or old.base in {"decimal", "numeric", "year"}:
        return from_number(old, new)
    if old.base == "bit":
        return from_bits(old, new)
    if old.base in APPROXIMATE:
        return from_approximate(old, new)
    if old.base == "time":
        return _from_time(old, new)
    if old.base in _WORDS:
        return _from_text(old, new)
    if old.base in BYTES:
        return _to_bytes(old, new, KEPT, NEVER) if new.base in BYTES else UNKNOWN
    if old.base in CLOCKS:
        return _from_clock(old, new)
    if _is_geometry(old):
        # A value of another shape is refused in every SQL mode.
        return None if _is_geometry(new) else UNKNOWN
    return None if old.base == new.base else UNKNOWN


def _is_address(kind: Kind) -> bool:
    """Whether MariaDB prints the type under a name that is not the name of its values' type."""
    return kind.base == "binary" and not kind.shown.startswith("binary")


def _is_geometry(kind: Kind) -> bool:
    return warehouse_type(kind.base) == GEOMETRY


# Texts.


def _from_text(old: Kind, new: Kind) -> Altered | None:
    if new.base == "json":
        return None if old.base == "json" else UNKNOWN
    if new.base in CHARS or new.base in TEXTS:
        letters = _letters_lost(old, new)
        if letters == NEVER and _always_fits(old, new):
            return None
        return cut(KEPT, new, letters)
    if new.base in LABELS:
        return _in_labels(old, new)
    if new.base in BYTES:
        is_perhaps_address = new.base == "binary" and not new.is_printed
        if old.charset not in _AS_IN_UTF8 or old.base == "json" or is_perhaps_address:
            return UNKNOWN
        return _to_bytes(old, new, f"encode({KEPT}, 'UTF-8')", NEVER)
    if old.base in (*CHARS, *TEXTS) and (new.base in BITS or new.base in {"decimal", "numeric"}):
        # Into an integer, MySQL rounds a fraction, and MariaDB cuts it off.
        fraction = "([.][0-9]{1,18})?" if new.base not in BITS else ""
        plain = f"{KEPT} RLIKE '^-?[0-9]{{1,18}}{fraction}$'"
        exact = f"CAST(if({plain}, {KEPT}, NULL) AS decimal(38,18))"
        return number(exact, new, f"NOT {plain}")
    return UNKNOWN


def _always_fits(old: Kind, new: Kind) -> bool:
    if old.base == "json":
        return new.base == "longtext"
    if new.base in TEXTS:
        if old.base in TEXTS:
            wider = TEXTS[new.base] >= TEXTS[old.base]
            return wider and (old.charset == new.charset or new.base == "longtext")
        return _longest(old) * 4 <= TEXTS[new.base]
    if new.base == "char" and old.base != "char":
        return False
    return old.base not in TEXTS and _longest(old) <= new.size


def _longest(kind: Kind) -> int:
    if kind.base == "enum":
        return max(map(len, kind.labels), default=0)
    if kind.base == "set":
        return len(",".join(kind.labels))
    return kind.size


def _letters_lost(old: Kind, new: Kind) -> str:
    """The condition that a text may have characters that the new character set lacks."""
    one = "utf8mb4" if old.base == "json" else old.charset
    other = new.charset
    if one == other or not one or not other or other in _ALL or one == "ascii":
        return NEVER
    if {one, other} <= {*_BASIC}:
        return NEVER
    if other in _BASIC:
        return NEVER if one not in _ALL else f"{KEPT} RLIKE '[^\\\\x{{0}}-\\\\x{{FFFF}}]'"
    if "swe7" in (one, other):
        return f"length({KEPT}) > 0"
    return f"{KEPT} RLIKE '[^\\\\x00-\\\\x7F]'"


def _in_labels(old: Kind, new: Kind) -> Altered | None:
    labels = ", ".join(map(literal, new.labels))
    if old.base == new.base and old.labels == new.labels[: len(old.labels)]:
        return None
    if old.base == new.base == "set":
        order = [label for label in new.labels if label in old.labels]
        if order == list(old.labels):
            return None
        if order == [label for label in old.labels if label in order]:
            members = f"split({KEPT}, ',')"
            strange = f"size(array_except({members}, array({labels}))) > 0"
            return Altered(KEPT, f"{KEPT} <> '' AND {strange}")
        # The SET without members is a value of every SET.
        labels = f"'', {labels}"
    return Altered(KEPT, f"{KEPT} NOT IN ({labels})")


def _from_time(old: Kind, new: Kind) -> Altered | None:
    if new.base == "time":
        more = new.fsp - old.fsp
        if more == 0:
            return None
        if more > 0:
            point = "." if old.fsp == 0 else ""
            return Altered(f"concat({KEPT}, '{point}{'0' * more}')")
        # Whether it is rounded or truncated depends on the SQL mode.
        end = ("." if new.fsp == 0 else "") + "0" * -more
        kept = f"left({KEPT}, length({KEPT}) - {len(end)})"
        return Altered(kept, f"NOT endswith({KEPT}, '{end}')")
    if new.base in CHARS or new.base in TEXTS:
        return cut(KEPT, new)
    return UNKNOWN


# Bytes.


def _to_bytes(old: Kind, new: Kind, value: str, unknown: str) -> Altered | None:
    if new.base in BLOBS:
        limit = BLOBS[new.base]
        if old.base in BYTES and (BLOBS.get(old.base) or old.size) <= limit:
            return Altered(value, unknown)
        long = f"octet_length({value}) > {limit}"
        return Altered(value, unknown if new.base == "longblob" else either(unknown, long))
    if new.base == "varbinary":
        fits = old.base in {"binary", "varbinary"} and old.size <= new.size
        return Altered(value if fits else f"substring({value}, 1, {new.size})", unknown)
    if old.base == "binary" and old.size == new.size:
        return None
    return Altered(f"rpad(substring({value}, 1, {new.size}), {new.size}, X'00')", unknown)


# Dates and times.


def _from_clock(old: Kind, new: Kind) -> Altered | None:
    # A zero or partial date is kept as text, in the form of its type.
    aside = "{aside} IS NOT NULL"
    if new.base in CHARS or new.base in TEXTS:
        if old.base == "timestamp":
            return UNKNOWN
        form = "yyyy-MM-dd" if old.base == "date" else "yyyy-MM-dd HH:mm:ss"
        if old.base == "datetime" and old.fsp:
            form += f".{'S' * old.fsp}"
        return cut(f"date_format({KEPT}, '{form}')", new, aside)
    if new.base not in CLOCKS:
        return UNKNOWN
    if (old.base, new.base) == ("date", "datetime"):
        return Altered(KEPT, aside)
    fraction = _fraction(old, new)
    if old.base == new.base:
        if old.fsp == new.fsp:
            return None
        return Altered(KEPT, either(aside, fraction))
    if (old.base, new.base) == ("datetime", "date"):
        midnight = f"CAST(CAST({KEPT} AS DATE) AS TIMESTAMP_NTZ)"
        return Altered(midnight, either(aside, _fraction(old, new)))
    if (old.base, new.base) == ("datetime", "timestamp"):
        utc = "to_utc_timestamp(CAST({v} AS TIMESTAMP), {zone})"
        back = f"from_utc_timestamp({utc}, {{zone}})"
        gone = f"{back} <> CAST({{v}} AS TIMESTAMP)"
        hour = "INTERVAL 1 HOUR"
        twice = " OR ".join(
            f"from_utc_timestamp({utc} {sign} {hour}, {{zone}}) = CAST({{v}} AS TIMESTAMP)"
            for sign in "+-"
        )
        outside = (
            f"{utc} < TIMESTAMP'1970-01-01 00:00:01Z' OR {utc} >= TIMESTAMP'2038-01-19 03:14:07Z'"
        )
        return Altered(
            utc, f"{aside} OR {fraction} OR {gone} OR {twice} OR {outside}", is_zoned=True
        )
    if (old.base, new.base) == ("timestamp", "datetime"):
        local = "CAST(from_utc_timestamp({v}, {zone}) AS TIMESTAMP_NTZ)"
        return Altered(local, either(aside, fraction), is_zoned=True)
    return UNKNOWN


def _fraction(old: Kind, new: Kind) -> str:
    """The condition that a fraction is rounded or truncated; which of both depends on the SQL mode."""
    digits = new.fsp if new.base != "date" else 0
    if old.base == "date" or old.fsp <= digits:
        return NEVER
    return f"CAST(date_format({KEPT}, 'SSSSSS') AS int) % {10 ** (6 - digits)} <> 0"


# NULL.


def _filled_in(found: Altered | None, old: Kind, new: Kind) -> Altered:
    """The same values, with the value that replaces NULL in a NOT NULL column."""
    found = found or Altered(KEPT)
    default = _implicit(new)
    if default is None:
        return Altered(
            found.sql,
            f"if({KEPT} IS NULL AND {{aside}} IS NULL, true, coalesce({found.unknown}, true))",
            found.is_zoned,
        )
    if found.unknown == ALWAYS:
        return found
    null = f"{KEPT} IS NULL" + (" AND {aside} IS NULL" if old.base in CLOCKS else "")
    return Altered(
        f"if({null}, {default}, {found.sql})",
        f"NOT ({null}) AND coalesce({found.unknown}, true)",
        found.is_zoned,
    )


def _implicit(kind: Kind) -> str | None:
    """The value that the server puts in place of NULL; None if the type does not determine it."""
    if kind.base in BITS or kind.base in {"decimal", "numeric", "year", *APPROXIMATE}:
        return f"CAST(0 AS {reading(type_of(kind)).type})"
    if kind.base in CHARS or kind.base in TEXTS or kind.base == "set":
        return "''"
    if kind.base in {"varbinary", *BLOBS}:
        return "X''"
    if kind.base == "binary":
        return f"rpad(X'', {kind.size}, X'00')"
    return None
