"""Types as versions print them that no test can start, and what is refused."""

import pytest

from connectors.mysql.ddl.column_types import (
    NAMES,
    labels_in,
    resolved,
)
from connectors.mysql.ddl.definition import Column, Database, Server, Session
from connectors.mysql.ddl.resolve.charset import converted
from connectors.mysql.types.type_spec import Refused, ResolvedType, TypeSpec

NEWEST = Server(version=(9, 7, 4))
UTF8MB4 = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
STRICT = Session(sql_mode=frozenset({"STRICT_ALL_TABLES"}))


def mysql(*version: int) -> Server:
    return Server(version=(version[0], version[1], version[2]))


def mariadb(*version: int) -> Server:
    return Server(version=(version[0], version[1], version[2]), mariadb=True)


def of(
    spec: TypeSpec,
    server: Server = NEWEST,
    session: Session = Session(),  # noqa: B008 - it is a value
    table: Database = UTF8MB4,
) -> ResolvedType:
    return resolved(spec, table, server=server, session=session)


@pytest.mark.parametrize(
    ("server", "printed"),
    [
        (mysql(5, 6, 4), ["int(11)", "tinyint(1)", "int(8) unsigned zerofill", "year(4)"]),
        (mysql(8, 0, 18), ["int(11)", "tinyint(1)", "int(8) unsigned zerofill", "year(4)"]),
        (mysql(8, 0, 19), ["int", "tinyint(1)", "int(8) unsigned zerofill", "year"]),
        (mysql(8, 4, 0), ["int", "tinyint(1)", "int(8) unsigned zerofill", "year"]),
        (mariadb(12, 0, 1), ["int(11)", "tinyint(1)", "int(8) unsigned zerofill", "year(4)"]),
    ],
)
def test_display_widths_end_with_mysql_8_0_19(server: Server, printed: list[str]) -> None:
    specs = [
        TypeSpec(name="integer"),
        TypeSpec(name="bool"),
        TypeSpec(name="int", arguments=(8,), zerofill=True),
        TypeSpec(name="year"),
    ]
    assert [of(spec, server).type for spec in specs] == printed


@pytest.mark.parametrize(
    ("server", "charset", "collation"),
    [
        (mysql(8, 0, 27), "utf8", "utf8_general_ci"),
        (mysql(8, 0, 28), "utf8mb3", "utf8_general_ci"),
        (mysql(8, 0, 30), "utf8mb3", "utf8mb3_general_ci"),
        (mariadb(10, 5, 9), "utf8", "utf8_general_ci"),
        (mariadb(10, 6, 0), "utf8mb3", "utf8mb3_general_ci"),
        (mariadb(11, 5, 1), "utf8mb3", "utf8mb3_uca1400_ai_ci"),
    ],
)
@pytest.mark.parametrize("name", ["utf8", "utf8mb3", "UTF8"])
def test_three_byte_utf8_has_the_name_that_the_version_prints(
    server: Server, charset: str, collation: str, name: str
) -> None:
    found = of(TypeSpec(name="char", charset=name), server)
    assert (found.type, found.charset, found.collation) == ("char(1)", charset, collation)


def test_serial_says_what_more_it_is() -> None:
    assert of(TypeSpec(name="serial")) == ResolvedType(type="bigint unsigned", serial=True)
    assert of(TypeSpec(name="bigint", unsigned=True)) == ResolvedType(type="bigint unsigned")


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("vector", mysql(8, 4, 0)),
        ("vector", mariadb(11, 6, 2)),
        ("json", mysql(5, 6, 51)),
        ("inet6", NEWEST),
        ("uuid", mariadb(10, 6, 9)),
        ("geomcollection", mariadb(11, 8, 1)),
        ("clob", mariadb(11, 8, 1)),
        ("number", NEWEST),
        ("hyperint", NEWEST),
    ],
)
def test_a_type_that_the_server_does_not_have_is_refused(name: str, server: Server) -> None:
    with pytest.raises(Refused, match=name):
        of(TypeSpec(name=name, arguments=(3,) if name == "vector" else ()), server)


