#: What tools with windows send: Workbench, phpMyAdmin, HeidiSQL, Navicat, DBeaver, and what a person types into a shell.
#: on 9.7 8.0
SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0;
SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
-- -----------------------------------------------------
-- Schema mydb
-- -----------------------------------------------------
DROP SCHEMA IF EXISTS `mydb` ;
CREATE SCHEMA IF NOT EXISTS `mydb` DEFAULT CHARACTER SET utf8 ;
USE `mydb` ;
CREATE TABLE IF NOT EXISTS `mydb`.`customer` (
  `idcustomer` INT NOT NULL AUTO_INCREMENT,
  `name` VARCHAR(45) NULL,
  `email` VARCHAR(45) NULL DEFAULT 'none' COMMENT 'with a ` in it',
  `createdat` TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6),
  `points` INT UNSIGNED ZEROFILL NULL,
  `level` INT GENERATED ALWAYS AS (points DIV 100) VIRTUAL,
  PRIMARY KEY (`idcustomer`),
  UNIQUE INDEX `email_UNIQUE` (`email` ASC) VISIBLE,
  INDEX `name` USING BTREE (`name` DESC, `email`(10) ASC) COMMENT 'x' VISIBLE)
ENGINE = InnoDB
AUTO_INCREMENT = 100
DEFAULT CHARACTER SET = utf8mb4
COLLATE = utf8mb4_unicode_ci
COMMENT = 'it''s ours'
ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS `mydb`.`order` (
  `idorder` INT NOT NULL,
  `customer_idcustomer` INT NOT NULL,
  PRIMARY KEY (`idorder`, `customer_idcustomer`),
  INDEX `fk_order_customer_idx` (`customer_idcustomer` ASC) VISIBLE,
  CONSTRAINT `fk_order_customer`
    FOREIGN KEY (`customer_idcustomer`)
    REFERENCES `mydb`.`customer` (`idcustomer`)
    ON DELETE NO ACTION
    ON UPDATE NO ACTION)
ENGINE = InnoDB;
ALTER TABLE `mydb`.`customer` 
ADD COLUMN `phone` VARCHAR(20) NULL AFTER `email`,
CHANGE COLUMN `name` `fullname` VARCHAR(90) CHARACTER SET 'latin1' COLLATE 'latin1_german1_ci' NOT NULL ,
DROP INDEX `email_UNIQUE` ,
ADD UNIQUE INDEX `email_UNIQUE` USING BTREE (`email`, `phone`) VISIBLE;
ALTER TABLE `mydb`.`customer` ALTER INDEX `email_UNIQUE` INVISIBLE;
ALTER TABLE `mydb`.`order` RENAME TO  `mydb`.`orders` ;
ALTER SCHEMA `mydb`  DEFAULT CHARACTER SET utf8mb4  DEFAULT COLLATE utf8mb4_bin ;
#: phpMyAdmin
ALTER TABLE `customer` CHANGE `phone` `phone` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NULL DEFAULT NULL;
ALTER TABLE `customer` ADD `born` DATE NOT NULL DEFAULT '2000-01-01' AFTER `phone`, ADD INDEX (`born`);
CREATE TABLE `mydb`.`pma` ( `id` INT NOT NULL AUTO_INCREMENT , `a` VARCHAR(10) NULL DEFAULT NULL , `b` ENUM('x','y') NOT NULL , PRIMARY KEY (`id`)) ENGINE = InnoDB;
ALTER TABLE `pma` MODIFY `id` int(11) NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=5;
ALTER TABLE `pma` DROP `b`;
RENAME TABLE `mydb`.`pma` TO `mydb`.`pma2`;
ALTER TABLE `pma2` ENGINE = InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin COMMENT = 'new';
CREATE TABLE mydb.copy LIKE `mydb`.`pma2`;
#: HeidiSQL
CREATE TABLE `heidi` (
	`Column 1` INT NULL DEFAULT NULL,
	`Spalte 2` VARCHAR(50) NULL DEFAULT '' COLLATE 'utf8mb4_0900_ai_ci',
	`c3` TINYINT(1) UNSIGNED NOT NULL DEFAULT (0)
)
COLLATE='utf8mb4_0900_ai_ci'
;
ALTER TABLE `heidi`
	CHANGE COLUMN `Column 1` `id` INT NOT NULL AUTO_INCREMENT FIRST,
	ADD COLUMN `Column 4` INT NULL AFTER `c3`,
	ADD PRIMARY KEY (`id`);
ALTER TABLE `heidi`
	ALTER `Spalte 2` DROP DEFAULT;
ALTER TABLE `heidi`
	COMMENT='x',
	COLLATE='latin1_swedish_ci',
	CHANGE COLUMN `Column 4` `c4` BIGINT UNSIGNED ZEROFILL NULL AFTER `id`;
ALTER TABLE `heidi` COLLATE='utf8mb4_bin', CONVERT TO CHARSET utf8mb4;
#: Navicat, DBeaver
ALTER TABLE `mydb`.`heidi` 
MODIFY COLUMN `c4` bigint(20) UNSIGNED NULL DEFAULT NULL COMMENT '' AFTER `id`,
ADD COLUMN `n` decimal(10, 2) NULL COMMENT 'amount' AFTER `c4`,
ADD UNIQUE INDEX `u`(`n`) USING BTREE;
ALTER TABLE mydb.heidi ADD d varchar(100) NULL;
ALTER TABLE mydb.heidi MODIFY COLUMN d varchar(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci DEFAULT 'q' NOT NULL;
ALTER TABLE mydb.heidi CHANGE d `dd` text CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NULL;
#: By hand
create table notes(id serial, body text not null, created timestamp default now()) ;
alter table notes add tags set('a','b','c') after body, add column done bool default false;
alter table notes drop done, change tags labels json, add fulltext(body);
drop table notes, mydb.copy;
SET SQL_MODE=@OLD_SQL_MODE;
