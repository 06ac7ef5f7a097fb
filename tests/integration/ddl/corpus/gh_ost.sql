#: gh-ost's whole sequence, twice: a column added with the atomic cut-over, and one that is called off.
#: on 9.7 5.7 mariadb-10.11
CREATE DATABASE shop;
USE shop;
CREATE TABLE customers (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, email VARCHAR(190) NOT NULL, name VARCHAR(80), PRIMARY KEY (id), UNIQUE KEY (email));
drop /* gh-ost */ table if exists `shop`.`_customers_gho`;
drop /* gh-ost */ table if exists `shop`.`_customers_del`;
drop /* gh-ost */ table if exists `shop`.`_customers_ghc`;
create /* gh-ost */ table `shop`.`_customers_ghc` (
			id bigint unsigned auto_increment,
			last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
			hint varchar(64) charset ascii not null,
			value varchar(4096) charset ascii not null,
			primary key(id),
			unique key hint_uidx(hint)
		) auto_increment=256 comment='tracks gh-ost';
create /* gh-ost */ table `shop`.`_customers_gho` like `shop`.`customers`;
alter /* gh-ost */ table `shop`.`_customers_gho` add column vat_id varchar(20) charset ascii after email, modify name varchar(120) not null default '';
insert /* gh-ost */ into `shop`.`_customers_ghc` (id, hint, value) values (NULLIF(2, 0), 'state', 'GhostTableMigrated') on duplicate key update last_update=NOW(), value=VALUES(value);
insert /* gh-ost `shop`.`customers` */ ignore into `shop`.`_customers_gho` (`id`, `email`, `name`) (select `id`, `email`, `name` from `shop`.`customers` force index (`PRIMARY`) where (((`id` > 0))) lock in share mode);
create /* gh-ost */ table `shop`.`_customers_del` (
			id int auto_increment primary key
		) engine=InnoDB comment='ghost-cut-over-sentry';
drop /* gh-ost */ table if exists `shop`.`_customers_del`;
rename /* gh-ost */ table `shop`.`customers` to `shop`.`_customers_del`, `shop`.`_customers_gho` to `shop`.`customers`;
drop /* gh-ost */ table if exists `shop`.`_customers_ghc`;
drop /* gh-ost */ table if exists `shop`.`_customers_del`;
create /* gh-ost */ table `shop`.`_customers_ghc` ( id bigint auto_increment, last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint varchar(64) charset ascii not null, value varchar(4096) charset ascii not null, primary key(id), unique key hint_uidx(hint) ) auto_increment=256;
create /* gh-ost */ table `shop`.`_customers_gho` like `shop`.`customers`;
alter /* gh-ost */ table `shop`.`_customers_gho` drop column vat_id, add index (name);
rename /* gh-ost */ table `shop`.`customers` to `shop`.`_customers_20240229123456_del`;
rename /* gh-ost */ table `shop`.`_customers_20240229123456_del` to `shop`.`customers`;
drop /* gh-ost */ table if exists `shop`.`_customers_gho`;
drop /* gh-ost */ table if exists `shop`.`_customers_ghc`;
