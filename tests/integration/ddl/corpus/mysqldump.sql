#: A dump taken with mysqldump 8.0, with all its SET and LOCK noise and executable comments, then a second one over it.
#: on 9.7 8.0 5.7
-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
--
-- Host: localhost    Database: company
-- ------------------------------------------------------
-- Server version	8.0.36

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

--
-- Current Database: `company`
--

CREATE DATABASE /*!32312 IF NOT EXISTS*/ `company` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci */ /*!80016 DEFAULT ENCRYPTION='N' */;
USE `company`;

--
-- Table structure for table `employees`
--

DROP TABLE IF EXISTS `employees`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `employees` (
  `emp_no` int NOT NULL,
  `birth_date` date NOT NULL,
  `first_name` varchar(14) COLLATE utf8mb4_unicode_ci NOT NULL,
  `last_name` varchar(16) CHARACTER SET latin1 COLLATE latin1_german2_ci NOT NULL,
  `gender` enum('M','F','it''s; complicated') COLLATE utf8mb4_unicode_ci NOT NULL,
  `hire_date` date NOT NULL COMMENT 'not a `date`, but -- really -- a "day" /* of work */',
  `photo` blob,
  `cv` text COLLATE utf8mb4_unicode_ci,
  PRIMARY KEY (`emp_no`),
  KEY `names` (`last_name`,`first_name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci COMMENT='all; of them';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `employees`
--

LOCK TABLES `employees` WRITE;
/*!40000 ALTER TABLE `employees` DISABLE KEYS */;
INSERT INTO `employees` VALUES (10001,'1953-09-02','Georgi','Facello','M','1986-06-26',NULL,NULL),(10002,'1964-06-02','Bez; alel','Sim`mel','F','1985-11-21',NULL,'CREATE TABLE x (a int)');
/*!40000 ALTER TABLE `employees` ENABLE KEYS */;
UNLOCK TABLES;

DROP TABLE IF EXISTS `salaries`;
CREATE TABLE `salaries` (
  `emp_no` int NOT NULL,
  `salary` int unsigned NOT NULL,
  `from_date` date NOT NULL,
  `to_date` date DEFAULT NULL,
  `yearly` bigint unsigned GENERATED ALWAYS AS ((`salary` * 12)) VIRTUAL,
  `label` varchar(64) COLLATE utf8mb4_bin GENERATED ALWAYS AS (concat(_utf8mb4'#',`emp_no`)) STORED NOT NULL,
  `active` tinyint(1) /*!80023 INVISIBLE */ DEFAULT '1',
  PRIMARY KEY (`emp_no`,`from_date`),
  KEY `from_date` (`from_date`) /*!80000 INVISIBLE */
) /*!50100 TABLESPACE `innodb_file_per_table` */ ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC STATS_PERSISTENT=0
/*!50100 PARTITION BY RANGE (to_days(`from_date`))
(PARTITION p1985 VALUES LESS THAN (725371) ENGINE = InnoDB,
 PARTITION p1986 VALUES LESS THAN (725736) ENGINE = InnoDB,
 PARTITION pmax VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */;
--
-- Temporary view structure for view `current_salaries`
--

DROP TABLE IF EXISTS `current_salaries`;
/*!50001 DROP VIEW IF EXISTS `current_salaries`*/;
SET @saved_cs_client     = @@character_set_client;
/*!50503 SET character_set_client = utf8mb4 */;
/*!50001 CREATE VIEW `current_salaries` AS SELECT 
 1 AS `emp_no`,
 1 AS `salary`*/;
SET character_set_client = @saved_cs_client;

--
-- Dumping events for database 'company'
--
/*!50106 SET @save_time_zone= @@TIME_ZONE */ ;
/*!50106 DROP EVENT IF EXISTS `purge` */;
DELIMITER ;;
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;;
/*!50003 SET sql_mode              = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES' */ ;;
/*!50106 CREATE*/ /*!50117 DEFINER=`root`@`localhost`*/ /*!50106 EVENT `purge` ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' ON COMPLETION NOT PRESERVE DISABLE DO BEGIN
  DELETE FROM salaries WHERE to_date < NOW();
  DROP TABLE IF EXISTS employees_old;
END */ ;;
DELIMITER ;
--
-- Dumping routines for database 'company'
--
DELIMITER ;;
CREATE DEFINER=`root`@`localhost` PROCEDURE `archive`(IN d DATE)
BEGIN
  CREATE TABLE IF NOT EXISTS archive LIKE salaries;
  ALTER TABLE archive ADD COLUMN archived_at DATETIME;
  DROP TABLE salaries;
END ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `employees_bi` BEFORE INSERT ON `employees` FOR EACH ROW BEGIN
  SET NEW.first_name = TRIM(NEW.first_name);
END */;;
DELIMITER ;

--
-- Final view structure for view `current_salaries`
--

/*!50001 DROP VIEW IF EXISTS `current_salaries`*/;
/*!50001 SET @saved_cs_client          = @@character_set_client */;
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */
/*!50001 VIEW `current_salaries` AS select `salaries`.`emp_no` AS `emp_no`,`salaries`.`salary` AS `salary` from `salaries` where (`salaries`.`to_date` is null) */;
/*!50001 SET character_set_client      = @saved_cs_client */;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

-- Dump completed on 2024-02-29 12:00:00
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `company` /*!40100 DEFAULT CHARACTER SET latin1 */;
/*!40000 DROP DATABASE IF EXISTS `company`*/;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `company` /*!40100 DEFAULT CHARACTER SET latin1 */;
USE company;
DROP TABLE IF EXISTS `t`;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `t` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `c` char(3) CHARACTER SET ascii NOT NULL DEFAULT '',
  `ts` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  `g` int(11) GENERATED ALWAYS AS (length(`c`) + 1) VIRTUAL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=17 DEFAULT CHARSET=latin1;
