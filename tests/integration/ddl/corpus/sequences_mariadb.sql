#: MariaDB's sequences: tables by another name, made and dropped by both kinds of statements.
#: on mariadb-10.11 mariadb-11.8
CREATE DATABASE q;
USE q;
CREATE SEQUENCE a;
CREATE SEQUENCE IF NOT EXISTS a;
CREATE OR REPLACE SEQUENCE a START WITH 100 INCREMENT BY 10 MINVALUE 1 MAXVALUE 900 CACHE 5 CYCLE COMMENT 'as INT' ENGINE=MyISAM;
CREATE SEQUENCE IF NOT EXISTS b NOCACHE NOCYCLE;
CREATE TABLE made (next_not_cached_value bigint NOT NULL, minimum_value bigint NOT NULL, maximum_value bigint NOT NULL, start_value bigint NOT NULL, increment bigint NOT NULL, cache_size bigint unsigned NOT NULL, cycle_option tinyint unsigned NOT NULL, cycle_count bigint NOT NULL) SEQUENCE=1;
ALTER SEQUENCE IF EXISTS a RESTART 9;
ALTER TABLE b COMMENT 'of orders';
RENAME TABLE a TO c;
ALTER TABLE c RENAME TO d;
CREATE TABLE alike LIKE d;
DROP TABLE alike;
CREATE TEMPORARY SEQUENCE d;
DROP SEQUENCE d;
ALTER TABLE made SEQUENCE=0;
CREATE TABLE t (id bigint DEFAULT NEXTVAL(b) PRIMARY KEY, x int);
INSERT INTO t (x) VALUES (1);
DROP TABLE IF EXISTS t, b;
DROP SEQUENCE IF EXISTS d, nothing;
