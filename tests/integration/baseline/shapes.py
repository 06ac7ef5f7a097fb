"""Tables of every kind that a baseline must describe, by the first series that supports them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.integration.old_mysql.families import in_words_of, known
from tests.integration.worker.families import FAMILIES, statements_for

_MYSQL = r"""
5.5 defaults (a int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, b varchar(20) DEFAULT 'it''s \\ \n %',
 c char(3) NOT NULL DEFAULT '', d bit(3) DEFAULT b'101', e decimal(5,2) DEFAULT 1.5,
 f date DEFAULT '2001-01-01', g enum('a','b''c','ü') DEFAULT 'b''c', h set('x','y') DEFAULT 'x,y',
 i double DEFAULT 0.1, j year DEFAULT 2001, k int(5) unsigned zerofill, l bigint NOT NULL)
5.5 bytes (a binary(4) DEFAULT 'ab', b varbinary(4) NOT NULL DEFAULT 'it''s', c blob, d char(0))
5.5 clocks (a timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, b timestamp NULL)
5.6 fractions (a datetime(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), b time(3))
5.5 charsets (a char(3) CHARACTER SET latin1, b varchar(9) CHARACTER SET ucs2 COLLATE ucs2_bin,
 c text CHARACTER SET binary, d enum('a') CHARACTER SET gbk, e enum('a') CHARACTER SET binary,
 f tinytext) CHARACTER SET koi8r COLLATE koi8r_bin
5.5 comments (a int COMMENT 'it''s a \\ \n ;', `b c` int, `d``e` int COMMENT '`') COMMENT 'it''s %s'
5.5 keys (a int, b varchar(40), c text, d int, UNIQUE KEY u (b(3), a), KEY k (c(7)), KEY (d, a),
 PRIMARY KEY (d)) ENGINE=MyISAM
5.6 searched (a text, b text, FULLTEXT KEY f (a), FULLTEXT KEY g (a, b))
5.7 placed (a point NOT NULL, b geometry, SPATIAL KEY (a))
5.7 generated (a int, b int GENERATED ALWAYS AS (a + 1) VIRTUAL COMMENT 'b''s',
 c varchar(50) GENERATED ALWAYS AS (concat(a, 'it''s \\ \n')) STORED, KEY (c))
5.7 documents (a json, b int) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4
8.0 expressions (a int DEFAULT (1 + 2), b varchar(50) DEFAULT (concat('it''s \\ \n', uuid())),
 c json DEFAULT (json_object('k', 1)), d point NOT NULL SRID 4326, e geometry SRID 0)
8.0 orders (a int, b int, c varchar(9), KEY (a DESC, b), KEY x ((a + b), (lower(concat(a, 'X''')))),
 UNIQUE KEY ((a * 2) DESC, c(3)))
9.0 hidden (a int INVISIBLE DEFAULT 3, b int, c vector(3))
9.0 kept_key (a int)
"""
_MARIADB = r"""
10.11 hidden (a int INVISIBLE DEFAULT 3, b int, c varchar(100) COMPRESSED)
10.11 addresses (a inet6, b inet4 DEFAULT '1.2.3.4', c uuid DEFAULT uuid())
10.11 expressions (a int DEFAULT (1 + 2), b varchar(50) DEFAULT concat('it''s \\ \n', uuid()),
 c blob DEFAULT 'x')
10.11 generated (a int, b int AS (a + 1) PERSISTENT, c varchar(50) AS (concat(a, 'it''s \\ \n')) VIRTUAL)
10.11 documents (a json, b int)
10.11 placed (a point NOT NULL, b geometry REF_SYSTEM_ID=4326, SPATIAL KEY (a))
10.11 versioned (a int PRIMARY KEY, b int, c varchar(20), UNIQUE KEY (c(5))) WITH SYSTEM VERSIONING
10.11 in_time (a int PRIMARY KEY, s timestamp(6) GENERATED ALWAYS AS ROW START,
 e timestamp(6) GENERATED ALWAYS AS ROW END INVISIBLE, w int WITHOUT SYSTEM VERSIONING,
 PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING
"""
_TYPES_OF_MARIADB = "5.6"
"""The newest series whose types MariaDB has as it has them; its own are above."""


def tables(series: str) -> Iterator[tuple[str, str]]:
    """The name of each table that a series knows, and what follows it in CREATE TABLE."""
    make, _, plain = series.rpartition("-")
    like = _TYPES_OF_MARIADB if make else plain
    yield from (_known(_MYSQL, like) | (_known(_MARIADB, plain) if make else {})).items()
    for family in FAMILIES:
        _, create, *_ = statements_for("t", known(like, family))
        yield family, in_words_of(like, create.partition("CREATE TABLE t ")[2])


def _known(text: str, series: str) -> dict[str, str]:
    entries = (entry.split(" ", 2) for entry in text.strip().replace("\n ", " ").splitlines())
    return {name: body for since, name, body in entries if _number(series) >= _number(since)}


def _number(series: str) -> tuple[int, ...]:
    return tuple(int(part) for part in series.split("."))
