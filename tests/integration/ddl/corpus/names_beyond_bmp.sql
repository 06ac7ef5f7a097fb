#: MySQL keeps a question mark for each character of a name outside the BMP.
#: on 9.7 8.0 5.7 5.6
CREATE DATABASE xb;
USE xb;
CREATE TABLE `é😀` (`😀` int, a😀b int, PRIMARY KEY (`😀`));
#: only 9.7 8.0
ALTER TABLE `é?` ADD d int AFTER 😀, RENAME COLUMN a🎉b TO f;
#: refused
CREATE TABLE `é𝔸` (`😀` int);
CREATE TABLE 😀 LIKE é😀;
RENAME TABLE 😀 TO 𝔸b;
ALTER TABLE `?b` CHANGE `🎉` `c🎉` int;
DROP TABLE 𝔸b, `é?`;
