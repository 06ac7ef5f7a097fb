"""The statements run on a server for an audit to read: all kinds of changes, on tables of many types.

Invariant: each statement is listed as it is run, so that the origin of a finding can be read here.
"""

from __future__ import annotations

from collections.abc import Iterable

import pymysql

from devstack.mysql import Mysql

TABLES = [
    "CREATE DATABASE shop",
    "CREATE DATABASE other",
    """CREATE TABLE shop.kinds (
        id bigint unsigned PRIMARY KEY, ti tinyint, tu tinyint unsigned, su smallint unsigned,
        mu mediumint unsigned, bu bigint unsigned, bi bigint, y year, d decimal(30,10), d0 decimal(5,0),
        f float, db double, da date, dt datetime, dt6 datetime(6), ts timestamp NULL, ts3 timestamp(3) NULL,
        tm time, tm2 time(2), c char(10), v varchar(300), l varchar(20) CHARACTER SET latin1,
        u varchar(10) CHARACTER SET ucs2, g varchar(10) CHARACTER SET gbk, tx text, b binary(5),
        vb varbinary(50), bl blob, bit1 bit(1), bit12 bit(12),
        e enum('new', 'pa''id', 'é'), s set('1','2','3','4','5','6','7','8','9','x'), j json, o boolean)""",
    "CREATE TABLE shop.keyed (a int, b varchar(10), x int, PRIMARY KEY (b, a))",
    "CREATE TABLE shop.log (a int, note text)",
    "CREATE TABLE shop.emptied (id int PRIMARY KEY)",
    "CREATE TABLE shop.wide (id int PRIMARY KEY, note varchar(16000))",
    "CREATE TABLE other.noise (id int PRIMARY KEY)",
]
COMPRESSED = [
    "SET SESSION binlog_transaction_compression = ON",
    "INSERT INTO shop.log VALUES (9, 'compressed'), (10, 'too')",
    "SET SESSION binlog_transaction_compression = OFF",
    "FLUSH BINARY LOGS",
]
"""In a binlog file of its own, with the tables: not every witness reads it."""
FIRST = [
    r"""INSERT INTO shop.kinds VALUES (18446744073709551615, -1, 255, 65535, 16777215, 18446744073709551615,
        -9223372036854775808, 2024, -12345678901234567890.0123456789, -7, 0.1, 0.1, '2024-02-29',
        '2024-02-29 12:00:01', '2024-02-29 12:00:01.123456', '2024-02-29 12:00:01', '2024-02-29 12:00:01.123',
        '-838:59:59', '12:34:56.78', 'ab  ', 'x\'y\n\\z\0\t€🎈### INSERT', 'é€', 'ü中', '中', 'text', x'0102',
        x'00ff27', x'00ff0a27', b'1', b'101010101010', 'pa\'id', '2,9,x',
        '{"a": [1, 2.5, "x\\n\'é🎈", null], "n": 12345678901234567890}', true)""",
    "INSERT INTO shop.kinds (id) VALUES (1)",
    "SET SESSION sql_mode = ''",
    """INSERT INTO shop.kinds (id, e, s, v, f, db, d, tm2, bit12, da, dt, dt6, ts, tm, j) VALUES
        (2, 0, 0, '', 1e30, -1e-300, 0, '-00:00:00.01', 1, '0000-00-00', '2020-00-00 00:00:00', '0000-00-00', 0,
         '-00:00:01', JSON_OBJECT('d', CAST('1.50' AS DECIMAL(10,2)), 't', CAST('2020-01-02' AS DATE)))""",
    """INSERT INTO shop.kinds (id, f, db, j) VALUES
        (3, 3.4028234e38, 1.7976931348623157e308, '1e100'), (4, 1/3, 1/3, '[]')""",
    "SET SESSION sql_mode = DEFAULT",
    "UPDATE shop.kinds SET v = 'changed', j = JSON_SET(j, '$.a', 1) WHERE id < 10",
    "INSERT INTO shop.keyed VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', 3)",
    "UPDATE shop.keyed SET x = x + 1",
    "UPDATE shop.keyed SET a = a + 10 WHERE a < 3",
    "INSERT INTO shop.log VALUES (1, 'twice'), (1, 'twice')",
    "DELETE FROM shop.log LIMIT 1",
    "INSERT INTO other.noise VALUES (1), (2), (3)",
    "INSERT INTO shop.emptied VALUES (1), (2)",
    "TRUNCATE shop.emptied",
    "CREATE TABLE shop.gone (id int PRIMARY KEY)",
    "INSERT INTO shop.gone VALUES (1), (2)",
    "DROP TABLE shop.gone",
    "CREATE TABLE shop.gone (id int PRIMARY KEY)",
    "INSERT INTO shop.gone VALUES (3)",
]
SECOND = [
    "ALTER TABLE shop.keyed ADD COLUMN note varchar(20) AFTER b, MODIFY x bigint",
    "UPDATE shop.keyed SET note = 'after', x = 9000000000",
    "BEGIN",
    "INSERT INTO other.noise VALUES (4)",
    "INSERT INTO shop.keyed VALUES (20, 'z', 'n', 1)",
    "UPDATE shop.keyed SET x = 2 WHERE a = 20",
    "UPDATE shop.keyed SET x = 3 WHERE a = 20",
    "DELETE FROM shop.keyed WHERE a = 3",
    "COMMIT",
    "BEGIN",
    "INSERT INTO shop.keyed VALUES (99, 'never', 'n', 1)",
    "ROLLBACK",
    "CREATE TABLE shop.copied SELECT * FROM shop.keyed",
    "XA START 'kept'",
    "INSERT INTO shop.log VALUES (7, 'kept')",
    "XA END 'kept'",
    "XA PREPARE 'kept'",
    "XA COMMIT 'kept'",
    "XA START 'dropped'",
    "INSERT INTO shop.log VALUES (8, 'dropped')",
    "XA END 'dropped'",
    "XA PREPARE 'dropped'",
    "XA ROLLBACK 'dropped'",
    "FLUSH BINARY LOGS",
    "INSERT INTO shop.wide SELECT 0, REPEAT('w', 15000)",
    *(f"INSERT INTO shop.wide SELECT id + {1 << n}, note FROM shop.wide" for n in range(8)),
    "DELETE FROM shop.wide WHERE id < 4",
    "INSERT INTO shop.log VALUES (11, 'last')",
]


def play(mysql: Mysql, statements: Iterable[str]) -> None:
    """Run statements in one session."""
    connection = pymysql.connect(
        host=mysql.host, port=mysql.port, user="root", autocommit=True, charset="utf8mb4"
    )
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    finally:
        connection.close()
