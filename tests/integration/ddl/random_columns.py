"""Random columns: every type, with attributes that may follow it and sometimes ones that may not."""

from __future__ import annotations

from random import Random

NAMES = ("a", "b", "c", "D", "e", "`f g`", "h`i", "key", "ä", "x1", "id", "first")

NUMBERS = (
    "INT", "INT UNSIGNED", "TINYINT(1)", "BOOL", "BIGINT(20)", "SMALLINT ZEROFILL", "INT(5) ZEROFILL",
    "MEDIUMINT", "DECIMAL(10,2)", "DECIMAL", "NUMERIC(5) UNSIGNED", "FLOAT", "FLOAT(30)", "FLOAT(7,3)",
    "DOUBLE", "DOUBLE PRECISION", "REAL", "DOUBLE(8,2) UNSIGNED", "YEAR", "BIT(3)", "BIT", "INT8", "INTEGER",
    "TINYINT UNSIGNED", "DEC(4,1)", "FIXED(6)",
)  # fmt: skip
TEXTS = (
    "CHAR(3)", "CHAR", "VARCHAR(10)", "VARCHAR(300)", "TEXT", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT", "TEXT(70)",
    "TEXT(20000)", "ENUM('a','b')", "ENUM('x y','it''s')", "SET('p','q')", "NCHAR(4)", "NATIONAL VARCHAR(5)",
    "CHARACTER VARYING(6)", "LONG", "VARCHAR(15000)", "LONG VARCHAR",
)  # fmt: skip
OTHERS = (
    "BLOB", "TINYBLOB", "BLOB(300)", "BINARY(3)", "VARBINARY(20)", "LONGBLOB", "DATE", "TIME", "TIME(3)",
    "DATETIME", "DATETIME(6)", "TIMESTAMP", "TIMESTAMP NULL", "TIMESTAMP(3) NULL", "GEOMETRY", "POINT",
    "LONG VARBINARY", "JSON", "TIMESTAMP NULL DEFAULT NULL", "VECTOR(4)",
)  # fmt: skip
CHARSETS = (
    "CHARACTER SET latin1", "CHARSET utf8mb4", "COLLATE utf8mb4_bin", "CHARACTER SET utf8", "BINARY", "ASCII",
    "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "CHARACTER SET binary", "UNICODE", "BYTE",
    "COLLATE latin1_bin", "CHARACTER SET utf16", "CHARACTER SET latin1 BINARY",
)  # fmt: skip
TAILS = (
    "NOT NULL", "NOT NULL", "NOT NULL", "NULL", "DEFAULT NULL", "DEFAULT '1'", "COMMENT 'a, b INT'", "UNIQUE",
    "PRIMARY KEY", "INVISIBLE", "AUTO_INCREMENT UNIQUE", "VISIBLE", "COLLATE utf8mb4_bin",
    "/*!80023 INVISIBLE */", "/*!50100 NOT NULL */", "/*!99999 NOT NULL */", "CHECK (1 = 1)",
    "SERIAL DEFAULT VALUE", "DEFAULT (1 + 1)", "DEFAULT CURRENT_TIMESTAMP", "ON UPDATE CURRENT_TIMESTAMP",
    "REFERENCES d1.t (a)", "COLUMN_FORMAT DYNAMIC", "STORAGE DISK", "KEY", "NULL DEFAULT NULL", "DEFAULT 0",
    "CONSTRAINT ck CHECK (1 <> ', b INT')", "COMMENT \"it's\"", "DEFAULT ''", "UNIQUE KEY", "DEFAULT TRUE",
    "CHARACTER SET latin1", "NOT NULL PRIMARY KEY", "DEFAULT -1", "DEFAULT x'41'", "DEFAULT b'1'",
)  # fmt: skip
NEW_TAILS = {"VISIBLE", "COLUMN_FORMAT DYNAMIC", "STORAGE DISK", "DEFAULT (1 + 1)", "INVISIBLE"}
WIDE = {"UNICODE", "CHARACTER SET utf16"}
"""Old servers garble labels in these."""
GENERATED = (
    "AS (1 + 1)", "GENERATED ALWAYS AS (1) STORED", "AS (2) VIRTUAL", "AS ('x') STORED NOT NULL",
    "AS (concat('a, ', 1)) VIRTUAL COMMENT 'g'", "AS (3) STORED UNIQUE",
)  # fmt: skip


class Columns:
    """Names and definitions of columns."""

    def __init__(self, random: Random, *, tame: bool) -> None:
        self._random = random
        self._tails = [tail for tail in TAILS if not tame or tail not in NEW_TAILS]
        self._charsets = [words for words in CHARSETS if not tame or words not in WIDE]

    def name(self) -> str:
        """A name, as it is without quotes."""
        return self._random.choice(NAMES)

    def definitions(self, count: int, *, daring: float = 1.0) -> list[tuple[str, str]]:
        """This many columns with different names, a share of them with invalid combinations."""
        names = self._random.sample(NAMES, count)
        return [(name, self.definition(daring)) for name in names]

    def definition(self, daring: float = 1.0) -> str:
        """The definition after a column's name."""
        if self._random.random() > daring:
            kind = self._random.choice((NUMBERS, TEXTS, OTHERS[:-3]))
            return f"{self._random.choice(kind)}{self._random.choice(('', '', ' NOT NULL'))}"
        if self._random.random() < 0.02:
            return "SERIAL"
        kinds = self._random.choice((NUMBERS, TEXTS, TEXTS, OTHERS))
        words = [self._random.choice(kinds)]
        if kinds is TEXTS and self._random.random() < 0.3:
            words.append(self._random.choice(self._charsets))
        if self._random.random() < 0.1:
            return " ".join([*words, self._random.choice(GENERATED)])
        count = self._random.choice((0, 0, 0, 0, 1, 1, 1, 2))
        return " ".join([*words, *self._random.sample(self._tails, count)])
