#: MariaDB's keys of geometries, which are of their first bytes, where the column becomes another type.
#: on mariadb-10.11 mariadb-11.8
CREATE DATABASE kg;
USE kg;
SET sql_mode = '';
CREATE TABLE a (g geometry, UNIQUE k (g));
ALTER TABLE a MODIFY g decimal(4,1) FIRST;
CREATE TABLE b (g geometry, z int, UNIQUE k (g, z));
ALTER TABLE b MODIFY g double NOT NULL;
CREATE TABLE c (g geometry, z int, UNIQUE k (g, z));
ALTER TABLE c CHANGE g h geometry;
CREATE TABLE d (g geometry, z int, UNIQUE k (g, z));
ALTER TABLE d MODIFY g longblob;
CREATE TABLE e (g point, UNIQUE k (g));
ALTER TABLE e MODIFY g varchar(20);
CREATE TABLE f (g point, UNIQUE k (g));
ALTER TABLE f MODIFY g varchar(30);
