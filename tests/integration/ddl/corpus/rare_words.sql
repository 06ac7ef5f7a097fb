#: What servers take, though hardly anybody writes it.
#: on 9.7 8.0 5.7 mariadb-10.11
CREATE DATABASE rw;
USE rw;
CREATE TABLE t (a decimal(19.5), b float(7.4), c float(24.9), d float(25.1), e int(5.9), f varchar(9.9), g char(3.), h bit(7.2), i numeric(9.) unsigned);
CREATE TABLE u (a double DEFAULT .5e-3, b decimal(9,5) DEFAULT -.5, c decimal(9,5) DEFAULT +1.5e0, d float DEFAULT 1.e1, e double DEFAULT 1e5, f int DEFAULT 0x1F, g bit(9) DEFAULT b'101');
CREATE TABLE v (a int, b int, index type type btree (a), index (b), INDEX using_ USING hash (a, b), index type2 (b, a), KEY typ TYPE btree (b));
CREATE TABLE w (a SQL_TSI_YEAR, b sql_tsi_year NOT NULL, SQL_TSI_MONTH int);
CREATE TABLE x (a int(/*!50000 5*/), b decimal(/*!50000 10*/, /*!50000 2 */), c char(/*!50000 3*/ /*!99999 3*/));
CREATE TABLE y (a date DEFAULT '2020-01-01', b int DEFAULT '5', c char(5) DEFAULT "x" 'y', d char(9) CHARACTER SET latin1 DEFAULT _latin1'x' COLLATE latin1_bin);
ALTER TABLE nothere ANALYZE PARTITION p1;
ALTER TABLE nothere CHECK PARTITION ALL;
ALTER TABLE nothere OPTIMIZE PARTITION p1, p2;
ALTER TABLE nothere REPAIR PARTITION ALL;
ALTER TABLE rw.nothere2 ANALYZE PARTITION p1;
ALTER TABLE u ADD modify int, ADD algorithm int;
ALTER TABLE u ORDER BY modify, algorithm DESC, a;
ALTER TABLE u ADD x int /* ; */ ; 
#: only 9.7
CREATE FUNCTION f1 (a INT) RETURNS INT LANGUAGE SQL DETERMINISTIC RETURN a;
#: only 9.7
ALTER TABLE w ADD `$$` int, ADD $a int;
