#: A dump by mariadb-dump, whose comments are for MariaDB alone or for certain versions of either.
#: on mariadb-10.11 mariadb-11.8
/*M!999999\- enable the sandbox mode */;
-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB, for debian-linux-gnu (x86_64)
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET NAMES utf8mb4 */;
/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `crm` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci */;
USE `crm`;
DROP TABLE IF EXISTS `contacts`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `contacts` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `name` varchar(80) NOT NULL DEFAULT 'it''s',
  `meta` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`meta`)),
  `hidden` int(11) INVISIBLE DEFAULT NULL,
  `twice` int(11) GENERATED ALWAYS AS (`id2` * 2) VIRTUAL,
  `id2` int(11) DEFAULT NULL,
  `kept` varchar(20) GENERATED ALWAYS AS (concat(`name`,'/*!50000 x */')) STORED,
  `ip` inet6 DEFAULT NULL,
  `z` text /*M!100301 COMPRESSED*/ DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `name` (`name`(10))
) ENGINE=InnoDB AUTO_INCREMENT=12 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci WITH SYSTEM VERSIONING;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `contacts` WRITE;
/*!40000 ALTER TABLE `contacts` DISABLE KEYS */;
/*!40000 ALTER TABLE `contacts` ENABLE KEYS */;
UNLOCK TABLES;
CREATE TABLE a (id INT /*!50700 , mysql57 INT */ /*!80000 , mysql8 INT */ /*!50600 , five6 INT */ /*!100000 , ten INT */ /*!999999 , never INT */ /*M!50700 , m57 INT */ /*M! , m INT */ /*! , all_of_them INT */);
ALTER TABLE a /*!100500 ADD COLUMN IF NOT EXISTS ten5 INT, */ ADD COLUMN z INT /*!80023 INVISIBLE */;
CREATE TABLE b (a INT) /*!110000 COMMENT 'eleven' */ /*!50100 PARTITION BY HASH (a) PARTITIONS 2 */;
/*M!100000 CREATE TABLE c (a INT) */;
/*!100201 CREATE TABLE d (a INT) */;
