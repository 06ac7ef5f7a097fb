"""The vocabulary of random statements."""

DATABASES = ("d1", "d2", "d3")
TABLES = ("t", "T2", "u", "new", "`or``der`", "`select`", "längs")
OPTIONS = (
    "ENGINE=InnoDB",
    "COMMENT='x, y INT)'",
    "ROW_FORMAT=DYNAMIC",
    "CHARSET latin1",
    "DEFAULT CHARACTER SET = utf8mb4",
    "COLLATE utf8mb4_bin",
    "CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
    "COLLATE=latin1_german1_ci",
    "AUTO_INCREMENT = 7",
    "STATS_PERSISTENT=1",
    "CHARSET=utf8",
    "/*!50100 PARTITION BY HASH (1) PARTITIONS 2 */",
)
PARTITIONING = (
    "PARTITION BY KEY () PARTITIONS 2",
    "PARTITION BY HASH (1) (PARTITION p0 COMMENT 'x INT', PARTITION p1)",
    "REMOVE PARTITIONING",
)
KEYS = (
    "PRIMARY KEY ({0})",
    "PRIMARY KEY ({0})",
    "CONSTRAINT pk PRIMARY KEY USING BTREE ({0})",
    "KEY ({0})",
    "UNIQUE KEY k1 ({0})",
    "INDEX k2 USING BTREE ({0}) COMMENT 'x, y'",
    "UNIQUE ({0})",
    "FULLTEXT ({0})",
    "CONSTRAINT uq UNIQUE `k 5` ({0})",
    "KEY k6 (({1} + 1))",
    "INDEX k7 ((LOWER({1})), {0}) INVISIBLE",
    "CONSTRAINT fk FOREIGN KEY ({1}) REFERENCES d1.t (a) ON DELETE SET NULL",
    "CHECK ({1} <> '), b INT')",
)
CHARSETS = (
    "CHARACTER SET latin1",
    "CHARACTER SET utf8mb4",
    "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "CHARACTER SET utf8",
    "CHARACTER SET latin1 COLLATE latin1_bin",
    "CHARACTER SET binary",
    "CHARACTER SET DEFAULT",
    "CHARSET ascii",
)
MODES = ("", "ANSI_QUOTES", "STRICT_TRANS_TABLES", "REAL_AS_FLOAT,NO_BACKSLASH_ESCAPES", "ANSI")
NOISE = (
    "INSERT INTO {} SELECT * FROM {} LIMIT 0",
    "ANALYZE TABLE {}",
    "OPTIMIZE TABLE {}",
    "FLUSH TABLES {}",
    "CREATE OR REPLACE VIEW d1.v AS SELECT 1 FROM {}",
    "ALTER TABLE {} FORCE",
    "ALTER TABLE {} COMMENT = 'DROP COLUMN a'",
    "DROP VIEW IF EXISTS {}",
    "CREATE TRIGGER d1.tr BEFORE INSERT ON {} FOR EACH ROW SET @a = 'ALTER TABLE t ADD x INT'",
    "TRUNCATE {}",
    "TRUNCATE TABLE {}",
)
