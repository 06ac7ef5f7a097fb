"""Definitions as statements; that servers make the same tables of them is shown in tests/integration/ddl."""

import pytest

from connectors.mysql.ddl.definition import Server
from connectors.mysql.ddl.show_create import create_table
from tests.unit.connectors.mysql.ddl.catalogs import NEWEST, Play

MARIADB = Server(version=(11, 8, 3), mariadb=True)

RICH = """\
CREATE TABLE t (
  `id` int unsigned AUTO_INCREMENT COMMENT 'it''s',
  `a``b` varchar(20) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'x' NOT NULL,
  e enum('x','y') CHARACTER SET binary,
  g int GENERATED ALWAYS AS (id + 1) STORED NOT NULL INVISIBLE,
  ts timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  p point NOT NULL SRID 4326,
  tx text,
  PRIMARY KEY (id), UNIQUE KEY u (tx(10), g DESC) USING BTREE COMMENT 'k', KEY ((id * 2)), FULLTEXT KEY f (tx),
  SPATIAL KEY (p)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='say "x"' COLLATE utf8mb4_bin"""


def test_a_table_is_written_whole() -> None:
    play = Play(RICH)
    assert create_table(("d", "t"), play.catalog["d", "t"]) == (
        "CREATE TABLE `d`.`t` (\n"
        "  `id` int unsigned NOT NULL AUTO_INCREMENT COMMENT 'it''s',\n"
        "  `a``b` varchar(20) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'x',\n"
        "  `e` enum('x','y') CHARACTER SET binary NULL,\n"
        "  `g` int GENERATED ALWAYS AS (id + 1) STORED NOT NULL INVISIBLE,\n"
        "  `ts` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,\n"
        "  `p` point NOT NULL SRID 4326,\n"
        "  `tx` text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,\n"
        "  PRIMARY KEY (`id`),\n"
        "  UNIQUE KEY `u` (`tx`(10), `g` DESC) USING BTREE COMMENT 'k',\n"
        "  KEY `functional_index` ((id * 2)),\n"
        "  FULLTEXT KEY `f` (`tx`),\n"
        "  SPATIAL KEY `p` (`p`)\n"
        ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='say \"x\"' DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
    )


PERIOD = """\
CREATE TABLE t (
  a INT PRIMARY KEY,
  s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,
  e TIMESTAMP(6) GENERATED ALWAYS AS ROW END,
  PERIOD FOR SYSTEM_TIME (s, e)
) WITH SYSTEM VERSIONING"""


@pytest.mark.parametrize(
    ("server", "sql"),
    [
        (NEWEST, RICH),
        (
            NEWEST,
            "CREATE TABLE t (a VARCHAR(9) DEFAULT 'a\\\\b''c' COMMENT \"x\\n\", b BIT(3) DEFAULT b'101')",
        ),
        (MARIADB, "CREATE TABLE t (a INT, b TEXT COMPRESSED) WITH SYSTEM VERSIONING"),
        (MARIADB, PERIOD),
    ],
)
def test_what_is_written_means_the_same_table(server: Server, sql: str) -> None:
    table = Play(sql, server=server).catalog["d", "t"]
    again = Play(create_table(("d", "t"), table), server=server)
    assert again.catalog["d", "t"] == table
