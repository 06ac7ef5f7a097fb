"""Columns in spellings of their types that the families lack: (type, SQL literals)."""

Column = tuple[str, list[str]]


def labels(prefix: str, count: int) -> str:
    """That many labels of an ENUM or SET, as its type lists them."""
    return ",".join(f"'{prefix}{n}'" for n in range(count))


OTHER_COLUMNS: dict[str, list[Column]] = {
    "digits": [
        ("float(7,3)", ["1.5", "-0e0", "9999.999", "-1234.567", "0.001", "NULL"]),
        ("float(20,0)", ["123456789012", "-0e0", "0.5", "16777217", "1e19", "NULL"]),
        ("float unsigned", ["0.1", "0", "3.4028234663852886e38", "1e-45", "7", "NULL"]),
        ("double(12,4)", ["99999999.9999", "-0e0", "0.00005", "-1.00005", "12345678.1234", "NULL"]),
        ("double(40,20)", ["1e-20", "0.1", "12345678901234567890", "-0e0", "3", "NULL"]),
        ("double unsigned zerofill", ["0.1", "0", "1e300", "5", "7e-9", "NULL"]),
        ("float zerofill", ["0.1", "0", "1e30", "5", "7e-9", "NULL"]),
        ("int(5) zerofill", ["5", "0", "123456", "4294967295", "99999", "NULL"]),
        ("bigint unsigned zerofill", ["5", "0", "18446744073709551615", "1", "2", "NULL"]),
        ("decimal(9,3) zerofill", ["5", "0", "999999.999", "0.001", "12.5", "NULL"]),
        ("decimal(65,30) unsigned zerofill", ["5", "0", "1e-30", "1e34", "12.5", "NULL"]),
        ("year", ["0", "'0000'", "1901", "'00'", "2155", "NULL"]),
    ],
    "paddings": [
        ("char(9)", ["'a  '", "' '", "'  a'", "'a\\t '", "''", "NULL"]),
        ("char(9) character set utf16", ["'a  '", "' '", "'  a'", "'a\\t '", "''", "NULL"]),
        ("char(9) character set utf32", ["'a  '", "' '", "'  a'", "'😀 '", "''", "NULL"]),
        ("char(9) character set ucs2", ["'a  '", "' '", "'  a'", "x'0020'", "''", "NULL"]),
        ("char(9) collate utf8mb4_bin", ["'a  '", "' '", "'  a'", "'a\\0'", "'\\0'", "NULL"]),
        ("char(9) character set gbk", ["'中  '", "' '", "'  a'", "x'8140'", "''", "NULL"]),
        ("char(0)", ["''", "NULL", "''", "''", "''", "NULL"]),
        ("varchar(9)", ["'a  '", "' '", "'  a'", "'a\\t '", "''", "NULL"]),
        ("binary(0)", ["''", "NULL", "''", "''", "''", "NULL"]),
        ("binary(3)", ["'a'", "0x20", "0x000000", "0x610000", "0x00ff", "NULL"]),
        ("varbinary(3)", ["'a'", "0x20", "0x000000", "0x610000", "0x00ff", "NULL"]),
        ("varchar(9000)", ["''", "REPEAT('x', 9000)", "' '", "'😀'", "'é'", "NULL"]),
    ],
    "labels": [
        (f"enum({labels('e', 255)})",
         ["1", "255", "0", "128", "'e7'", "NULL"]),
        (f"enum({labels('e', 256)})",
         ["1", "256", "0", "255", "'e7'", "NULL"]),
        *((f"set({labels('s', count)})",
           ["0", str((1 << count) - 1), str(1 << (count - 1)), "1", "''", "NULL"])
          for count in (1, 8, 9, 16, 17, 24, 25, 32, 33, 40, 63, 64)),
        ("enum('','a, b','''','\\\\','ß') character set gbk", ["1", "2", "3", "4", "5", "NULL"]),
        ("set('ж','ы') character set utf16", ["0", "1", "2", "3", "'ы'", "NULL"]),
        ("enum('A ','b') collate latin1_bin", ["1", "2", "0", "'A'", "'b'", "NULL"]),
        ("enum('a','ß') character set binary", ["1", "2", "0", "'a'", "2", "NULL"]),
        ("set('a','ß') character set binary", ["1", "2", "0", "'a'", "3", "NULL"]),
    ],
    "places": [
        (kind, [f"ST_GeomFromText('{text}', 4326)", "NULL"])
        for kind, text in (
            ("point", "POINT(90 180)"), ("linestring", "LINESTRING(1 2, 3 4)"),
            ("polygon", "POLYGON((0 0,1 0,1 1,0 0))"), ("multipoint", "MULTIPOINT(1 2, 3 4)"),
            ("multilinestring", "MULTILINESTRING((1 2, 3 4),(5 6,7 8))"),
            ("multipolygon", "MULTIPOLYGON(((0 0,1 0,1 1,0 0)))"),
            ("geomcollection", "GEOMETRYCOLLECTION EMPTY"), ("geometry", "GEOMETRYCOLLECTION EMPTY"),
        )
    ] + [("vector", ["STRING_TO_VECTOR('[1.1754944e-38,-0,3.4028234e38]')", "NULL"]),
         ("vector(16383)", ["STRING_TO_VECTOR(CONCAT('[0.1', REPEAT(',-2', 16382), ']'))", "NULL"])],
}  # fmt: skip
