#: Names as only a lexer and the server's own character set decide them.
#: on 9.7 8.0 5.7 5.6 mariadb-10.11
CREATE DATABASE xn;
USE xn;
CREATE TABLE t (a int);
ALTER TABLE t ADD 1a$b int, ADD 1$ int, ADD 2$x int, ADD $d int, ADD _$1 int;
#: only 8.0 5.7 5.6 mariadb-10.11
ALTER TABLE t ADD $$ int, ADD $x$ int;
#: only 9.7
#: refused
ALTER TABLE t ADD $x$ int;
ALTER TABLE t ADD 0xzz int, ADD 0x1g int, ADD 0b12 int, ADD 1e int, ADD 3ex int, ADD 0x int, ADD 0b int;
#: refused
ALTER TABLE t ADD 1e5 int;
ALTER TABLE t ADD X1 int, ADD b int, ADD n int, ADD x int;
CREATE TABLE xn.4x (a int);
CREATE TABLE xn.56e7 (a int);
CREATE TABLE xn.select (`where` int, key1 int, _x int, `_utf8` int, `a``b` int, `c"d` int);
ALTER TABLE t ADD é int, ADD Ñandú int, ADD 漢字 int, ADD ſtored int, ADD ıNDEX int, ADD ſet int, ADD ſİ int;
ALTER TABLE t DROP ıNDEX, DROP ſTORED;
ALTER TABLE t DROP é, ADD É int, ADD `a	b` int, ADD `a
c` int, ADD `${x}` int, ADD `%s` int, ADD `{}` int;
#: only mariadb-10.11
#: refused
CREATE TABLE `é😀` (a int);
