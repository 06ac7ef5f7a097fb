"""Columns of every type of MariaDB's with values at their limits, by family: (type, SQL literals)."""

from collections.abc import Iterator

from tests.integration.worker import families as mysql

Column = tuple[str, list[str]]

_TEXTS = {"gb18030"}
"""Character sets that MariaDB does not have."""


def decimals() -> Iterator[Column]:
    yield from mysql.decimals()
    yield "decimal(65,38)", [f"{'9' * 27}.{'9' * 38}", "0", f"-0.{'0' * 37}1", "NULL", *"1234"]


def strings() -> Iterator[Column]:
    for kind, values in mysql.strings():
        if not any(charset in kind for charset in _TEXTS):
            yield kind, values
    emoji = "'Zoë 😀 ﷽ \\0 \\n'"
    yield (
        "varchar(64) character set utf8mb4 collate uca1400_ai_ci",
        ["''", emoji, "'a'", "'  '", "NULL"],
    )
    yield (
        "varchar(64) character set utf8mb3 collate uca1400_as_cs",
        ["''", "'ß'", "'a'", "'  '", "NULL"],
    )
    yield (
        "varchar(64) character set utf16 collate uca1400_ai_ci",
        ["''", emoji, "'a'", "'  '", "NULL"],
    )
    yield (
        "varchar(64) character set latin1 collate latin1_nopad_bin",
        ["''", "'ä'", "'a'", "'  '", "NULL"],
    )
    yield "json", ["'{}'", '\'{"a": [1, 2.50, "é"]}\'', "'null'", "'  1 '", "NULL"]


def compressed() -> Iterator[Column]:
    long, emoji = "REPEAT('ab', 5000)", "'Zoë 😀'"
    yield "varchar(200) compressed", ["''", "'a'", "REPEAT('ß', 200)", emoji, "NULL"]
    yield "varchar(10000) compressed", ["''", "'a'", long, "REPEAT('😀', 10000)", "NULL"]
    yield (
        "varchar(400) compressed character set latin1",
        ["''", "'ä'", "REPEAT('ä', 400)", "'€'", "NULL"],
    )
    yield (
        "varchar(255) compressed character set latin1",
        ["''", "'ä'", "REPEAT('ä', 255)", "'€'", "NULL"],
    )
    yield (
        "varchar(254) compressed character set latin1",
        ["''", "'ä'", "REPEAT('ä', 254)", "'€'", "NULL"],
    )
    yield (
        "varchar(99) compressed character set utf16",
        ["''", emoji, "REPEAT('y', 99)", "'a'", "NULL"],
    )
    yield "tinytext compressed", ["''", "'a'", "REPEAT('x', 254)", emoji, "NULL"]
    yield "text compressed", ["''", "'a'", long, emoji, "NULL"]
    yield "mediumtext compressed", ["''", "'a'", "REPEAT('ß', 70000)", emoji, "NULL"]
    yield "longtext compressed", ["''", "'a'", "REPEAT('ß', 700000)", emoji, "NULL"]
    yield "varbinary(300) compressed", ["''", "0x00", "REPEAT(0xff, 300)", "0x0001", "NULL"]
    yield "tinyblob compressed", ["''", "0x00", "REPEAT(0xff, 254)", "0x0001", "NULL"]
    yield "blob compressed", ["''", "0x00", "REPEAT(0xff, 65000)", "0x0001", "NULL"]
    yield "mediumblob compressed", ["''", "0x00", "REPEAT(0xff, 70000)", "0x0001", "NULL"]
    yield "longblob compressed", ["''", "0x00", "RANDOM_BYTES(1000)", "0x0001", "NULL"]


def addresses() -> Iterator[Column]:
    yield "inet6", ["'::'", "'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:192.0.2.128'", "NULL"]
    yield "inet4", ["'0.0.0.0'", "'255.255.255.255'", "'192.168.1.0'", "'10.0.0.1'", "NULL"]
    yield (
        "uuid",
        ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
         "'123e4567-e89b-12d3-a456-426655440000'", "'01890a5d-ac96-774b-bcce-b302099a8057'", "NULL"],
    )  # fmt: skip


def places() -> Iterator[Column]:
    yield "point ref_system_id=4326", ["ST_GeomFromText('POINT(52.5 13.4)', 4326)", "NULL"]
    yield (
        "geometry",
        ["ST_GeomFromText('LINESTRING(0 0, 1 1)')", "ST_GeomFromText('POINT(1 2)', 3857)"],
    )
    yield "polygon", ["ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')", "NULL"]
    yield "geometrycollection", ["ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2))')", "NULL"]
    yield "multipoint", ["ST_GeomFromText('MULTIPOINT(1 2, 3 4)')", "NULL"]
    yield "varchar(9) character set latin1", ["'ä'", "'after geometries'"]
    yield "varbinary(9)", ["'a'", "0xff00"]


FAMILIES = {
    "integers": mysql.integers,
    "decimals": decimals,
    "floats": mysql.floats,
    "bits": mysql.bits,
    "times": mysql.times,
    "strings": strings,
    "binaries": mysql.binaries,
    "compressed": compressed,
    "addresses": addresses,
    "places": places,
}