def test_a_varchar_that_is_too_long_is_text_unless_the_mode_is_strict() -> None:
    spec = TypeSpec(name="varchar", arguments=(16384,))
    assert of(spec).type == "mediumtext"
    for mode in ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL"):
        with pytest.raises(Refused, match="longer than 65535 bytes"):
            of(spec, session=Session(sql_mode=frozenset({mode})))
    assert of(spec, table=Database(charset="latin1", collation="latin1_bin")).type == (
        "varchar(16384)"
    )


def test_a_binary_table_makes_bytes_of_text() -> None:
    table = Database(charset="binary", collation="binary")
    kept = {
        name: of(TypeSpec(name=name, arguments=(9,) if "varchar" in name else ()), table=table)
        for name in ("char", "varchar", "text", "long", "nchar")
    }
    assert {name: found.type for name, found in kept.items()} == {
        "char": "binary(1)",
        "varchar": "varbinary(9)",
        "text": "blob",
        "long": "mediumblob",
        "nchar": "char(1)",
    }
    assert kept["text"].charset is None
    assert kept["nchar"].charset == "utf8mb3"


def test_an_unknown_character_set_is_refused_by_its_name() -> None:
    with pytest.raises(Refused, match="Unknown character set: 'klingon'"):
        of(TypeSpec(name="char", charset="klingon"))
    with pytest.raises(Refused, match="Unknown character set: 'gb18030'"):
        of(TypeSpec(name="char", charset="gb18030"), mariadb(11, 8, 1))


def test_a_collation_of_a_version_to_come_is_believed() -> None:
    spec = TypeSpec(name="char", collation="utf8mb4_tlh_1200_ai_ci")
    assert of(spec, mysql(10, 1, 0)).charset == "utf8mb4"
    with pytest.raises(Refused, match="Unknown collation"):
        of(spec)


def test_labels_are_printed_so_that_they_can_be_read_again() -> None:
    labels = ("it's", "a\\b", "new\nline", "tab\t", "nul\0", 'quo"te', "com,ma", "end'")
    printed = of(TypeSpec(name="enum", labels=labels)).type
    assert printed.startswith("enum('it''s','a\\\\b','new\\nline','tab\t','nul\\0',")
    assert labels_in(printed) == list(labels)
    assert labels_in("set('')") == [""]


@pytest.mark.parametrize(
    "spec",
    [
        TypeSpec(name="enum"),
        TypeSpec(name="set", labels=("a,b",)),
        TypeSpec(name="set", labels=tuple(map(str, range(65)))),
        TypeSpec(name="enum", labels=("a", "a ")),
        TypeSpec(name="enum", labels=(b"\xe9",)),
        TypeSpec(name="double", arguments=(7,)),
        TypeSpec(name="tinytext", arguments=(7,)),
        TypeSpec(name="int", arguments=(7, 2)),
    ],
)
def test_what_no_server_takes_is_refused(spec: TypeSpec) -> None:
    with pytest.raises(Refused):
        of(spec, session=STRICT)


def test_names_of_several_words_are_known() -> None:
    assert {"national char varying", "long varbinary", "double precision", "nchar varchar"} <= NAMES


def test_a_column_of_bytes_or_numbers_is_not_converted() -> None:
    to = Database(charset="latin1", collation="latin1_swedish_ci")
    for kind in ("blob", "varbinary(9)", "int", "enum('a')"):
        column = Column(name="c", type=kind, nullable=True)
        assert converted(column, to, server=NEWEST, session=STRICT) is column


def test_a_conversion_keeps_what_else_a_column_is() -> None:
    column = Column(
        name="c",
        type="text",
        nullable=False,
        charset="latin1",
        collation="latin1_bin",
        invisible=True,
        definition="COMMENT 'x'",
    )
    found = converted(column, UTF8MB4, server=NEWEST, session=STRICT)
    assert (found.type, found.charset, found.collation) == (
        "mediumtext",
        "utf8mb4",
        "utf8mb4_0900_ai_ci",
    )
    assert (found.name, found.nullable, found.invisible, found.definition) == (
        "c",
        False,
        True,
        "COMMENT 'x'",
    )


def test_labels_whose_bytes_mean_nothing_in_the_new_character_set_are_refused() -> None:
    column = Column(
        name="c", type="enum('é')", nullable=True, charset="latin1", collation="latin1_bin"
    )
    with pytest.raises(Refused, match="labels have no meaning in utf8mb4"):
        converted(column, UTF8MB4, server=NEWEST, session=STRICT)
