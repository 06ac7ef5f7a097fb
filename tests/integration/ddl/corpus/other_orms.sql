#: TypeORM, Sequelize, Prisma, Alembic, Entity Framework, Knex, GORM, Doctrine, Ecto: one dialect of quoting each.
#: on 9.7 8.0 mariadb-11.8
CREATE DATABASE IF NOT EXISTS `orm`;
USE `orm`;
CREATE TABLE `typeorm_metadata` (`type` varchar(255) NOT NULL, `database` varchar(255) NULL, `schema` varchar(255) NULL, `table` varchar(255) NULL, `name` varchar(255) NULL, `value` text NULL) ENGINE=InnoDB;
CREATE TABLE `photo` (`id` int NOT NULL AUTO_INCREMENT, `uuid` varchar(36) NOT NULL, `createdAt` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), `updatedAt` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), `views` int UNSIGNED NOT NULL DEFAULT '0', `isPublished` tinyint NOT NULL DEFAULT 1, INDEX `IDX_b7e` (`views`), UNIQUE INDEX `IDX_uuid` (`uuid`), PRIMARY KEY (`id`)) ENGINE=InnoDB;
ALTER TABLE `photo` ADD `kind` enum ('a', 'b') NOT NULL DEFAULT 'a';
ALTER TABLE `photo` CHANGE `kind` `kind` enum ('a', 'b', 'c') NULL;
ALTER TABLE `photo` DROP COLUMN `uuid`;
ALTER TABLE `photo` ADD `uuid` binary(16) NOT NULL;
#: Sequelize
CREATE TABLE IF NOT EXISTS `SequelizeMeta` (`name` VARCHAR(255) NOT NULL UNIQUE, PRIMARY KEY (`name`)) DEFAULT CHARSET=utf8mb3 COLLATE utf8_unicode_ci;
CREATE TABLE IF NOT EXISTS `Users` (`id` INTEGER NOT NULL auto_increment , `name` VARCHAR(255) BINARY, `bio` TEXT, `rating` FLOAT(11,2) UNSIGNED ZEROFILL, `uid` CHAR(36) BINARY, `small` SMALLINT(5) UNSIGNED, `active` TINYINT(1), `createdAt` DATETIME NOT NULL, `updatedAt` DATETIME NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;
ALTER TABLE `Users` ADD `nickname` VARCHAR(32) AFTER `name`;
ALTER TABLE `Users` CHANGE `nickname` `nickname` VARCHAR(64) NOT NULL DEFAULT '';
ALTER TABLE `Users` ADD CONSTRAINT `users_name_uk` UNIQUE (`name`);
#: Prisma
CREATE TABLE _prisma_migrations (
    id                      VARCHAR(36) PRIMARY KEY NOT NULL,
    checksum                VARCHAR(64) NOT NULL,
    finished_at             DATETIME(3),
    migration_name          VARCHAR(255) NOT NULL,
    logs                    TEXT,
    rolled_back_at          DATETIME(3),
    started_at              DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    applied_steps_count     INTEGER UNSIGNED NOT NULL DEFAULT 0
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
-- CreateTable
CREATE TABLE `Post` (
    `id` INTEGER NOT NULL AUTO_INCREMENT,
    `title` VARCHAR(191) NOT NULL,
    `published` BOOLEAN NOT NULL DEFAULT false,
    `big` BIGINT NULL,
    `dec` DECIMAL(65, 30) NULL,
    `json` JSON NULL,
    `bytes` LONGBLOB NULL,
    `role` ENUM('USER', 'ADMIN') NOT NULL DEFAULT 'USER',

    UNIQUE INDEX `Post_title_key`(`title`),
    PRIMARY KEY (`id`)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
-- AlterTable
ALTER TABLE `Post` DROP COLUMN `big`,
    ADD COLUMN `authorId` INTEGER NULL,
    MODIFY `title` VARCHAR(512) NOT NULL;
-- CreateIndex
CREATE INDEX `Post_authorId_idx` ON `Post`(`authorId`);
#: Alembic
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE sensors (
	id INTEGER NOT NULL AUTO_INCREMENT, 
	label VARCHAR(64), 
	payload JSON, 
	reading NUMERIC(10, 3), 
	flag BOOL, 
	PRIMARY KEY (id), 
	UNIQUE (label)
)CHARSET=utf8mb4;
ALTER TABLE sensors ADD COLUMN seen_at DATETIME NULL DEFAULT now();
ALTER TABLE sensors MODIFY label VARCHAR(128) NOT NULL;
ALTER TABLE sensors CHANGE reading value NUMERIC(12, 6) NULL;
#: Entity Framework
CREATE TABLE `__EFMigrationsHistory` (
    `MigrationId` varchar(150) CHARACTER SET utf8mb4 NOT NULL,
    `ProductVersion` varchar(32) CHARACTER SET utf8mb4 NOT NULL,
    CONSTRAINT `PK___EFMigrationsHistory` PRIMARY KEY (`MigrationId`)
) CHARACTER SET=utf8mb4;
ALTER DATABASE CHARACTER SET utf8mb4;
CREATE TABLE `AspNetUsers` (
    `Id` char(36) COLLATE ascii_general_ci NOT NULL,
    `UserName` varchar(256) CHARACTER SET utf8mb4 NULL,
    `LockoutEnd` datetime(6) NULL,
    `Discriminator` longtext CHARACTER SET utf8mb4 NOT NULL,
    `RowVersion` timestamp(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
    CONSTRAINT `PK_AspNetUsers` PRIMARY KEY (`Id`)
) CHARACTER SET=utf8mb4;
ALTER TABLE `AspNetUsers` ADD `Tenant` int NOT NULL DEFAULT 0;
ALTER TABLE `AspNetUsers` MODIFY COLUMN `UserName` longtext CHARACTER SET utf8mb4 NULL;
ALTER TABLE `AspNetUsers` RENAME COLUMN `Tenant` TO `TenantId`;
#: Knex
create table `knex_migrations` (`id` int unsigned not null auto_increment primary key, `name` varchar(255), `batch` int, `migration_time` timestamp);
alter table `knex_migrations` add `checksum` char(32) null;
alter table `knex_migrations` rename to `knex_done`;
#: GORM
CREATE TABLE `companies` (`id` bigint unsigned AUTO_INCREMENT,`created_at` datetime(3) NULL,`deleted_at` datetime(3) NULL,`name` longtext,`active` boolean,`code` varchar(191) DEFAULT 'x',`rate` double,`logo` longblob,PRIMARY KEY (`id`),INDEX `idx_companies_deleted_at` (`deleted_at`));
ALTER TABLE `companies` ADD `size` smallint;
ALTER TABLE `companies` MODIFY COLUMN `code` varchar(20) NOT NULL DEFAULT 'y';
#: Doctrine
CREATE TABLE doctrine_migration_versions (version VARCHAR(191) NOT NULL, executed_at DATETIME DEFAULT NULL, execution_time INT DEFAULT NULL, PRIMARY KEY(version)) DEFAULT CHARACTER SET utf8mb3 COLLATE `utf8_unicode_ci` ENGINE = InnoDB;
CREATE TABLE messenger_messages (id BIGINT AUTO_INCREMENT NOT NULL, body LONGTEXT NOT NULL, headers LONGTEXT NOT NULL, queue_name VARCHAR(190) NOT NULL, created_at DATETIME NOT NULL COMMENT '(DC2Type:datetime_immutable)', INDEX IDX_75EA56E0FB7336F0 (queue_name), PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;
ALTER TABLE messenger_messages ADD delivered_at DATETIME DEFAULT NULL COMMENT '(DC2Type:datetime_immutable)', CHANGE headers headers TEXT DEFAULT NULL;
#: Ecto
CREATE TABLE `schema_migrations` (`version` bigint, `inserted_at` datetime, PRIMARY KEY (`version`)) ENGINE = INNODB;
ALTER TABLE `companies` ADD `owner_id` BIGINT UNSIGNED, ADD CONSTRAINT `companies_owner_id_fkey` FOREIGN KEY (`owner_id`) REFERENCES `companies`(`id`);
ALTER TABLE `companies` DROP FOREIGN KEY `companies_owner_id_fkey`, MODIFY `owner_id` BIGINT UNSIGNED NOT NULL;
