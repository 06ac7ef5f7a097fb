#: MariaDB's sequences with a type of their own, since 11.5.
#: on mariadb-11.8
CREATE DATABASE q;
USE q;
CREATE SEQUENCE s1 AS tinyint;
CREATE SEQUENCE s2 AS smallint;
CREATE SEQUENCE s3 AS mediumint;
CREATE SEQUENCE s4 AS int START 5;
CREATE SEQUENCE s5 START 5 AS bigint;
CREATE SEQUENCE u1 AS tinyint unsigned;
CREATE SEQUENCE u2 AS smallint unsigned;
CREATE SEQUENCE u3 AS mediumint unsigned;
CREATE SEQUENCE u4 AS integer unsigned;
CREATE SEQUENCE u5 AS bigint unsigned;
ALTER SEQUENCE s4 AS bigint;
ALTER SEQUENCE IF EXISTS nothing AS int;
ALTER SEQUENCE u5 RESTART 7;
CREATE OR REPLACE SEQUENCE u1 AS int;
