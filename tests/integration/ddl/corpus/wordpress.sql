#: WordPress as it is installed, upgraded through dbDelta, and extended by a shop plugin and others.
#: on 9.7 8.0 5.6 mariadb-10.11
CREATE DATABASE IF NOT EXISTS `wp` DEFAULT CHARACTER SET latin1;
USE wp;
#: Its own dates.
SET SESSION sql_mode = '';
CREATE TABLE wp_users (
  ID bigint(20) unsigned NOT NULL auto_increment,
  user_login varchar(60) NOT NULL default '',
  user_pass varchar(255) NOT NULL default '',
  user_nicename varchar(50) NOT NULL default '',
  user_email varchar(100) NOT NULL default '',
  user_registered datetime NOT NULL default '0000-00-00 00:00:00',
  user_status int(11) NOT NULL default '0',
  display_name varchar(250) NOT NULL default '',
  PRIMARY KEY  (ID),
  KEY user_login_key (user_login),
  KEY user_email (user_email)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE wp_posts (
	ID bigint(20) unsigned NOT NULL auto_increment,
	post_author bigint(20) unsigned NOT NULL default '0',
	post_date datetime NOT NULL default '0000-00-00 00:00:00',
	post_content longtext NOT NULL,
	post_title text NOT NULL,
	post_status varchar(20) NOT NULL default 'publish',
	post_name varchar(200) NOT NULL default '',
	menu_order int(11) NOT NULL default '0',
	PRIMARY KEY  (ID),
	KEY post_name (post_name(191))
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE wp_options (
	option_id bigint(20) unsigned NOT NULL auto_increment,
	option_name varchar(191) NOT NULL default '',
	option_value longtext NOT NULL,
	autoload varchar(20) NOT NULL default 'yes',
	PRIMARY KEY  (option_id),
	UNIQUE KEY option_name (option_name)
);
CREATE TABLE wp_links ( link_id bigint(20) unsigned NOT NULL auto_increment, link_url varchar(255) NOT NULL default '', link_updated datetime NOT NULL default '0000-00-00 00:00:00', link_notes mediumtext NOT NULL, PRIMARY KEY (link_id) );
CREATE TABLE wp_postmeta ( meta_id bigint(20) unsigned NOT NULL auto_increment, post_id bigint(20) unsigned NOT NULL default '0', meta_key varchar(255) default NULL, meta_value longtext, PRIMARY KEY (meta_id), KEY post_id (post_id), KEY meta_key (meta_key(191)) ) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
ALTER TABLE wp_posts ADD COLUMN guid varchar(255) NOT NULL default '';
ALTER TABLE wp_posts ADD KEY `type_status_date` (`post_status`,`post_date`,`ID`);
ALTER TABLE wp_posts ADD COLUMN post_type varchar(20) NOT NULL default 'post' AFTER menu_order, ADD COLUMN post_mime_type varchar(100) NOT NULL default '';
ALTER TABLE wp_users CHANGE COLUMN user_pass user_pass varchar(64) NOT NULL default '';
ALTER TABLE wp_users CHANGE COLUMN `user_login` user_login varchar(64) NOT NULL default '';
ALTER TABLE wp_options CHANGE COLUMN option_name option_name varbinary(191);
ALTER TABLE wp_options CHANGE COLUMN option_name option_name varchar(191) CHARACTER SET utf8mb4 NOT NULL default '';
ALTER TABLE wp_options CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
ALTER TABLE `wp_links` CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
ALTER TABLE wp_links ADD INDEX link_url (link_url(20)), ADD link_visible varchar(20) NOT NULL default 'Y';
CREATE TABLE IF NOT EXISTS wp_links (other int);
CREATE TABLE wp_woocommerce_order_items (
  order_item_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  order_item_name TEXT NOT NULL,
  order_item_type varchar(200) NOT NULL DEFAULT '',
  order_id BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY  (order_item_id),
  KEY order_id (order_id)
) COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_actionscheduler_actions ( action_id bigint(20) unsigned NOT NULL auto_increment, hook varchar(191) NOT NULL, scheduled_date_gmt datetime NULL default '0000-00-00 00:00:00', priority tinyint unsigned NOT NULL default '10', args varchar(191), extended_args varchar(8000) DEFAULT NULL, PRIMARY KEY  (action_id) ) DEFAULT CHARACTER SET utf8mb4;
CREATE TABLE `wp_yoast_indexable` (`id` int(11) UNSIGNED auto_increment NOT NULL, `permalink` longtext, `permalink_hash` varchar(40), `is_public` tinyint(1) DEFAULT NULL, `created_at` datetime, `updated_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, `version` int(11) UNSIGNED NOT NULL DEFAULT 1, PRIMARY KEY(`id`)) CHARACTER SET utf8mb4;
ALTER TABLE wp_postmeta ADD INDEX meta_value_hash (meta_key(20), post_id), DROP INDEX post_id;
ALTER DATABASE wp CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE wp_commentmeta (meta_id bigint unsigned not null, meta_value longtext);
DROP TABLE IF EXISTS wp_links, wp_commentmeta;
