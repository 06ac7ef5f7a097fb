#: pt-online-schema-change and Spirit: triggers, a copy, a swap, and the old table dropped, with and without renamed keys.
#: on 9.7 8.0
CREATE DATABASE d1;
USE d1;
CREATE TABLE d1.t (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20), b DATETIME, KEY (b)) DEFAULT CHARSET=latin1;
CREATE TABLE `d1`.`_t_new` (
  `id` int unsigned NOT NULL AUTO_INCREMENT,
  `a` varchar(20) DEFAULT NULL,
  `b` datetime DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `b` (`b`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1;
ALTER TABLE `d1`.`_t_new` ADD COLUMN c DECIMAL(12,2) NOT NULL DEFAULT 0 AFTER a, CHANGE b happened_at DATETIME(6) NULL;
CREATE TRIGGER `pt_osc_d1_t_del` AFTER DELETE ON `d1`.`t` FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR 1146 begin end; DELETE IGNORE FROM `d1`.`_t_new` WHERE `d1`.`_t_new`.`id` <=> OLD.`id`; END ;
CREATE TRIGGER `pt_osc_d1_t_upd` AFTER UPDATE ON `d1`.`t` FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR 1146 begin end; DELETE IGNORE FROM `d1`.`_t_new` WHERE !(OLD.`id` <=> NEW.`id`) AND `d1`.`_t_new`.`id` <=> OLD.`id`; REPLACE INTO `d1`.`_t_new` (`id`, `a`) VALUES (NEW.`id`, NEW.`a`); END ;
CREATE TRIGGER `pt_osc_d1_t_ins` AFTER INSERT ON `d1`.`t` FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR 1146 begin end; REPLACE INTO `d1`.`_t_new` (`id`, `a`) VALUES (NEW.`id`, NEW.`a`);END ;
INSERT LOW_PRIORITY IGNORE INTO `d1`.`_t_new` (`id`, `a`) SELECT `id`, `a` FROM `d1`.`t` LOCK IN SHARE MODE /*pt-online-schema-change 4242 copy table*/;
ANALYZE TABLE `d1`.`_t_new` /* pt-online-schema-change */;
RENAME TABLE `d1`.`t` TO `d1`.`_t_old`, `d1`.`_t_new` TO `d1`.`t`;
SET foreign_key_checks=0;
DROP TABLE IF EXISTS `d1`.`_t_old`;
DROP TRIGGER IF EXISTS `d1`.`pt_osc_d1_t_del`;
DROP TRIGGER IF EXISTS `d1`.`pt_osc_d1_t_upd`;
DROP TRIGGER IF EXISTS `d1`.`pt_osc_d1_t_ins`;
#: Spirit
DROP TABLE IF EXISTS `d1`.`_t_new`, `d1`.`_t_chkpnt`;
CREATE TABLE `d1`.`_t_new` LIKE `d1`.`t`;
ALTER TABLE `d1`.`_t_new` ADD COLUMN d JSON, DROP COLUMN c;
CREATE TABLE `d1`.`_t_chkpnt` (
	id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
	copier_watermark TEXT,
	checksum_watermark TEXT,
	binlog_name VARCHAR(255),
	binlog_pos INT,
	statement TEXT
	);
RENAME TABLE `d1`.`t` TO `d1`.`_t_old_20240229_235959`, `d1`.`_t_new` TO `d1`.`t`;
DROP TABLE IF EXISTS `d1`.`_t_old_20240229_235959`;
DROP TABLE IF EXISTS `d1`.`_t_chkpnt`;
#: Facebook's OSC: two renames, one behind the other.
CREATE TABLE d1.`__osc_new_t` (`id` int unsigned NOT NULL AUTO_INCREMENT, `a` varchar(40) COLLATE latin1_bin DEFAULT NULL, PRIMARY KEY (`id`)) DEFAULT CHARSET=latin1;
ALTER TABLE d1.t RENAME d1.`__osc_old_t`;
ALTER TABLE d1.`__osc_new_t` RENAME d1.t;
DROP TABLE d1.`__osc_old_t`;
