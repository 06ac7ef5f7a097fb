#: Comments in all the ways that only a lexer decides: nested, gated by version, around quotes.
#: on 9.7 8.0 5.7 5.6 mariadb-10.11
CREATE DATABASE xc;
USE xc;
CREATE TABLE t (a int);
/* path:/api/* */ ALTER TABLE t ADD c int /*!50000 , ADD d int */;
ALTER TABLE t /* 12345 /* */ ADD e int /*!50000 , ADD f int */;
ALTER TABLE t ADD h int /*!99999 , ADD i int /* inner */ , ADD j int */;
ALTER TABLE t ADD k int /*!50000 , ADD l int /* inner */ , ADD m int */;
ALTER TABLE t ADD n int /*!50000 , ADD o int /*!50000 , ADD p int */;
ALTER TABLE t ADD q int /*!99999 x /* y /* z */ , ADD r int */;
#: only 9.7 8.0 5.7 5.6
ALTER TABLE t ADD g datetime(/*!506013*/), ADD g2 datetime(/*!50601 3*/), ADD g3 datetime(/*!506013*//*!50000*/);
#: only mariadb-10.11
ALTER TABLE t ADD g datetime(/*!050601 3*/), ADD g2 datetime(/*!50601 3*/), ADD g3 datetime(/*!1000003*/);
#: only 9.7
ALTER TABLE t ADD s int /*!050700 , ADD u int */ /*!080100	, ADD u2 int */ /*!100000 , ADD u3 int */;
#: only mariadb-10.11
ALTER TABLE t ADD s int /*!050700, ADD u int */ /*!050699, ADD u2 int */ /*!5000012 , ADD u3 int */ /*M!050700, ADD u4 int */;
#: only 9.7 8.0 5.7 5.6
#: refused
ALTER TABLE t ADD v int /*!050700, ADD w int */;
ALTER TABLE t ADD x int /*!999999 , ADD y int */;
#: refused
ALTER TABLE t ADD x2 int /*!5070 , ADD y2 int */;
#: refused
ALTER TABLE t ADD x4 int /*!M50000 , ADD y4 int */;
#: refused
ALTER TABLE t ADD x5 int /*!50000 , ADD y5 int /*!50000 , ADD z5 int */ */;
ALTER TABLE t ADD x9 int /*!50000-- foo */
 , ADD y9 int */;
ALTER TABLE t ADD z1 int /* -- foo */ , ADD z2 int;
ALTER TABLE t ADD z3 int /*!99999 'a */ , ADD z4 int;
ALTER TABLE t ADD z5 int /*!50000 COMMENT 'a */' , ADD z6 int */;
ALTER TABLE t ADD z7 int -- /*
 , ADD z8 int -- */
 , ADD z9 int;
ALTER TABLE t ADD aa int /*!*/ , ADD ab int;
ALTER TABLE t ADD ac int /**/ , ADD ad int /*/ , ADD ae int */;
ALTER TABLE t ADD ag int /*!99999 x /*!50000 y */ z */ , ADD ah int;
ALTER TABLE t ADD ai int /*! , ADD aj int /*!99999 x /* y */ z */ , ADD ak int */;
ALTER TABLE t ADD an int /*!50000 /* */ , ADD ao int */;
ALTER TABLE t ADD ap int /*!50000 # x */
, ADD aq int */;
ALTER TABLE t ADD au int /*!50000	, ADD av int */;
#: Backslashes mean nothing within a name, and in a string what the mode says.
SET sql_mode = 'ANSI_QUOTES';
ALTER TABLE t ADD "q\" int, ADD "q2" int;
ALTER TABLE t ADD "b\" int /*!50000 , ADD "b2\" int */ /*!99999 , ADD "b3" int */;
ALTER TABLE t ADD "c\"",ADD b" int /*!50000 , ADD "c2" int */;
ALTER TABLE t ADD `d\` int /*!50000 , ADD `d2\` int */, ADD d3 char(9) DEFAULT 'a\'' /*!50000 , ADD d4 int */;
SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES';
ALTER TABLE t ADD "w\" int, ADD "w2" int COMMENT 'x\';
ALTER TABLE t ADD w3 varchar(9) DEFAULT 'a\' /*!50000 , ADD "w4" int */;
SET sql_mode = 'NO_BACKSLASH_ESCAPES';
ALTER TABLE t ADD w5 int COMMENT "x\", ADD w6 int COMMENT 'x\' /*!50000 , ADD w7 int */;
SET sql_mode = '';
ALTER TABLE t ADD w8 int COMMENT "x\" /*!50000 , ADD z6 int */" /*!50000 , ADD w9 int */;
