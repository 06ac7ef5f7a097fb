SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION', time_zone = '+00:00';
CREATE DATABASE golden;
USE golden;
CREATE TABLE people (id int unsigned PRIMARY KEY, name varchar(40) CHARACTER SET latin1, born date,
 seen datetime, at timestamp NULL, span time, price decimal(12,2), flags set('a','ß','c') CHARACTER SET latin1,
 kind enum('x','it''s') NOT NULL, raw varbinary(8), code binary(4), doc text CHARACTER SET utf8, y year,
 b bit(9), big bigint unsigned, tiny tinyint, f float, d double);
INSERT INTO people VALUES (1,'Zoë','1970-01-01','2026-11-21 10:11:12','2026-11-21 10:11:12','-12:34:56',-1.05,'a,ß','x',x'00ff',
 x'0100','ä€',2026,b'101010101',18446744073709551615,-1,0.1,1e300);
INSERT INTO people VALUES (2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'it''s',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL), (4294967295,'','0000-00-00','0000-00-00','0000-00-00','838:59:59',9999999999.99,'','x','','','',0,b'0',0,
 127,-3.4e38,-0.0e0);
UPDATE people SET price = 0.5, name = 'Œ' WHERE id = 1;
CREATE TABLE keyless (a int, b varchar(300)) ENGINE=MyISAM;
INSERT INTO keyless VALUES (1, 'one'), (1, 'one'), (-5, NULL);
BEGIN;
INSERT INTO people (id, kind) VALUES (3, 'x');
SAVEPOINT s;
DELETE FROM people;
ROLLBACK TO s;
UPDATE people SET id = 5 WHERE id = 3;
COMMIT;
ALTER TABLE people ADD COLUMN more mediumint unsigned AFTER name;
UPDATE people SET more = 16777215 WHERE id = 5;
DELETE FROM people WHERE id = 2;
CREATE TABLE gone (id int PRIMARY KEY);
INSERT INTO gone VALUES (1);
TRUNCATE TABLE gone;
DELETE FROM keyless WHERE a = 1 LIMIT 1;
