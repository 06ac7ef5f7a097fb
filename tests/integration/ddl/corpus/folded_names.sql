#: Names that differ in case, by the server's own letters.
#: on lower-9.7 lower-5.7 lower-mariadb-10.11
CREATE DATABASE Fİ;
CREATE DATABASE ẞ;
USE fi;
CREATE TABLE İ (İ int, É int, Ⱥ int, Ꙁ int, ẞ int, PRIMARY KEY (İ));
ALTER TABLE i DROP é, ADD ß int, ADD ⱥ int, ADD ꙁ int, CHANGE i I int NOT NULL;
ALTER TABLE İ ADD e int, ADD É int AFTER İ;
CREATE TABLE STRAẞE (a int);
CREATE TABLE strasse (a int);
CREATE TABLE Straße (a int);
CREATE TABLE ǅ (a int);
ALTER TABLE ǆ ADD Ω int, ADD k int;
ALTER TABLE Ǆ DROP K, ADD ı int, ADD i int, CHANGE Ω Ω int;
RENAME TABLE ǆ TO ẞ.É, STRAẞE TO Ꙁ;
RENAME TABLE ẞ.é TO ꙁ;
DROP TABLE Ꙁ;
DROP DATABASE ẞ;
#: refused
CREATE TABLE t (`A` int, `a` int);
DROP DATABASE FI;
