#: Tables as well-known programs make them, each with its own habits, and how their upgrades change them.
#: on 9.7 5.7 mariadb-11.8
CREATE DATABASE apps CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
USE apps;
SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION';
#: A wiki: bytes for everything, and a comment where options are put.
CREATE TABLE /*_*/page (
  page_id INT UNSIGNED AUTO_INCREMENT NOT NULL,
  page_namespace INT NOT NULL,
  page_title VARBINARY(255) NOT NULL,
  page_is_redirect TINYINT UNSIGNED DEFAULT 0 NOT NULL,
  page_random DOUBLE PRECISION NOT NULL,
  page_touched BINARY(14) NOT NULL,
  page_len INT UNSIGNED NOT NULL,
  page_lang VARBINARY(35) DEFAULT NULL,
  UNIQUE INDEX page_name_title (page_namespace, page_title),
  INDEX page_random (page_random),
  PRIMARY KEY(page_id)
) /*$wgDBTableOptions*/ ENGINE=InnoDB, DEFAULT CHARSET=binary;
ALTER TABLE /*_*/page ADD COLUMN page_content_model varbinary(32) DEFAULT NULL AFTER page_len, DROP INDEX page_random;
CREATE TABLE revision ( rev_id int unsigned NOT NULL PRIMARY KEY AUTO_INCREMENT, rev_text mediumblob NOT NULL, rev_comment tinyblob, rev_user_text varchar(255) binary NOT NULL default '' ) ENGINE=InnoDB, DEFAULT CHARSET=binary;
ALTER TABLE revision MODIFY rev_comment varbinary(767) NOT NULL default '', CHANGE rev_user_text rev_actor bigint unsigned NOT NULL DEFAULT 0;
#: A content management system with braces in its comments.
CREATE TABLE node_field_data (
`nid` INT unsigned NOT NULL,
`vid` INT unsigned NOT NULL,
`type` VARCHAR(32) CHARACTER SET ascii NOT NULL COMMENT 'The ID of the target entity; see {node_type}.',
`langcode` VARCHAR(12) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
`status` TINYINT NOT NULL,
`title` VARCHAR(255) NOT NULL,
`created` INT NOT NULL,
`data` LONGBLOB NULL DEFAULT NULL COMMENT 'A serialized array, e.g. a:1:{s:1:"a";b:1;}',
PRIMARY KEY (`nid`, `langcode`),
INDEX `node__id__default` (`nid`, `status`),
INDEX `node_field__type` (`type`(4))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COMMENT 'The data table for node entities.';
ALTER TABLE node_field_data ADD `sticky` TINYINT NOT NULL DEFAULT 0 COMMENT 'x', CHANGE `created` `created` INT(11) NULL DEFAULT NULL;
ALTER TABLE node_field_data CHANGE `type` `type` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL;
RENAME TABLE node_field_data TO old_f6d4c8node_field_data;
#: A shop.
CREATE TABLE IF NOT EXISTS `catalog_product_entity` (
  `entity_id` INT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'Entity ID',
  `attribute_set_id` SMALLINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'Attribute Set ID',
  `sku` VARCHAR(64) NOT NULL COMMENT 'SKU',
  `has_options` SMALLINT NOT NULL DEFAULT 0 COMMENT 'Has Options',
  `price` DECIMAL(20,6) DEFAULT NULL COMMENT 'Price',
  `created_at` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'Creation Time',
  `updated_at` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP COMMENT 'Update Time',
  CONSTRAINT PRIMARY KEY (`entity_id`),
  INDEX `CATALOG_PRODUCT_ENTITY_SKU` (`sku`)
) ENGINE=INNODB DEFAULT CHARSET=utf8 COMMENT='Catalog Product Table';
ALTER TABLE `catalog_product_entity` MODIFY COLUMN `price` DECIMAL(12,4) UNSIGNED NULL DEFAULT 0.0000 COMMENT "Price", ADD COLUMN `row_id` INT(10) UNSIGNED NOT NULL FIRST, DROP PRIMARY KEY, ADD PRIMARY KEY (`row_id`), MODIFY COLUMN `entity_id` INT UNSIGNED NOT NULL;
ALTER TABLE `catalog_product_entity` MODIFY COLUMN `row_id` INT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT "Version Id";
#: A forum.
CREATE TABLE phpbb_posts ( post_id int(10) UNSIGNED NOT NULL auto_increment, topic_id mediumint(8) UNSIGNED DEFAULT '0' NOT NULL, poster_ip varchar(40) DEFAULT '' NOT NULL, post_text mediumtext NOT NULL, post_subject varchar(255) DEFAULT '' NOT NULL COLLATE utf8_unicode_ci, post_postcount tinyint(1) UNSIGNED DEFAULT '1' NOT NULL, PRIMARY KEY (post_id), KEY topic_id (topic_id) ) CHARACTER SET `utf8` COLLATE `utf8_bin`;
ALTER TABLE `phpbb_posts` CHANGE `post_subject` `post_subject` varchar(180) DEFAULT '' NOT NULL COLLATE utf8_unicode_ci, ADD FULLTEXT `post_content` (`post_text`);
ALTER TABLE `phpbb_posts` ADD COLUMN `post_delete_time` int(11) UNSIGNED DEFAULT '0' NOT NULL, ADD COLUMN `post_delete_user` int(10) UNSIGNED DEFAULT '0' NOT NULL;
#: A monitoring system.
CREATE TABLE `items` ( `itemid` bigint unsigned NOT NULL, `name` varchar(255) DEFAULT '' NOT NULL, `key_` varchar(2048) DEFAULT '' NOT NULL, `params` text NOT NULL, `lastlogsize` bigint unsigned DEFAULT '0' NOT NULL, `value` double precision DEFAULT '0.0000' NOT NULL, PRIMARY KEY (itemid) ) ENGINE=InnoDB;
CREATE INDEX `items_1` ON `items` (`name`(191),`key_`(191));
ALTER TABLE `items` ADD `uuid` varchar(32) DEFAULT '' NOT NULL, MODIFY `value` DOUBLE PRECISION NOT NULL DEFAULT '0', DROP `params`;
#: Analytics, a table for each month.
CREATE TABLE `matomo_archive_blob_2024_01` ( idarchive INTEGER UNSIGNED NOT NULL, name VARCHAR(190) NOT NULL, idsite INTEGER UNSIGNED NULL, date1 DATE NULL, period TINYINT UNSIGNED NULL, ts_archived DATETIME NULL, value MEDIUMBLOB NULL, PRIMARY KEY(idarchive, name), INDEX index_period_archived(period, ts_archived) ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `matomo_archive_blob_2024_02` LIKE `matomo_archive_blob_2024_01`;
CREATE TABLE log_visit ( idvisit BIGINT(10) UNSIGNED NOT NULL AUTO_INCREMENT, idvisitor BINARY(8) NOT NULL, location_ip VARBINARY(16) NOT NULL, config_id BINARY(8) NOT NULL, location_latitude decimal(9, 6) DEFAULT NULL, PRIMARY KEY(idvisit), INDEX index_config (idvisit, config_id) ) DEFAULT CHARSET=utf8;
ALTER TABLE log_visit ADD COLUMN `visit_total_time` MEDIUMINT UNSIGNED NOT NULL, ADD COLUMN custom_var_k1 VARCHAR(200) DEFAULT NULL, ADD INDEX (custom_var_k1(20));
#: A learning platform, files in a cloud, a scheduler, a heartbeat.
CREATE TABLE mdl_course ( id BIGINT(10) NOT NULL auto_increment, fullname VARCHAR(254) NOT NULL DEFAULT '', summary LONGTEXT COLLATE utf8mb4_unicode_ci, visible TINYINT(1) NOT NULL DEFAULT 1, gradepass NUMERIC(10,5) NOT NULL DEFAULT 0, CONSTRAINT PRIMARY KEY (id) , KEY mdl_cour_ful_ix (fullname)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 DEFAULT COLLATE = utf8mb4_unicode_ci ROW_FORMAT=Dynamic COMMENT='Central course table';
ALTER TABLE mdl_course MODIFY COLUMN fullname VARCHAR(1333) NOT NULL DEFAULT '', ALTER visible SET DEFAULT 0;
CREATE TABLE `oc_filecache` (`fileid` BIGINT AUTO_INCREMENT NOT NULL, `path` VARCHAR(4000) DEFAULT NULL, `path_hash` VARCHAR(32) DEFAULT '' NOT NULL, `encrypted` INT DEFAULT 0 NOT NULL, `etag` VARCHAR(40) DEFAULT NULL, `permissions` INT DEFAULT 0, UNIQUE INDEX fs_storage_path_hash (`fileid`, `path_hash`), PRIMARY KEY(`fileid`)) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ENGINE = InnoDB ROW_FORMAT = compressed;
ALTER TABLE `oc_filecache` ADD `checksum` VARCHAR(255) DEFAULT NULL, CHANGE `permissions` `permissions` INT UNSIGNED DEFAULT 0;
CREATE TABLE dag_run (id INTEGER NOT NULL AUTO_INCREMENT, dag_id VARCHAR(250) COLLATE utf8_bin NOT NULL, execution_date TIMESTAMP(6) NOT NULL, conf BLOB, run_type VARCHAR(50) NOT NULL, PRIMARY KEY (id), CONSTRAINT dag_run_dag_id_execution_date_key UNIQUE (dag_id, execution_date));
ALTER TABLE dag_run MODIFY conf MEDIUMBLOB NULL, CHANGE execution_date logical_date TIMESTAMP(6) NOT NULL;
CREATE TABLE heartbeat (ts varchar(26) NOT NULL, server_id int unsigned NOT NULL PRIMARY KEY, file varchar(255) DEFAULT NULL, position bigint unsigned DEFAULT NULL);
