"""A column's definition, out of rows of information_schema as each make of server gives them."""

from __future__ import annotations

import pytest

from connectors.mysql.ddl.definition import Server
from connectors.mysql.schema.information_schema import column_of

OLD, NEW = Server(version=(5, 7, 44)), Server(version=(8, 4, 0))
MARIADB = Server(version=(11, 8, 6), mariadb=True)


def definition(
    server: Server,
    default: str | None,
    kind: str = "varchar(9)",
    *,
    extra: str = "",
    comment: str = "",
    expression: str | None = None,
    srid: int | None = None,
) -> str:
    row = ("a", default, "YES", None, None, kind, extra, comment, expression, srid)
    return column_of(row, server).definition


@pytest.mark.parametrize(
    ("server", "default", "kind", "extra", "wanted"),
    [
        (NEW, None, "int", "", ""),
        (NEW, "1", "int", "", "DEFAULT '1'"),
        (NEW, "it's \\\n\0", "text", "", r"DEFAULT 'it''s \\\n\0'"),
        (NEW, "b'101'", "bit(3)", "", "DEFAULT b'101'"),
        (NEW, "0x6162", "binary(4)", "", "DEFAULT 0x6162"),
        (OLD, "0x61", "binary(4)", "", "DEFAULT '0x61'"),
        (NEW, "0x61", "varchar(9)", "", "DEFAULT '0x61'"),
        (OLD, "CURRENT_TIMESTAMP", "timestamp", "", "DEFAULT CURRENT_TIMESTAMP"),
        (OLD, "CURRENT_TIMESTAMP", "varchar(40)", "", "DEFAULT 'CURRENT_TIMESTAMP'"),
        (
            NEW, "CURRENT_TIMESTAMP(6)", "datetime(6)", "DEFAULT_GENERATED on update CURRENT_TIMESTAMP(6)",
            "DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
        ),
        (
            NEW, r"concat(_utf8mb4\'it\\\'s\',1)", "varchar(9)", "DEFAULT_GENERATED",
            r"DEFAULT (concat(_utf8mb4'it\'s',1))",
        ),
        (MARIADB, "NULL", "int", "", ""),
        (MARIADB, "'it''s'", "varchar(9)", "", "DEFAULT 'it''s'"),
        (MARIADB, "(1 + 2)", "int", "", "DEFAULT (1 + 2)"),
        (NEW, None, "int", "auto_increment", "AUTO_INCREMENT"),
        (MARIADB, "NULL", "int", "WITHOUT SYSTEM VERSIONING", "WITHOUT SYSTEM VERSIONING"),
    ],
)  # fmt: skip
def test_a_default_is_read_as_a_statement_has_it(
    server: Server, default: str | None, kind: str, extra: str, wanted: str
) -> None:
    assert definition(server, default, kind, extra=extra) == wanted


@pytest.mark.parametrize(
    ("server", "extra", "expression", "wanted", "kept"),
    [
        (OLD, "VIRTUAL GENERATED", r"concat(`a`,'\'')", r"(concat(`a`,'\'')) VIRTUAL", "virtual"),
        (
            NEW,
            "STORED GENERATED",
            r"(`a` = _utf8mb4\'x\')",
            "((`a` = _utf8mb4'x')) STORED",
            "stored",
        ),
        (MARIADB, "STORED GENERATED", "`a` + 1", "(`a` + 1) STORED", "stored"),
        (MARIADB, "STORED GENERATED, INVISIBLE", "ROW END", "ROW END", "stored"),
    ],
)
def test_a_generated_column_is_read_with_its_expression(
    server: Server, extra: str, expression: str, wanted: str, kept: str
) -> None:
    row = ("a", None, "YES", None, None, "int", extra, "", expression, None)
    found = column_of(row, server)
    assert (found.definition, found.generated) == (f"GENERATED ALWAYS AS {wanted}", kept)
    assert found.invisible is ("INVISIBLE" in extra)


def test_comment_and_spatial_reference_come_last() -> None:
    found = definition(NEW, None, "point", comment="it's", srid=4326)
    assert found == "COMMENT 'it''s' SRID 4326"


def test_a_default_that_is_an_expression_makes_no_generated_column() -> None:
    row = ("a", "uuid()", "NO", None, None, "char(36)", "DEFAULT_GENERATED", "", "", None)
    assert column_of(row, NEW).generated is None


@pytest.mark.parametrize(
    ("charset", "wanted"), [("utf8mb4", "utf8mb4"), ("binary", None), (None, None)]
)
def test_only_text_has_a_character_set(charset: str | None, wanted: str | None) -> None:
    row = ("a", None, "YES", charset, charset, "enum('a')", "", "", "", None)
    found = column_of(row, NEW)
    assert (found.charset, found.collation) == (wanted, wanted)
