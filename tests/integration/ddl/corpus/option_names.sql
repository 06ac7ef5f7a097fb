#: Databases and tables named like the words that may follow them.
#: on 9.7 8.0 5.7 mariadb-10.11
CREATE DATABASE comment;
CREATE DATABASE encryption;
CREATE DATABASE charset;
CREATE DATABASE upgrade;
USE upgrade;
ALTER DATABASE comment CHARSET latin1;
ALTER DATABASE encryption CHARSET latin1;
ALTER DATABASE charset CHARSET latin1;
ALTER DATABASE upgrade CHARSET latin2;
ALTER DATABASE comment DEFAULT COLLATE utf8mb4_bin;
ALTER DATABASE encryption COLLATE utf8mb4_bin;
ALTER DATABASE charset COLLATE utf8mb4_bin;
ALTER SCHEMA charset DEFAULT CHARSET ascii;
#: refused
ALTER DATABASE CHARSET cp1250;
#: refused
ALTER DATABASE CHARSET = greek COLLATE greek_bin;
ALTER DATABASE DEFAULT CHARACTER SET koi8r;
ALTER DATABASE COLLATE latin5_bin;
ALTER DATABASE CHAR SET hebrew;
#: only mariadb-10.11
ALTER DATABASE comment COMMENT = 'x' CHARSET latin2;
#: only mariadb-10.11
ALTER DATABASE COMMENT = 'x' CHARSET latin1;
#: only mariadb-10.11
ALTER DATABASE COMMENT 'x' CHARSET cp1251;
#: only 9.7
#: refused
ALTER DATABASE ENCRYPTION 'N' CHARSET cp1251;
#: only 9.7
ALTER DATABASE encryption ENCRYPTION 'N' CHARSET cp1251;
#: only 9.7
ALTER DATABASE encryption DEFAULT ENCRYPTION 'N' COLLATE utf8mb3_bin;
CREATE TABLE comment.a (c char(9));
CREATE TABLE encryption.a (c char(9));
CREATE TABLE charset.a (c char(9));
CREATE TABLE upgrade.a (c char(9));
CREATE TABLE comment (comment int COMMENT 'comment', charset int, encryption int) COMMENT 'x' CHARSET latin1;
ALTER TABLE comment COMMENT 'x', ADD first int FIRST, ADD after int AFTER first, ADD column_format int;
ALTER TABLE comment CHANGE after no int AFTER comment, ADD COLUMN (temporary int, offline int), ADD storage int AFTER no;
ALTER TABLE comment MODIFY comment char(3) CHARSET ascii COMMENT 'first' FIRST, DROP COLUMN charset, RENAME AS engine;
ALTER TABLE engine ENGINE InnoDB, ADD engine int, ADD type int, ADD type2 char(3) ASCII, ADD ascii int, ADD unicode int;
ALTER TABLE engine ADD index type type btree (type), ADD INDEX using2 USING btree (ascii), ADD UNIQUE INDEX (unicode);
ALTER TABLE engine ADD modify int, ADD algorithm int, ORDER BY type, ascii;
ALTER TABLE engine ORDER BY modify, algorithm;
ALTER TABLE engine ADD partitioning int, ADD remove int, ADD partitions int, ADD any int, ADD data int, ADD directory int;
ALTER TABLE engine DROP remove, DROP COLUMN data, ALTER COLUMN any SET DEFAULT 3, ALTER directory SET DEFAULT 4;
CREATE TABLE temporary (serial serial, signed int signed, byte binary(3), boolean boolean, date date, time time(3), bit bit);
CREATE TABLE value (value int, status int, enum enum('a'), text text, timestamp timestamp NULL, year year, json int);
RENAME TABLE value TO offsets, temporary TO value;
CREATE TABLE import (format int, hash int, end int, begin int, PRIMARY KEY hash (end), KEY begin (begin));
ALTER TABLE import ADD CONSTRAINT symbol UNIQUE KEY hash (hash), DROP KEY begin, ADD KEY end (begin);
