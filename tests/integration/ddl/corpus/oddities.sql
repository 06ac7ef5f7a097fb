#: Names, spaces, cases and signs as they are seldom written, and still are.
#: on 9.7 8.0 5.7 mariadb-10.11
create DATABASE odd;
Use odd;
cReAtE TaBlE IF noT ExIsTs MiXed (Id iNt(11) nOt NuLl AUTO_increment, NaMe VarChar ( 10 ) cHaRaCtEr   SeT LATIN1 , PRIMARY kEy(ID)) eNgInE=iNnOdB;
alter	table
  MiXed
	add
column
new int
after
ID;
ALTER TABLE MiXed CHANGE nAmE name VARCHAR(20), MODIFY ID BIGINT(20), ALTER NEW SET DEFAULT 5;
ALTER TABLE MiXed DROP nEw;
CREATE TABLE mixed (a INT);
CREATE TABLE `select` (`from` INT, `where` VARCHAR(9), `primary` INT, `key` INT, `table` INT, `unique` INT, `index` INT, `check` INT, `constraint` INT, `column` INT, `first` INT, `after` INT, `foreign` INT, `partition` INT, `like` INT, PRIMARY KEY (`primary`), KEY `key` (`key`), UNIQUE `unique` (`unique`));
#: only 9.7 8.0 5.7
CREATE TABLE keywords (date DATE, time TIME, timestamp TIMESTAMP NULL, datetime DATETIME, year YEAR, text TEXT, bit BIT, enum ENUM('a'), comment INT, begin INT, end INT, action INT, status INT, type INT, value INT, password VARCHAR(9), user INT, language INT, no INT, offset INT, open INT, local INT, data INT, engine INT, hash INT, temporary INT, algorithm INT, visible INT, first INT, after INT, columns INT, partitions INT, checksum INT, fields INT, generated2 INT, json INT, geometry INT, point INT, signed INT, unicode INT, ascii INT, byte INT, serial INT, national INT, names INT, session INT, global INT, rollup INT, truncate INT, fixed INT, row_format INT, transaction INT, work INT, any INT, at INT, avg INT, boolean INT, charset INT);
#: only 9.7 8.0 5.7
ALTER TABLE keywords ADD `add` INT, ADD prev INT FIRST, ADD next INT AFTER date, ADD COLUMN view INT AFTER first;
#: only 9.7 8.0 5.7
ALTER TABLE keywords DROP comment, DROP status, DROP COLUMN type, CHANGE begin `column` INT, MODIFY end BIGINT FIRST, MODIFY first INT AFTER after;
#: only 9.7 8.0 5.7
ALTER TABLE keywords ADD COLUMN column1 INT, DROP password, ADD COLUMN (x1 INT, y1 VARCHAR(5) NOT NULL), ADD (z1 INT);
CREATE TABLE `日本` (`列` INT, `ünï` TEXT, `Ж` INT, `a b` INT, `€` INT);
ALTER TABLE `日本` CHANGE `ÜNÏ` `ünï2` TEXT, DROP `ж`;
CREATE TABLE 日本2 (列 INT, größe DOUBLE);
RENAME TABLE `日本` TO `中文`, 日本2 TO `日本`;
CREATE TABLE $dollar (a$b INT, $c INT, _d INT, 1e INT, 2_f INT, 0x INT, 12ab INT);
CREATE TABLE 1st (1a INT, `1` INT, `2.5` INT);
ALTER TABLE 1st ADD 2nd INT AFTER 1a, RENAME odd.2nd;
CREATE TABLE odd.3rd (a INT);
ALTER TABLE odd.3rd ADD b INT;
CREATE TABLE numbers (a DECIMAL ( 10 , 2 ), b FLOAT ( 7,4 ), c INT ( 5 ) , d BIT ( 1 ), e TIME ( 3 ), f YEAR ( 4 ));
CREATE TABLE defaults (a INT DEFAULT -1, b INT DEFAULT +1, c DECIMAL(5,2) DEFAULT -.5, d DOUBLE DEFAULT 1e-3, e VARCHAR(10) DEFAULT _utf8mb4'x', f VARCHAR(10) DEFAULT N'x', g BIT(4) DEFAULT b'101', h BINARY(2) DEFAULT x'4142', i BINARY(2) DEFAULT 0x4142, j BIT(3) DEFAULT 0b11, k DATE DEFAULT '2020-01-01', l DATETIME DEFAULT NOW(), m TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE NOW(3), n DATETIME(6) DEFAULT LOCALTIME(6), o TIMESTAMP NULL DEFAULT LOCALTIMESTAMP, p BOOL DEFAULT TRUE, q VARCHAR(30) DEFAULT 'a' 'b' "c", t VARCHAR(9) DEFAULT 'NULL', u VARCHAR(9) DEFAULT NULL, v VARCHAR(20) DEFAULT ', w INT');
CREATE TABLE commented (a INT COMMENT ', b INT', c INT COMMENT '); DROP TABLE numbers', d INT COMMENT '/* ', e INT COMMENT ' */', f INT COMMENT '-- ', g INT COMMENT 'it''s \' \\', h INT COMMENT "'", i INT COMMENT '`') COMMENT ') ENGINE=MyISAM, b INT';
#: only 9.7 8.0 5.7
CREATE TABLE attributes (a INT UNIQUE KEY NOT NULL COMMENT 'x' DEFAULT 3, b INT NOT NULL PRIMARY KEY COMMENT 'y' COLUMN_FORMAT DEFAULT STORAGE DISK, c BIGINT UNSIGNED ZEROFILL UNIQUE NULL, e INT NOT NULL, f INT);
CREATE TABLE semicolons (a INT) ;
CREATE TABLE many_signs(a INT,b INT UNSIGNED,c DECIMAL(3)UNSIGNED,d ENUM('a')NOT NULL,e VARCHAR(3)COLLATE utf8mb4_bin,PRIMARY KEY(a),KEY(b),KEY k(c));
ALTER TABLE many_signs ADD(f INT),ADD(g INT,h INT),DROP COLUMN a,DROP KEY k;
ALTER TABLE many_signs ADD COLUMN a INT NOT NULL FIRST , ADD CONSTRAINT PRIMARY KEY ( a ) , ADD CONSTRAINT uk UNIQUE INDEX ( b,c ) ;
ALTER TABLE many_signs ADD CONSTRAINT CHECK (a > 0), ADD CHECK ((b + c) > (0)), DROP PRIMARY KEY;
ALTER TABLE many_signs;
ALTER TABLE many_signs ENGINE = InnoDB;
ALTER TABLE many_signs FORCE, ADD i INT, FORCE;
ALTER TABLE many_signs DISABLE KEYS;
ALTER TABLE many_signs ENABLE KEYS;
ALTER TABLE many_signs ORDER BY a DESC, b;
ALTER TABLE many_signs ADD j INT, ORDER BY b ASC, i DESC;
DROP TABLE numbers RESTRICT;
DROP TABLES commented, `defaults` CASCADE;
drop table if exists `commented`;
DROP TABLE`semicolons`,`mixed`;
