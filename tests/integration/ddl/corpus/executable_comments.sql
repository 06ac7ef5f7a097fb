#: Comments that are statements, by version and in every place; a server of another version takes them otherwise.
#: on 9.7 8.0 5.7 5.6 mariadb-10.11
CREATE DATABASE xc;
USE xc;
CREATE TABLE a (id INT /*!99999 , never INT */ /*!50000 , five INT */ /* , plain INT */);
CREATE TABLE b (id INT, /*!50700 seven INT, */ /*!80000 eight INT, */ /*!90000 nine INT, */ last INT);
CREATE TABLE c (id INT) /*!40101 DEFAULT CHARACTER SET latin2 */ /*!99999 COLLATE utf8mb4_bin */;
/*!50000 CREATE TABLE d (id INT) */;
/*!99999 CREATE TABLE never (id INT) */;
CREATE /*!50000 TABLE */ e (id /*! INT */ /*!99999 NOT NULL */);
ALTER TABLE e ADD COLUMN /*!50000 x */ /*!99999 y */ INT;
ALTER TABLE e /*!80023 ADD COLUMN only_new INT INVISIBLE, */ ADD COLUMN z INT;
ALTER TABLE /*!50000 e */ DROP COLUMN z /*!99999 , DROP COLUMN x */;
/*!50000 ALTER TABLE e */ ADD w VARCHAR(10) /*!40101 CHARACTER SET latin1 */ /* and */ NOT NULL;
/*! RENAME TABLE e TO f */;
DROP TABLE /*!50000 IF EXISTS */ f, /*!99999 b, */ d;
CREATE TABLE g (a INT /*!50000 COMMENT 'with */ in it' */);
CREATE TABLE h (`/*! odd */` INT, b VARCHAR(99) DEFAULT '/*!50000 x */' COMMENT "/* y */");
CREATE TABLE i (a INT /*!50000, b INT /* inner , z INT */ , c INT*/);
CREATE TABLE/**/j/**/(/**/a/**/INT/**/,b/**/CHAR(1)/**/)/**/;
# a line of its own
CREATE TABLE k ( # to the end
  a INT, -- and so
  --	a tab
  b INT --
);
/* leading */ /*!50000 CREATE */ /* between */ TABLE l (a INT) /* trailing */;
#: only 9.7 mariadb-10.11
CREATE TABLE m (a INT /*!100100 , hundred INT */ /*!050700 , six_digits INT */ /*!110000 , eleven INT */);
CREATE TABLE n (a INT /*M! , maria INT */ /*M!100000 , maria_ten INT */ /*M!990000 , maria_later INT */);
