#: A session that writes statements instead of rows: temporary tables and queries stand in the binlog as they were sent.
#: on 9.7 5.7 mariadb-10.11
CREATE DATABASE stmt;
USE stmt;
SET SESSION binlog_format = 'STATEMENT';
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10));
CREATE TEMPORARY TABLE t (x INT);
ALTER TABLE t ADD y INT;
#: session b
USE stmt;
SET SESSION binlog_format = 'STATEMENT';
ALTER TABLE t ADD b_sees_the_real_one INT;
CREATE TEMPORARY TABLE t (z INT);
DROP TEMPORARY TABLE t;
#: session a
ALTER TABLE t DROP COLUMN x;
TRUNCATE TABLE t;
DROP TEMPORARY TABLE t;
ALTER TABLE t ADD a_sees_it_again INT;
CREATE TEMPORARY TABLE tmp AS SELECT * FROM t;
ALTER TABLE tmp RENAME TO tmp2;
DROP /*!40005 TEMPORARY */ TABLE IF EXISTS tmp2;
CREATE TEMPORARY TABLE pattern (a INT, b TEXT);
CREATE TABLE like_it LIKE pattern;
ALTER TABLE like_it ADD c INT;
DROP TEMPORARY TABLE IF EXISTS pattern, nothing;
SET SESSION binlog_format = 'MIXED';
CREATE TEMPORARY TABLE t (m INT);
DROP TABLE t;
ALTER TABLE t ADD at_last INT;
