"""Columns of every type with values at their limits, by family: (type, SQL literals)."""

from collections.abc import Iterable, Iterator


def integers() -> Iterator[tuple[str, list[str]]]:
    for name, bits in (
        ("tinyint", 8),
        ("smallint", 16),
        ("mediumint", 24),
        ("int", 32),
        ("bigint", 64),
    ):
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        yield name, [str(low), str(high), "0", "-1", "1", "NULL"]
        yield f"{name} unsigned", ["0", str((1 << bits) - 1), str(high), str(high + 1), "1", "NULL"]
    yield "bool", ["TRUE", "FALSE", "-128", "127", "NULL", "1"]
    yield "year", ["0", "1901", "2155", "2026", "NULL", "1970"]


def decimals() -> Iterator[tuple[str, list[str]]]:
    shapes = [
        (65, 30), (65, 0), (10, 0), (5, 5), (1, 0), (1, 1), (30, 2), (9, 9), (18, 9), (38, 30), (12, 2),
        (19, 10), (11, 1), (20, 19),
    ]  # fmt: skip
    for precision, scale in shapes:
        whole, part = "9" * (precision - scale), "9" * scale
        largest = f"{whole or '0'}.{part}" if scale else whole
        smallest = f"0.{'0' * (scale - 1)}1" if scale else "1"
        middle = f"{'1' if whole else '0'}{'0' * (len(whole) - 1)}" + (
            f".{'0' * (scale - 1)}5" if scale else ""
        )
        values = [
            largest,
            f"-{largest}",
            smallest,
            f"-{smallest}",
            "0",
            "NULL",
            middle,
            f"-{middle}",
        ]
        yield f"decimal({precision},{scale})", values
    yield "decimal(12,2) unsigned", ["9999999999.99", "0", "0.01", "NULL", "1", "2", "3.5", "4"]


def floats() -> Iterator[tuple[str, list[str]]]:
    yield (
        "float",
        ["0", "-0e0", "0.1", "1e-45", "1.1754942e-38", "3.4028234663852886e38", "-3.4028234663852886e38",
         "16777217", "123456789", "1e10", "0.3333333333", "NULL", "1.17549435e-38", "5e-40"],
    )  # fmt: skip
    yield (
        "double",
        ["0", "-0e0", "0.1", "5e-324", "2.2250738585072014e-308", "1.7976931348623157e308",
         "-1.7976931348623157e308", "9007199254740993", "1e16", "1e-5", "0.3333333333333333", "NULL",
         "123456789012345678", "2.2250738585072011e-308"],
    )  # fmt: skip


def bits() -> Iterator[tuple[str, list[str]]]:
    for width in range(1, 65):
        top = f"b'1{'0' * (width - 1)}'"
        yield f"bit({width})", ["b'0'", f"b'{'1' * width}'", top, "b'1'", "NULL"]


def times() -> Iterator[tuple[str, list[str]]]:
    for digits in range(7):
        part = f".{'9' * digits}" if digits else ""
        small = f".{'0' * (digits - 1)}1" if digits else ""
        yield (
            f"time({digits})",
            ["'838:59:59'", "'-838:59:59'", f"'-00:00:00{'.5' if digits else ''}'", f"'00:00:00{small}'",
             f"'-00:00:00{small}'", f"'-00:00:01{part}'", f"'100:00:00{part}'", f"'-12:34:56{part}'",
             f"'-00:59:00{small}'", "NULL", "'00:00:00'", f"'-01:00:00{small}'"],
        )  # fmt: skip
        yield (
            f"datetime({digits})",
            ["'1000-01-01 00:00:00'", f"'9999-12-31 23:59:59{part}'", "'0000-00-00 00:00:00'", "'2026-00-00'",
             f"'2026-11-00 10:11:12{small}'", f"'2026-02-28 23:59:59{small}'", "'0001-01-01 00:00:00'",
             "'2000-02-29 12:00:00'", f"'2023-02-31 10:11:12{part}'", "NULL", "'0000-01-01 00:00:00'",
             f"'2026-00-07 01:02:03{part}'"],
        )  # fmt: skip
        yield (
            f"timestamp({digits}) null",
            ["'1970-01-01 00:00:01'", f"'2038-01-19 03:14:07{part}'", "'0000-00-00 00:00:00'",
             f"'2026-11-21 10:15:00{small}'", "'2001-09-09 01:46:40'", "NULL",
             f"'2026-03-29 01:30:00{part}'", "'2026-10-25 01:30:00'", "'1999-12-31 23:59:59'",
             f"'1970-01-01 00:00:01{small}'", "NULL", "NULL"],
        )  # fmt: skip
    yield (
        "date",
        ["'1000-01-01'", "'9999-12-31'", "'0000-00-00'", "'2026-00-00'", "'2026-11-00'", "'2026-00-12'", "NULL",
         "'2000-02-29'", "'0001-01-01'", "'1970-01-01'", "'0000-01-01'", "'2023-02-31'"],
    )  # fmt: skip


LATIN1 = "0x" + "".join(f"{n:02X}" for n in range(256))
LABELS = ",".join(f"'label {n}'" for n in range(1, 301))
MEMBERS = ",".join(f"'m{n}'" for n in range(64))


