"""The layout of a column is that of its type in the binlog, whatever the type's spelling."""

import pytest

from connectors.errors import SnapshotUnsupported
from connectors.mysql.binlog.table_map import parse_table_map
from connectors.mysql.ddl.definition import Server
from connectors.mysql.types.registry import FieldType as T
from connectors.mysql.types.registry import column_type
from tests.unit.connectors.mysql.select.tables import CHARSETS, MARIADB, MYSQL, column, encoder

LABELS = ",".join(f"'l{n}'" for n in range(300))


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("tinyint(1)", (T.TINY, 0)), ("int(10) unsigned zerofill", (T.LONG, 0)), ("float(7,3)", (T.FLOAT, 4)),
        ("double(10,2) unsigned", (T.DOUBLE, 8)), ("decimal(65,30) unsigned", (T.NEWDECIMAL, 0x1E41)),
        ("bit(1)", (T.BIT, 1)), ("bit(8)", (T.BIT, 0x100)), ("bit(63)", (T.BIT, 0x707)),
        ("year(4)", (T.YEAR, 0)),
        ("datetime /* 5.5 binary format */", (T.DATETIME2, 0)), ("timestamp(3)", (T.TIMESTAMP2, 3)),
        ("time(6)", (T.TIME2, 6)), ("char(0)", (T.STRING, 0)), ("char(255)", (T.STRING, 1020)),
        ("varchar(63)", (T.VARCHAR, 252)), ("varbinary(256)", (T.VARCHAR, 256)), ("binary(16)", (T.STRING, 16)),
        ("tinytext", (T.BLOB, 1)), ("blob", (T.BLOB, 2)), ("mediumtext", (T.BLOB, 3)),
        ("longblob", (T.BLOB, 4)),
        ("json", (T.JSON, 4)), ("geometry", (T.GEOMETRY, 4)), ("geometrycollection", (T.GEOMETRY, 4)),
        ("vector(3)", (T.VECTOR, 4)), ("enum('a','B(1)')", (T.ENUM, 1)), (f"enum({LABELS})", (T.ENUM, 2)),
        ("set('a')", (T.SET, 1)), ("set('1','2','3','4','5','6','7','8','9')", (T.SET, 2)),
    ],
)  # fmt: skip
def test_a_type_of_mysql_has_a_layout(kind: str, layout: tuple[int, int]) -> None:
    (mapped,) = parse_table_map(encoder(column(kind)).table_map).columns
    assert (mapped.type, mapped.metadata) == layout


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("inet4", (T.STRING, 4)), ("inet6", (T.STRING, 16)), ("uuid", (T.STRING, 16)),
        ("vector(3)", (T.VARCHAR, 12)), ("varchar(64) /*M!100301 COMPRESSED*/", (T.VARCHAR, 256)),
        ("mediumblob /*M!100301 COMPRESSED*/", (T.BLOB, 3)), ("time(3) /* mariadb-5.3 */", (T.TIME2, 3)),
    ],
)  # fmt: skip
def test_a_type_of_mariadb_has_a_layout(kind: str, layout: tuple[int, int]) -> None:
    made = encoder(column(kind), server=MARIADB)
    (mapped,) = parse_table_map(made.table_map, mariadb=True).columns
    assert (mapped.type, mapped.metadata) == layout


def test_text_has_the_bytes_of_its_character_set() -> None:
    columns = [
        column("varchar(10)", f"c{n}", charset=charset)
        for n, charset in enumerate(("latin1", "gbk", "utf16"))
    ]
    mapped = parse_table_map(encoder(*columns).table_map).columns
    assert [one.metadata for one in mapped] == [10, 20, 40]
    assert [column_type(one, CHARSETS) for one in mapped] == ["varchar(10)"] * 3


@pytest.mark.parametrize("server", [MYSQL, MARIADB])
@pytest.mark.parametrize("kind", ["year(2)", "xmltype", "int[]", "", "decimal"])
def test_another_type_is_refused_with_table_and_column(kind: str, server: Server) -> None:
    with pytest.raises(
        SnapshotUnsupported, match=r"column 'c'.*\[table=shop\.orders\].*leave the table out"
    ):
        encoder(column(kind), server=server)


@pytest.mark.parametrize("kind", ["json", "vector"])
def test_mariadb_has_no_type_of_this_name(kind: str) -> None:
    with pytest.raises(SnapshotUnsupported, match="column 'c'"):
        encoder(column(kind), server=MARIADB)


def test_documents_of_an_old_server_are_refused() -> None:
    encoder(column("json"), server=Server(version=(8, 0, 15)))
    with pytest.raises(SnapshotUnsupported, match=r"column 'c' has the type json, .* 1\.0 from 1"):
        encoder(column("json"), server=Server(version=(5, 7, 44)))


def test_mysql_has_no_addresses() -> None:
    with pytest.raises(SnapshotUnsupported, match="column 'c' has the type inet6"):
        encoder(column("inet6"))