def strings() -> Iterator[tuple[str, list[str]]]:
    emoji = "'Zoë 😀 ﷽ \\0 \\n'"
    yield "char(20) character set utf8mb4", ["''", "'a'", emoji, "'  trailing  '", "NULL"]
    yield (
        "char(255) character set utf8mb4",
        ["''", "REPEAT('😀', 255)", emoji, "REPEAT('x', 255)", "NULL"],
    )
    yield "varchar(63) character set utf8mb4", ["''", "REPEAT('😀', 63)", emoji, "'  '", "NULL"]
    yield "varchar(64) character set utf8mb4", ["''", "REPEAT('😀', 64)", emoji, "'  '", "NULL"]
    yield (
        "varchar(300) character set latin1",
        ["''", LATIN1, "_utf8mb4'Zoë'", "_utf8mb4'€'", "NULL"],
    )
    yield "varchar(80) character set gbk", ["''", "'中文字符'", "'a中'", "REPEAT('文', 80)", "NULL"]
    yield "varchar(80) character set utf16", ["''", emoji, "'a'", "REPEAT('😀', 80)", "NULL"]
    yield "varchar(80) character set utf16le", ["''", emoji, "'a'", "'ß'", "NULL"]
    yield "varchar(80) character set utf32", ["''", emoji, "'a'", "'ß'", "NULL"]
    yield "varchar(80) character set ucs2", ["''", "'Zoë'", "'a'", "'中'", "NULL"]
    yield "varchar(80) character set cp1251", ["''", "'Привет'", "'a'", "'№'", "NULL"]
    yield "varchar(80) character set koi8r", ["''", "'Привет'", "'a'", "'ё'", "NULL"]
    yield "varchar(80) character set big5", ["''", "'中文'", "'a'", "'功'", "NULL"]
    yield "varchar(80) character set euckr", ["''", "'한국어'", "'a'", "'가'", "NULL"]
    yield "varchar(80) character set gb18030", ["''", emoji, "'a'", "'㐀'", "NULL"]
    yield "char(80) character set ascii", ["''", "'plain'", "'a'", "'~'", "NULL"]
    yield "tinytext character set latin1", ["''", "REPEAT(_utf8mb4'ä', 255)", "'a'", "'b'", "NULL"]
    yield "text", ["''", "REPEAT('ß', 30000)", emoji, "'b'", "NULL"]
    yield "mediumtext", ["''", "REPEAT('ß', 300000)", emoji, "'b'", "NULL"]
    yield "longtext", ["''", "REPEAT('x', 1000000)", emoji, "'b'", "NULL"]
    yield f"enum({LABELS})", ["'label 1'", "'label 300'", "0", "'label 256'", "NULL"]
    yield "enum('a','ü','it''s') character set latin1", ["'a'", "'ü'", "0", "'it''s'", "NULL"]
    yield (
        f"set({MEMBERS})",
        ["''", f"'{MEMBERS.replace(chr(39), '')}'", "'m63,m0'", "'m31,m32'", "NULL"],
    )
    yield "set('a','ß') character set latin1", ["''", "'a'", "'a,ß'", "'ß'", "NULL"]


def binaries() -> Iterator[tuple[str, list[str]]]:
    yield "binary(4)", ["''", "'a'", "0x00010200", "0x01020304", "NULL"]
    yield "binary(255)", ["''", "'a'", "REPEAT(0xff, 255)", "0x00", "NULL"]
    yield "varbinary(255)", ["''", "0x00", "REPEAT(0xff, 255)", "0x0100", "NULL"]
    yield "varbinary(256)", ["''", "0x00", "REPEAT(0xff, 256)", "0x0100", "NULL"]
    yield "tinyblob", ["''", "0x00", "REPEAT(0xff, 255)", "0x0100", "NULL"]
    yield "blob", ["''", "0x00", "REPEAT(0xff, 65535)", "0x0100", "NULL"]
    yield "mediumblob", ["''", "0x00", "REPEAT(0xff, 65536)", "0x0100", "NULL"]
    yield "longblob", ["''", "0x00", "REPEAT(0xff, 3000000)", "0x0100", "NULL"]


def places() -> Iterator[tuple[str, list[str]]]:
    yield "point srid 4326", ["ST_GeomFromText('POINT(52.5 13.4)', 4326)", "NULL"]
    yield (
        "geometry",
        ["ST_GeomFromText('LINESTRING(0 0, 1 1)')", "ST_GeomFromText('POINT(1 2)', 3857)"],
    )
    yield "polygon", ["ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')", "NULL"]
    yield "geomcollection", ["ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2))')", "NULL"]
    yield "multipoint", ["ST_GeomFromText('MULTIPOINT(1 2, 3 4)')", "NULL"]
    yield "vector(3)", ["STRING_TO_VECTOR('[0.5,-1.25,3e38]')", "NULL"]
    yield "vector(2048)", ["STRING_TO_VECTOR(CONCAT('[0.1', REPEAT(',2', 2047), ']'))", "NULL"]


FAMILIES = {
    "integers": integers,
    "decimals": decimals,
    "floats": floats,
    "bits": bits,
    "times": times,
    "strings": strings,
    "binaries": binaries,
    "places": places,
}


def statements_for(table: str, columns: Iterable[tuple[str, list[str]]]) -> list[str]:
    listed = list(columns)
    names = [f"`c{n}`" for n in range(len(listed))]
    create = ", ".join(f"{name} {kind}" for name, (kind, _) in zip(names, listed, strict=True))
    rows = zip(*(values for _, values in listed), strict=True)
    return [
        "SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES', time_zone = '+00:00'",
        f"CREATE TABLE {table} (id int primary key, {create})",
        *(
            f"INSERT INTO {table} VALUES ({n}, {', '.join(row)})"
            for n, row in enumerate(rows, start=1)
        ),
    ]
